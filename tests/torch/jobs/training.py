"""Training over the backend, compared with one process that has all the data; each kind runs twice with equal bits."""

import json
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import tutti_collectives.torch as tutti
from job import FOLDER, RANK, SIZE, begin, run, same
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

ROWS = 8
TOLERANCE = float(os.environ.get("JOB_TOLERANCE", "1e-6"))  # of float32
BFLOAT16_TOLERANCE = 2e-2
WIDTH = int(os.environ.get("JOB_WIDTH", "33"))
RATE = 3.3 / WIDTH  # a wider layer moves the outputs more
STEPS = int(os.environ.get("JOB_STEPS", "3"))
INPUTS = torch.randn(ROWS * SIZE, 16, generator=torch.Generator().manual_seed(1))
TARGETS = torch.randn(ROWS * SIZE, 8, generator=torch.Generator().manual_seed(2))
MINE = slice(ROWS * RANK, ROWS * (RANK + 1))


def make_model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 20), nn.ReLU(), nn.Linear(20, 8))


def train(model, rows=MINE):
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(INPUTS[rows]), TARGETS[rows]).backward()
        optimizer.step()
    return model


def reference():
    return [one.detach() for one in train(make_model(), slice(None)).parameters()]


def mixed_reference(reduce_dtype):
    """One process that computes the gradient of each rank's rows in bfloat16 and their mean in `reduce_dtype`."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    names = [name for name, _ in model.named_parameters()]
    for _ in range(STEPS):
        means = [torch.zeros_like(one, dtype=reduce_dtype) for one in model.parameters()]
        for begin_row in range(0, ROWS * SIZE, ROWS):
            rows = slice(begin_row, begin_row + ROWS)
            low = [one.detach().to(torch.bfloat16).requires_grad_() for one in model.parameters()]
            outputs = torch.func.functional_call(model, dict(zip(names, low, strict=True)), INPUTS[rows].to(torch.bfloat16))
            gradients = torch.autograd.grad(nn.functional.mse_loss(outputs, TARGETS[rows]), low)
            for mean, gradient in zip(means, gradients, strict=True):
                mean += gradient.to(reduce_dtype)
        for parameter, mean in zip(model.parameters(), means, strict=True):
            parameter.grad = (mean / SIZE).float()
        optimizer.step()
    return [one.detach() for one in model.parameters()]


def close(found, tolerance=TOLERANCE, expected=None):
    for left, right in zip(found, expected or reference(), strict=True):
        assert (left.float() - right).abs().max() <= tolerance, (left - right).abs().max()


def twice(make, tolerance=TOLERANCE, expected=None):
    """Trains two times; the results are close to those of one process, and equal to each other."""
    first, second = make(), make()
    close(first, tolerance, expected)
    for left, right in zip(first, second, strict=True):
        same(left, right)


def whole(model):
    return [one.full_tensor().detach() if isinstance(one, DTensor) else one.detach() for one in model.parameters()]


def distributed_data_parallel():
    twice(lambda: whole(train(nn.parallel.DistributedDataParallel(make_model(), bucket_cap_mb=0.001)).module))


def distributed_data_parallel_with_a_hook():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    model = nn.parallel.DistributedDataParallel(make_model())
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    close(whole(train(model).module), 1e-2)


def distributed_data_parallel_with_power_sgd():
    """PowerSGD only approximates the gradients, so the results are compared with those over Gloo."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    def trained(group=None):
        model = nn.parallel.DistributedDataParallel(make_model(), process_group=group)
        state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=8, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        return whole(train(model).module)

    close(trained(), 1e-4, trained(dist.new_group(backend="gloo")))


def uneven_inputs():
    """Ranks with fewer rows leave the training early; the gradients are compared with those over Gloo."""
    from torch.distributed.algorithms.join import Join

    def gradients(group=None):
        model = nn.parallel.DistributedDataParallel(make_model(), process_group=group)
        with Join([model]):
            for _ in range(RANK + 1):
                model(INPUTS[MINE]).sum().backward()
        return [one.grad.clone() for one in model.parameters()]

    close(gradients(), 1e-3, gradients(dist.new_group(backend="gloo")))


