"""Every operation with every element type, size and layout, against a result that each rank computes for itself."""

import functools
import os
from datetime import timedelta

import torch
import torch.distributed as dist
import tutti_collectives.torch as tutti
from job import RANK, SIZE, begin, raises, run, same

REAL = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32,
        torch.int64]
BYTES_ONLY = [torch.float8_e4m3fn, torch.float8_e5m2]
if SIZE == 4:  # fewer types keep the suite short; two and three ranks have all
    REAL = [torch.float32, torch.bfloat16, torch.int16]
TYPES = [*REAL, torch.bool, torch.complex64, torch.complex128, *BYTES_ONLY]
SIZES = [0, 1, 7, 1000, 40000]
ROOT = SIZE - 1
OTHER = (RANK + 1) % SIZE


def data(rank, dtype, count, salt=0):
    """The same small numbers for a rank at every rank."""
    values = (torch.arange(count) * 7 + rank * 3 + salt) % 5 + 1
    if dtype == torch.bool:
        return values % 2 == rank % 2
    if dtype.is_complex:
        return torch.complex(values.double(), -values.double()).to(dtype)
    return values.to(dtype)


def strided(tensor):
    """The same content in a tensor that is not contiguous and begins behind its storage's begin."""
    if tensor.numel() == 0:
        return tensor
    wide = torch.zeros(tensor.numel() + 1, 2, dtype=torch.uint8 if tensor.element_size() == 1 else tensor.dtype)
    narrow = wide.view(tensor.dtype)[1:, 1].view_as(tensor) if tensor.dim() == 1 else None
    narrow.copy_(tensor)
    return narrow


LAYOUTS = [torch.clone, strided]


def every(function):
    @functools.wraps(function)
    def all_types():
        for dtype in TYPES:
            for count in SIZES:
                for layout in LAYOUTS if count < 10000 else LAYOUTS[:1]:
                    function(dtype, count, layout)
    return all_types


def all_data(dtype, count, salt=0):
    return [data(rank, dtype, count, salt) for rank in range(SIZE)]


@every
def broadcast(dtype, count, layout):
    tensor = layout(data(RANK, dtype, count))
    dist.broadcast(tensor, ROOT)
    same(tensor, data(ROOT, dtype, count))


@every
def all_gather(dtype, count, layout):
    outputs = [layout(torch.zeros(count, dtype=dtype)) for _ in range(SIZE)]
    dist.all_gather(outputs, layout(data(RANK, dtype, count)))
    for found, expected in zip(outputs, all_data(dtype, count)):
        same(found, expected)


@every
def all_gather_single(dtype, count, layout):
    output = layout(torch.zeros(SIZE * count, dtype=dtype))
    dist.all_gather_into_tensor(output, layout(data(RANK, dtype, count)))
    same(output, torch.cat(all_data(dtype, count)))
    in_place = torch.zeros(SIZE * count, dtype=dtype)
    own = in_place[RANK * count:(RANK + 1) * count]
    own.copy_(data(RANK, dtype, count))
    dist.all_gather_into_tensor(in_place, own)
    same(in_place, torch.cat(all_data(dtype, count)))


@every
def gather_and_scatter(dtype, count, layout):
    outputs = [layout(torch.zeros(count, dtype=dtype)) for _ in range(SIZE)] if RANK == ROOT else None
    dist.gather(layout(data(RANK, dtype, count)), outputs, ROOT)
    if RANK == ROOT:
        for found, expected in zip(outputs, all_data(dtype, count)):
            same(found, expected)
    output = layout(torch.zeros(count, dtype=dtype))
    dist.scatter(output, [layout(one) for one in all_data(dtype, count)] if RANK == ROOT else None, ROOT)
    same(output, data(RANK, dtype, count))


@every
def all_to_all(dtype, count, layout):
    inputs = [layout(data(RANK, dtype, count, salt=to)) for to in range(SIZE)]
    outputs = [layout(torch.zeros(count, dtype=dtype)) for _ in range(SIZE)]
    dist.all_to_all(outputs, inputs)
    expected = [data(source, dtype, count, salt=RANK) for source in range(SIZE)]
    for found, right in zip(outputs, expected):
        same(found, right)
    output = layout(torch.zeros(SIZE * count, dtype=dtype))
    dist.all_to_all_single(output, layout(torch.cat([data(RANK, dtype, count, salt=to) for to in range(SIZE)])))
    same(output, torch.cat(expected))


