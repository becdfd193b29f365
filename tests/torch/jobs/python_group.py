"""The backend in Python, which serves a torch without an adapter."""

import gc
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist
import tutti_collectives
import tutti_collectives.torch as tutti
from job import RANK, SIZE, await_ranks, begin, raises, run, same, tell
from operations import (all_gather, all_gather_single, all_reduce, all_to_all, all_to_all_with_splits, broadcast,
                        gather_and_scatter, messages, messages_by_tag_and_of_any_rank, objects, reduce_scatter,
                        reduce_to_the_root)
from tutti_collectives.torch import _python_group
from tutti_collectives.torch._python_group import _memory
from training import distributed_data_parallel, distributed_tensors, fsdp1, sharded, train, twice, whole


def beginning_warns():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        begin()
    assert any("backend in Python" in str(one.message) for one in found), found


def fsdp2():
    twice(lambda: whole(train(sharded(dist.device_mesh.init_device_mesh("cpu", (SIZE,))))))


def refusals():
    raises(ValueError, ["PREMUL_SUM", "adapter"], dist.all_reduce, torch.ones(2), dist._make_nccl_premul_sum(2.0))
    assert tutti.counters()["collectives_completed"] > 0


def wrong_splits_are_refused():
    one, two, many = torch.zeros(1), torch.zeros(SIZE), torch.zeros(SIZE + 1)
    equal, short, negative = [1] * SIZE, [0] * SIZE, [-1, *[1] * (SIZE - 2), 3]
    for output, source, splits, words in (
            (two, many, ([], []), ["dimension 0 of the input", "cannot share equally"]),
            (many, two, ([], []), ["dimension 0 of the output", "cannot share equally"]),
            (two, two, (equal, short), ["the input split sizes add up to 0"]),
            (two, two, (short, equal), ["the output split sizes add up to 0"]),
            (two, two, (equal, negative), ["an input split size is -1"]),
            (two, two, (equal, [1]), ["1 input split sizes were given"])):
        raises(ValueError, words, dist.all_to_all_single, output, source, *splits)


def memory_of_a_call_keeps_its_tensor():
    tensor = torch.ones(1000)
    alive = weakref.ref(tensor)
    memory = memoryview(_memory(tensor))
    del tensor
    gc.collect()
    assert alive() is not None
    del memory
    gc.collect()
    assert alive() is None


def group_that_failed_ends_with_a_warning():
    begin("failed")
    dist.barrier()
    group = dist.group.WORLD
    group.abort()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        dist.destroy_process_group()
    assert any("end of group" in str(one.message) for one in found), found
    assert not dist.is_initialized()
    raises(dist.DistBackendError, ["was shut down"], group.barrier)
    begin("after")
    dist.barrier()
    dist.destroy_process_group()


def conjugated_tensors():
    own = torch.full((SIZE,), complex(RANK, 1))
    outputs = [torch.zeros(SIZE, dtype=own.dtype) for _ in range(SIZE)] if RANK == 0 else None
    dist.gather(own.conj(), outputs, 0)
    for rank, found in enumerate(outputs or []):
        same(found, torch.full((SIZE,), complex(rank, -1)))
    output = torch.zeros(1, dtype=own.dtype).conj()
    dist.reduce_scatter_tensor(output, own.conj())
    same(output, torch.full((1,), complex(SIZE * (SIZE - 1) / 2, -SIZE)))


def negated_tensors():
    """The memory of each tensor has the negative numbers."""
    def negated(number):
        return torch._neg_view(torch.full((3,), -float(number)))

    dist.all_reduce(tensor := negated(RANK), dist.ReduceOp.MAX)
    same(tensor, torch.full((3,), float(SIZE - 1)))
    dist.broadcast(tensor := negated(RANK) if RANK == 0 else torch.ones(3), 0)
    same(tensor, torch.zeros(3))
    dist.broadcast(tensor := negated(5) if RANK == 0 else negated(6), 0)
    same(tensor, torch.full((3,), 5.0))
    output = negated(0)
    receive = dist.irecv(output, (RANK - 1) % SIZE)
    dist.isend(negated(RANK), (RANK + 1) % SIZE).wait(), receive.wait()
    same(output, torch.full((3,), float((RANK - 1) % SIZE)))


def late_rank_does_not_meet_a_later_call():
    begin("late", timeout_s=2)
    if RANK > 0:
        await_ranks("gave_up", [0])
        raises(dist.DistBackendError, ["Timed out"], dist.all_reduce, torch.ones(1))
    else:
        raises(dist.DistBackendError, ["Timed out"], dist.all_reduce, torch.ones(1))
        raises(dist.DistBackendError, ["was aborted", "ranks [1] have not come"], dist.all_reduce, torch.ones(1))
        tell("gave_up")
    dist.destroy_process_group()


def threads_create_one_communicator():
    begin("threads")
    meetings = []

    class Counted(_python_group.Meeting):
        def __init__(self, *arguments):
            meetings.append(self)
            super().__init__(*arguments)

    _python_group.Meeting = Counted
    if RANK == 0:
        threads = ThreadPoolExecutor()
        barriers = [threads.submit(dist.group.WORLD.barrier) for _ in range(2)]
        tell("threads")
        for one in barriers:
            one.result()
    else:
        await_ranks("threads", [0])
        dist.barrier(), dist.barrier()
    assert len(meetings) == 1, meetings
    _python_group.Meeting = Counted.__base__
    dist.destroy_process_group()


def shutdown_ends_a_creation():
    begin("creation")
    group = dist.group.WORLD
    if RANK == 0:
        creator = ThreadPoolExecutor().submit(raises, dist.DistBackendError, ["was shut down"], group.barrier)
        while not group._creation.locked():
            pass
        group.shutdown()
        tell("creation")
        creator.result()
        raises(tutti_collectives.TuttiError, ["was shut down"], group._communicator.barrier)
    else:
        await_ranks("creation", [0])
        raises(dist.DistBackendError, [], dist.barrier)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.destroy_process_group()


def groups():
    part = dist.new_group([0, 1])
    if RANK < 2:
        dist.all_reduce(tensor := torch.ones(3), group=part)
        assert tensor[0] == 2


if __name__ == "__main__":
    run([beginning_warns, broadcast, all_gather, all_gather_single, gather_and_scatter, all_to_all, all_to_all_with_splits,
         messages, messages_by_tag_and_of_any_rank, all_reduce, reduce_to_the_root, reduce_scatter, objects, groups,
         memory_of_a_call_keeps_its_tensor, conjugated_tensors, negated_tensors, refusals, wrong_splits_are_refused,
         distributed_data_parallel, fsdp1, fsdp2, distributed_tensors, dist.destroy_process_group,
         group_that_failed_ends_with_a_warning, late_rank_does_not_meet_a_later_call, threads_create_one_communicator,
         shutdown_ends_a_creation])