def fsdp1():
    def make():
        model = train(FullyShardedDataParallel(make_model(), use_orig_params=True, device_id=torch.device("cpu")))
        with FullyShardedDataParallel.summon_full_params(model):
            return [one.detach().clone() for one in model.parameters()]
    twice(make)


def sharded(mesh, policy=None, divide_factor=None):
    model = make_model()
    options = {"mesh": mesh, "mp_policy": policy or MixedPrecisionPolicy()}
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, **options)
    fully_shard(model, **options)
    if divide_factor is not None:
        for layer in [model, *model]:
            if hasattr(layer, "set_gradient_divide_factor"):
                layer.set_gradient_divide_factor(divide_factor)
    return model


def fsdp2():
    mesh = init_device_mesh("cpu", (SIZE,))
    twice(lambda: whole(train(sharded(mesh))))
    # The factor makes PREMUL_SUM of the reductions; with the number of ranks the mean is the same.
    twice(lambda: whole(train(sharded(mesh, divide_factor=float(SIZE)))))
    mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    twice(lambda: whole(train(sharded(mesh, mixed))), BFLOAT16_TOLERANCE, mixed_reference(torch.float32))
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    twice(lambda: whole(train(sharded(mesh, half))), BFLOAT16_TOLERANCE, mixed_reference(torch.bfloat16))


def hybrid_sharding():
    mesh = init_device_mesh("cpu", (2, SIZE // 2), mesh_dim_names=("replicate", "shard"))
    twice(lambda: whole(train(sharded(mesh))))


def distributed_tensors():
    mesh = init_device_mesh("cpu", (SIZE,))
    whole_tensor = torch.arange(48 * SIZE, dtype=torch.float32).view(4 * SIZE, 12)
    rows = distribute_tensor(whole_tensor, mesh, [Shard(0)])
    for placement in ([Replicate()], [Shard(1)], [Shard(0)], [Replicate()]):
        rows = rows.redistribute(mesh, placement)
        same(rows.full_tensor(), whole_tensor)
    partial = DTensor.from_local(torch.ones(4 * SIZE, 3), mesh, [Partial()])
    same(partial.redistribute(mesh, [Shard(0)]).to_local(), torch.full((4, 3), float(SIZE)))
    same(partial.redistribute(mesh, [Replicate()]).to_local(), torch.full((4 * SIZE, 3), float(SIZE)))


def checkpoints():
    mesh = init_device_mesh("cpu", (SIZE,))
    model = train(sharded(mesh))
    before = whole(model)
    checkpoint.save({"model": get_model_state_dict(model)}, checkpoint_id=f"{FOLDER}/saved")
    fresh = sharded(mesh)
    load(fresh)
    for left, right in zip(whole(fresh), before, strict=True):
        same(left, right)
    if RANK == 0:
        torch.save(before, f"{FOLDER}/whole.pt")


def load(model):
    state = {"model": get_model_state_dict(model)}
    checkpoint.load(state, checkpoint_id=f"{FOLDER}/saved")
    set_model_state_dict(model, state["model"])


def checkpoint_of_another_number_of_ranks():
    fresh = sharded(init_device_mesh("cpu", (SIZE,)))
    load(fresh)
    for left, right in zip(whole(fresh), torch.load(f"{FOLDER}/whole.pt"), strict=True):
        same(left, right)


CASES = [distributed_data_parallel, distributed_data_parallel_with_a_hook, distributed_data_parallel_with_power_sgd,
         uneven_inputs, fsdp1, fsdp2,
         distributed_tensors, checkpoints]

if __name__ == "__main__":
    begin(pg_options=tutti.Options(**dict(part.split("=") for part in os.environ.get("JOB_OPTIONS", "").split())))
    chosen = os.environ.get("JOB_CASES", "").split()
    for case in [globals()[name] for name in chosen] or (CASES if SIZE == 2 else [hybrid_sharding, distributed_tensors]):
        run([case])
        if RANK == 0:
            print(f"counters after {case.__name__} {json.dumps(tutti.counters())}", flush=True)
    dist.destroy_process_group()