def all_to_all_with_splits():
    rows = [[(source + 2 * to) % 3 for to in range(SIZE)] for source in range(SIZE)]  # some are 0
    row = lambda source, to: torch.full((rows[source][to], 3), float(10 * source + to))
    output = torch.zeros(sum(rows[source][RANK] for source in range(SIZE)), 3)
    dist.all_to_all_single(output, torch.cat([row(RANK, to) for to in range(SIZE)]),
                           [rows[source][RANK] for source in range(SIZE)], rows[RANK])
    same(output, torch.cat([row(source, RANK) for source in range(SIZE)]))


@every
def messages(dtype, count, layout):
    incoming = layout(torch.zeros(count, dtype=dtype))
    source = (RANK - 1) % SIZE
    receive = dist.irecv(incoming, source, tag=3)
    send = dist.isend(layout(data(RANK, dtype, count)), OTHER, tag=3)
    receive.wait(), send.wait()
    same(incoming, data(source, dtype, count))


def messages_by_tag_and_of_any_rank():
    if RANK == 0:
        for rank in range(1, SIZE):
            tensor = torch.zeros(4)
            source = dist.recv(tensor, tag=9)
            assert source == int(tensor[0]) and 0 < source < SIZE, (source, tensor)
        second, first = torch.zeros(2), torch.zeros(2)
        later = dist.irecv(second, 1, tag=2)
        dist.recv(first, 1, tag=1)
        later.wait()
        assert first[0] == 1 and second[0] == 2
    else:
        dist.send(torch.full((4,), float(RANK)), 0, tag=9)
        if RANK == 1:
            dist.send(torch.full((2,), 2.0), 0, tag=2)
            dist.send(torch.full((2,), 1.0), 0, tag=1)
    swap = torch.zeros(5)
    works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, swap, (RANK - 1) % SIZE),
                                    dist.P2POp(dist.isend, torch.full((5,), float(RANK)), OTHER)])
    for work in works:
        work.wait()
    assert swap[0] == (RANK - 1) % SIZE


def reduced(operation, dtype, count):
    parts = all_data(dtype, count)
    if dtype == torch.bool:
        wide = torch.stack(parts).to(torch.int64)
    else:
        wide = torch.stack(parts).to(torch.complex128 if dtype.is_complex else
                                     torch.float64 if dtype.is_floating_point else torch.int64)
    if operation == dist.ReduceOp.SUM:
        result = wide.sum(0)
    elif operation == dist.ReduceOp.AVG:
        total = wide.sum(0)
        result = total / SIZE if dtype.is_complex or dtype.is_floating_point else total // SIZE
    elif operation == dist.ReduceOp.PRODUCT:
        result = wide.prod(0)
    elif operation == dist.ReduceOp.MIN:
        result = wide.amin(0) if count else wide.sum(0)
    elif operation == dist.ReduceOp.MAX:
        result = wide.amax(0) if count else wide.sum(0)
    else:
        bitwise = {dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or,
                   dist.ReduceOp.BXOR: torch.bitwise_xor}[operation]
        result = functools.reduce(bitwise, list(wide))
    return (result != 0) if dtype == torch.bool else result.to(dtype)


def operations_of(dtype):
    names = ["SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG"]
    if dtype == torch.bool:
        names.remove("AVG")
    elif dtype.is_complex:
        names = ["SUM", "AVG"]
    elif dtype.is_floating_point:
        names = [name for name in names if not name.startswith("B")]
    return [getattr(dist.ReduceOp, name) for name in names]


def equal(found, expected, operation):
    """Equal, except for the rounding of an average."""
    if operation == dist.ReduceOp.AVG:
        assert torch.allclose(found, expected, rtol=0.02), (found, expected)
    else:
        same(found, expected)


