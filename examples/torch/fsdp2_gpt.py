#!/usr/bin/env python3
"""Trains a small GPT on the documents of this repository, with its parameters sharded by FSDP2 over all ranks.

    torchrun --nproc-per-node 4 examples/torch/fsdp2_gpt.py --backend tutti
    torchrun --nproc-per-node 4 examples/torch/fsdp2_gpt.py --backend gloo

The two commands differ only in the backend. Each rank reads batches of its own; the losses that
rank 0 prints are means over the ranks. `--checkpoint DIR` with `--save-every STEPS` saves
distributed checkpoints, and a restart continues from the newest one, so that `torchrun
--max-restarts 3` survives a rank that is killed. `--result FILE` writes times and losses as JSON.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional

DOCUMENTS = pathlib.Path(__file__).resolve().parents[2] / "docs"
BYTE_VALUES = 256


class Block(nn.Module):
    """One layer of the transformer: causal attention, then a perceptron, each with a residual connection."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = self.queries_keys_values(self.attention_norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.attention_out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.perceptron(x)


class Gpt(nn.Module):
    """Predicts the next byte of a text."""

    def __init__(self, layers: int, width: int, heads: int, context: int):
        super().__init__()
        self.bytes = nn.Embedding(BYTE_VALUES, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, BYTE_VALUES)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.bytes(text) + self.positions(torch.arange(text.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def shard(model: Gpt, asynchronous: bool) -> Gpt:
    """Shards each block and the rest over all ranks. Parameters and gradients travel as bfloat16.

    On the CPU, FSDP2 waits for each Allgather where it is started. If `asynchronous`, the Allgather of the next block is
    started one block ahead and waited for where the block begins, so that it runs beside the computation and, in the
    backward pass, beside the Reduce-Scatter of the block before."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    if asynchronous:
        for block, following in zip(model.blocks, list(model.blocks)[1:]):
            block.set_modules_to_forward_prefetch([following])
        model._set_unshard_async_op(True)  # also for the blocks; PyTorch 2.14 has no public setter
    return model


class Text:
    """Random pieces of the documents; each rank and step draws its own."""

    def __init__(self, context: int, batch: int):
        files = sorted(DOCUMENTS.rglob("*.md"))
        data = b"\n".join(file.read_bytes() for file in files)
        self.bytes = torch.frombuffer(bytearray(data), dtype=torch.uint8).long()
        self.context = context
        self.batch = batch

    def draw(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        random = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
        starts = torch.randint(len(self.bytes) - self.context - 1, (self.batch,), generator=random)
        pieces = torch.stack([self.bytes[start:start + self.context + 1] for start in starts.tolist()])
        return pieces[:, :-1], pieces[:, 1:]


class Checkpoint:
    """Saves model, optimizer and step in a folder that all ranks reach, and loads the newest complete save."""

    def __init__(self, folder: str | None, model: nn.Module, optimizer: torch.optim.Optimizer):
        self.folder = pathlib.Path(folder) if folder else None
        self.model = model
        self.optimizer = optimizer

    def _state(self, step: int) -> dict:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "step": torch.tensor(step)}

    def load(self) -> int:
        """Loads the newest checkpoint and returns its number of steps; 0 without a checkpoint."""
        saves = sorted(self.folder.glob("step-*/.metadata")) if self.folder else []
        if not saves:
            return 0
        state = self._state(0)
        dcp.load(state, checkpoint_id=saves[-1].parent)
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        return int(state["step"])

    def save(self, step: int) -> None:
        if self.folder:
            dcp.save(self._state(step), checkpoint_id=self.folder / f"step-{step:06d}")


def mean_over_ranks(value: torch.Tensor) -> float:
    dist.all_reduce(value, op=dist.ReduceOp.AVG)
    return value.item()


def train(options: argparse.Namespace, model: Gpt) -> dict:
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
    text = Text(options.context, options.batch)
    checkpoint = Checkpoint(options.checkpoint, model, optimizer)
    done = checkpoint.load()
    losses: list[float] = []
    step_seconds: list[float] = []
    for step in range(done, options.steps):
        begun = time.perf_counter()
        given, wanted = text.draw(step)
        loss = functional.cross_entropy(model(given).flatten(0, 1).float(), wanted.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        step_seconds.append(time.perf_counter() - begun)
        losses.append(mean_over_ranks(loss.detach()))
        if dist.get_rank() == 0 and (step % options.print_every == 0 or step + 1 == options.steps):
            print(f"step {step:5}  loss {losses[-1]:.4f}  {step_seconds[-1] * 1e3:8.1f} ms", flush=True)
        if options.save_every and (step + 1) % options.save_every == 0:
            checkpoint.save(step + 1)
    return {"first_step": done, "losses": losses, "step_seconds": step_seconds, "parameters_sum": parameters_sum(model)}


@torch.no_grad()
def parameters_sum(model: nn.Module) -> float:
    """The sum of all parameters, which is equal to the last bit in two equal runs."""
    own = torch.stack([parameter.to_local().double().sum() for parameter in model.parameters()]).sum()
    sums = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(sums, own)
    return math.fsum(one.item() for one in sums)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tutti", help="backend of torch.distributed (default: tutti)")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--context", type=int, default=128, help="length of a piece of text in bytes")
    parser.add_argument("--batch", type=int, default=4, help="pieces of text for each rank and step")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--asynchronous", action="store_true", help="start each Allgather one block ahead")
    parser.add_argument("--checkpoint", metavar="DIR", help="folder of checkpoints, reached by all ranks")
    parser.add_argument("--save-every", type=int, default=0, metavar="STEPS")
    parser.add_argument("--print-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--result", metavar="FILE", help="rank 0 writes losses and times here as JSON")
    return parser.parse_args()


def main() -> None:
    options = parse()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group(options.backend)
    with contextlib.ExitStack() as at_end:
        at_end.callback(dist.destroy_process_group)
        model = shard(Gpt(options.layers, options.width, options.heads, options.context), options.asynchronous)
        result = train(options, model)
        if options.result and dist.get_rank() == 0:
            result |= {"backend": options.backend, "ranks": dist.get_world_size(), "asynchronous": options.asynchronous}
            pathlib.Path(options.result).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