def every_reduction(function):
    @functools.wraps(function)
    def all_types():
        for dtype in [*REAL, torch.bool, torch.complex64]:
            for operation in operations_of(dtype):
                for count in [0, 1, 257] if operation != dist.ReduceOp.SUM else SIZES:
                    for layout in LAYOUTS if count < 10000 else LAYOUTS[:1]:
                        function(operation, dtype, count, layout)
    return all_types


@every_reduction
def all_reduce(operation, dtype, count, layout):
    tensor = layout(data(RANK, dtype, count))
    dist.all_reduce(tensor, operation)
    equal(tensor, reduced(operation, dtype, count), operation)


@every_reduction
def reduce_to_the_root(operation, dtype, count, layout):
    tensor = layout(data(RANK, dtype, count))
    dist.reduce(tensor, ROOT, operation)
    if RANK == ROOT:
        equal(tensor, reduced(operation, dtype, count), operation)
    else:
        same(tensor, data(RANK, dtype, count))


@every_reduction
def reduce_scatter(operation, dtype, count, layout):
    whole = reduced(operation, dtype, SIZE * count)
    part = whole[RANK * count:(RANK + 1) * count]
    source = data(RANK, dtype, SIZE * count)
    output = layout(torch.zeros(count, dtype=dtype))
    dist.reduce_scatter_tensor(output, layout(source), operation)
    equal(output, part, operation)
    output = layout(torch.zeros(count, dtype=dtype))
    dist.reduce_scatter(output, [layout(one) for one in source.split(count)] if count else
                        [source.clone() for _ in range(SIZE)], operation)
    equal(output, part, operation)


def premultiplied_sums():
    for factor in (0.5, torch.tensor(0.5)):
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
            operation = dist._make_nccl_premul_sum(factor)
            expected = sum(data(rank, torch.float64, 64) * 0.5 for rank in range(SIZE)).to(dtype)
            tensor = data(RANK, dtype, 64)
            dist.all_reduce(tensor, operation)
            same(tensor, expected)
    alone = alone_group()
    tensor = torch.full((4,), 3.0)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(2.0), group=alone)
    same(tensor, torch.full((4,), 6.0))


def lists_of_unequal_tensors():
    sizes = [rank + 1 for rank in range(SIZE)]
    outputs = [torch.zeros(size) for size in sizes]
    dist.all_gather(outputs, torch.full((sizes[RANK],), float(RANK)))
    for rank, output in enumerate(outputs):
        same(output, torch.full((sizes[rank],), float(rank)))
    output = torch.zeros(sizes[RANK])
    dist.reduce_scatter(output, [torch.full((size,), 2.0) for size in sizes])
    same(output, torch.full((sizes[RANK],), 2.0 * SIZE))


def sparse_sums():
    tensor = torch.sparse_coo_tensor([[RANK, 9]], [1.0, 2.0], (10,), check_invariants=True)
    expected = torch.zeros(10)
    expected[:SIZE] = 1
    expected[9] = 2.0 * SIZE
    works = [dist.all_reduce(tensor, async_op=True), dist.all_reduce(dense := torch.ones(3), async_op=True)]
    for work in works:
        work.wait()
    same(tensor.to_dense(), expected)
    same(dense, torch.full((3,), float(SIZE)))
    rows = torch.sparse_coo_tensor([[RANK]], torch.full((1, 2), 3.0), (SIZE, 2), check_invariants=True)
    dist.all_reduce(rows)
    same(rows.to_dense(), torch.full((SIZE, 2), 3.0))
    empty = torch.sparse_coo_tensor(torch.zeros(1, 0), torch.zeros(0), (4,), check_invariants=True)
    dist.all_reduce(empty)
    same(empty.to_dense(), torch.zeros(4))


def coalesced_calls():
    tensors = [torch.full((count,), float(RANK + 1)) for count in (1, 5, 300)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    manager.wait()
    for tensor in tensors:
        assert (tensor == SIZE * (SIZE + 1) / 2).all(), tensor
    tensors = [torch.zeros(SIZE * count) for count in (2, 3)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_gather_into_tensor(tensor, torch.full((tensor.numel() // SIZE,), float(RANK)))
    same(tensors[0], torch.arange(SIZE).repeat_interleave(2).float())
    inputs = [torch.full((2, 2), float(RANK)), torch.full((0,), 1.0), torch.full((3,), RANK + 0.5)]
    lists = [[torch.zeros_like(one) for one in inputs] for _ in range(SIZE)]
    dist.all_gather_coalesced(lists, inputs)
    for rank, (first, nothing, last) in enumerate(lists):
        same(first, torch.full((2, 2), float(rank)))
        same(nothing, torch.zeros(0))
        same(last, torch.full((3,), rank + 0.5))
    outputs = [torch.zeros(2), torch.zeros(3)]
    with dist._coalescing_manager():
        for output in outputs:
            dist.reduce_scatter_tensor(output, torch.ones(SIZE * output.numel()))
    same(outputs[1], torch.full((3,), float(SIZE)))


def objects():
    found = [None] * SIZE
    dist.all_gather_object(found, {"rank": RANK})
    assert found == [{"rank": rank} for rank in range(SIZE)]
    one = ["text" if RANK == 0 else None]
    dist.broadcast_object_list(one)
    assert one == ["text"]
    parts = [None]
    dist.scatter_object_list(parts, list(range(SIZE)) if RANK == ROOT else None, ROOT)
    assert parts == [RANK]
    gathered = [None] * SIZE if RANK == 0 else None
    dist.gather_object(RANK, gathered)
    assert RANK != 0 or gathered == list(range(SIZE))


def alone_group():
    return [dist.new_group([rank]) for rank in range(SIZE)][RANK]


def groups():
    alone = alone_group()
    tensor = torch.full((3,), 5.0)
    dist.all_reduce(tensor, group=alone)
    output = torch.zeros(3)
    dist.all_gather_into_tensor(output, tensor, group=alone)
    dist.all_to_all_single(output, tensor, group=alone)
    same(output, tensor)
    sparse = torch.sparse_coo_tensor([[1, 1]], [1.0, 1.0], (3,), check_invariants=True)
    dist.all_reduce(sparse, group=alone)
    same(sparse.to_dense(), torch.tensor([0.0, 2.0, 0.0]))
    dist.barrier(group=alone)
    assert tutti.counters(alone)["torch_operations_alone"] == 5
    reverse = dist.new_group(list(range(SIZE))[::-1], sort_ranks=False) if SIZE > 2 else None
    if reverse is not None:
        found = torch.zeros(SIZE)
        dist.all_gather_into_tensor(found, torch.full((1,), float(RANK)), group=reverse)
        same(found, torch.arange(SIZE).flip(0).float())
    members = [0, SIZE - 1]
    part = dist.new_group(members)
    if RANK in members:
        tensor = torch.full((3,), float(RANK))
        dist.broadcast(tensor, SIZE - 1, group=part)
        same(tensor, torch.full((3,), float(SIZE - 1)))
    del reverse


def operations_of_two_groups_in_opposite_order():
    left, right = dist.new_group(list(range(SIZE))), dist.new_group(list(range(SIZE)))
    order = [left, right] if RANK % 2 else [right, left]
    tensors = [torch.ones(4), torch.ones(4)]
    works = [dist.all_reduce(tensor, group=group, async_op=True) for tensor, group in zip(tensors, order)]
    for work in works:
        work.wait()
    same(tensors[0], torch.full((4,), float(SIZE)))


def futures():
    tensors = [torch.full((100,), float(RANK)) for _ in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    total = SIZE * (SIZE - 1) / 2
    chained = [work.get_future().then(lambda done: done.value()[0] * 2) for work in works]
    for future in chained:
        assert (future.wait() == 2 * total).all()
    for work in works:
        assert work.is_completed() and work.exception() is None and (work.result()[0] == total).all()

    def call_again(done):  # as hooks of DistributedDataParallel do: a callback waits for another future
        return dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0]

    nested = dist.all_reduce(torch.ones(10), async_op=True).get_future().then(call_again).then(lambda f: f.value() + 1)
    assert (nested.wait() == SIZE * SIZE + 1).all()
    dropped = torch.ones(100000)
    for _ in range(5):
        dist.all_reduce(dropped, async_op=True)  # the work is dropped
    dist.barrier()
    assert dist.barrier(async_op=True).get_future().wait() == []


def refusals():
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    raises(ValueError, ["device meta", ".cpu()"], backend.allreduce, torch.ones(2, device="meta"))
    raises(ValueError, ["Float8_e5m2", "convert"], dist.all_reduce, torch.ones(2).to(torch.float8_e5m2))
    raises(ValueError, ["ReduceOp.BAND", "Float"], dist.all_reduce, torch.ones(2), dist.ReduceOp.BAND)
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX
    raises(ValueError, ["ReduceOp.MAX", "ComplexFloat"], backend.allreduce, [torch.ones(2, dtype=torch.complex64)], options)
    raises(ValueError, ["add up to"], dist.all_to_all_single, torch.zeros(SIZE), torch.zeros(SIZE),
           [0] * SIZE, [0] * SIZE)
    dist.barrier()


def barriers_and_numbers():
    group = dist.group.WORLD
    for wait_for_all in (False, True):
        group.monitored_barrier(timedelta(seconds=20), wait_for_all)
    backend = group._get_backend(torch.device("cpu"))
    if os.environ.get("TORCH_DISTRIBUTED_DEBUG") != "DETAIL":
        assert backend.name() == "tutti"
    group.set_timeout(timedelta(seconds=59))


def synchronous_operations_wait_at_once():
    counts = []
    for asynchronous in (False, True):
        before = tutti.counters()["torch_operations_waited"]
        for work in (dist.all_reduce(torch.ones(8), async_op=asynchronous), dist.barrier(async_op=asynchronous),
                     dist.all_gather_into_tensor(torch.ones(SIZE), torch.ones(1), async_op=asynchronous)):
            if work is not None:
                work.wait()
        counts.append(tutti.counters()["torch_operations_waited"] - before)
    assert counts == [3, 0], counts


def allgathers_have_high_priority():
    counts = []
    for priority in (None, "low", "high"):
        group = dist.new_group(range(SIZE), backend="tutti", pg_options=tutti.Options(priority=priority))
        dist.all_reduce(torch.ones(8), group=group)
        before = tutti.counters(group)["torch_operations_high_priority"]
        dist.all_gather_into_tensor(torch.ones(SIZE), torch.ones(1), group=group)
        dist.all_gather([torch.ones(1) for _ in range(SIZE)], torch.ones(1), group=group)
        dist.all_reduce(torch.ones(8), group=group)
        dist.reduce_scatter_tensor(torch.ones(1), torch.ones(SIZE), group=group)
        counts.append(tutti.counters(group)["torch_operations_high_priority"] - before)
    assert counts == [2, 0, 4], counts
    raises(Exception, ["priority is 'urgent': use low, normal or high"], dist.new_group, range(SIZE), backend="tutti",
           pg_options=tutti.Options(priority="urgent"))


def layouts_are_counted():
    before = tutti.counters()
    dist.all_reduce(torch.ones(8))
    assert tutti.counters()["torch_staged_tensors"] == before["torch_staged_tensors"]
    dist.all_reduce(torch.ones(4, 4)[:, 1])
    after = tutti.counters()
    assert after["torch_staged_tensors"] == before["torch_staged_tensors"] + 1
    assert after["torch_staged_bytes"] == before["torch_staged_bytes"] + 16
    assert after["collectives_completed"] > before["collectives_completed"]


DETAILED = [futures, barriers_and_numbers, objects, coalesced_calls, groups, sparse_sums]
CASES = [broadcast, all_gather, all_gather_single, gather_and_scatter, all_to_all, all_to_all_with_splits, messages,
         messages_by_tag_and_of_any_rank, all_reduce, reduce_to_the_root, reduce_scatter, premultiplied_sums,
         lists_of_unequal_tensors, refusals, operations_of_two_groups_in_opposite_order, layouts_are_counted,
         synchronous_operations_wait_at_once, allgathers_have_high_priority, *DETAILED]

if __name__ == "__main__":
    begin()
    run(DETAILED if os.environ.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL" else CASES)
    dist.destroy_process_group()
