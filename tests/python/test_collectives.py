"""Every collective, blocking, nonblocking, prepared and in place, among real processes; counters tell the path."""

import numpy
import pytest
from job_of_functions import added, run, run_on_devices
from tutti_collectives import CallOptions, Operation


def same(found, wanted):
    numpy.testing.assert_array_equal(found, wanted)


def numbers(rank, count=5):
    return numpy.arange(count, dtype=numpy.int64) + 100 * rank


def rank_moves(comm, form):
    """Runs every collective that moves bytes by one form of call."""
    calls, run_call = forms(comm, form)
    mine, size, rank = numbers(comm.rank), comm.size, comm.rank
    table = numpy.stack([numbers(one) for one in range(size)])

    everything = numpy.zeros_like(table)
    run_call(calls.allgather(mine, everything))
    same(everything, table)
    everything[:] = 0
    everything[rank] = mine
    run_call(calls.allgather(None, everything))
    same(everything, table)

    data = numbers(7) if rank == size - 1 else numpy.zeros(5, numpy.int64)
    run_call(calls.broadcast(data, root=size - 1))
    same(data, numbers(7))

    everything = numpy.zeros_like(table) if rank == 1 else None
    run_call(calls.gather(mine, everything, root=1))
    if rank == 1:
        same(everything, table)
        everything[numpy.arange(size) != rank] = 0
    run_call(calls.gather(None if rank == 1 else mine, everything, root=1))
    if rank == 1:
        same(everything, table)

    part = numpy.zeros(5, numpy.int64)
    run_call(calls.scatter(table if rank == 0 else None, part))
    same(part, mine)
    part[:] = 0
    run_call(calls.scatter(table if rank == 0 else None, None if rank == 0 else part))
    same(table[0] if rank == 0 else part, mine)

    incoming = numpy.zeros((size, 1), numpy.int64)
    run_call(calls.alltoall(numpy.array([10 * rank + one for one in range(size)]), incoming))
    same(incoming[:, 0], [10 * one + rank for one in range(size)])
    run_call(calls.barrier())


def rank_varies(comm, form):
    """Runs every collective with blocks of different sizes: rank r has r elements, or r + 1."""
    calls, run_call = forms(comm, form)
    size, rank = comm.size, comm.rank
    counts = list(range(size))
    mine = numpy.full(rank, rank, numpy.float32)
    packed = numpy.concatenate([numpy.full(one, one, numpy.float32) for one in range(size)])

    everything = numpy.zeros_like(packed)
    run_call(calls.allgatherv(mine, everything, counts))
    same(everything, packed)

    spaced = numpy.full(2 * size * size, -1, numpy.float32)
    offsets = [2 * size * one for one in range(size)]
    run_call(calls.allgatherv(mine, spaced, counts, offsets))
    for one in range(size):
        same(spaced[offsets[one]:offsets[one] + one], numpy.full(one, one))
    assert (spaced == -1).sum() == spaced.size - packed.size

    everything = numpy.zeros_like(packed) if rank == 0 else None
    run_call(calls.gatherv(mine, everything, counts))
    if rank == 0:
        same(everything, packed)
    part = numpy.zeros(rank, numpy.float32)
    run_call(calls.scatterv(packed if rank == 0 else None, part, counts))
    same(part, mine)

    outgoing = numpy.repeat(numpy.arange(size), rank + 1)  # rank + 1 elements to each rank, which name the rank
    incoming = numpy.zeros(sum(one + 1 for one in range(size)), outgoing.dtype)
    run_call(calls.alltoallv(outgoing, incoming, [rank + 1] * size, [one + 1 for one in range(size)]))
    same(incoming, numpy.full_like(incoming, rank))

    part = numpy.zeros(rank, numpy.float32)
    run_call(calls.reduce_scatterv(packed, part, counts))
    same(part, size * mine)


def rank_reduces(comm, form):
    """Runs every reduction, with every type of numpy, in place and not."""
    calls, run_call = forms(comm, form)
    size, rank = comm.size, comm.rank
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
                 "float64"):
        mine, total = numpy.array([rank, 2, 3], name), numpy.zeros(3, name)
        run_call(calls.allreduce(mine, total))
        same(total, numpy.array([sum(range(size)), 2 * size, 3 * size], name))
        run_call(calls.allreduce(mine, op="max"))
        same(mine, numpy.array([size - 1, 2, 3], name))

    for op, wanted in (("sum", 2.0 ** size - 1), (Operation.MIN, 1), ("max", 2.0 ** (size - 1)),
                       ("average", (2.0 ** size - 1) / size), ("prod", 2.0 ** sum(range(size)))):
        value = numpy.array([2.0 ** rank])
        run_call(calls.allreduce(value, op=op))
        assert value[0] == wanted, (op, value)
    for op, wanted in (("and", 0), ("or", 2 ** size - 1), ("xor", 2 ** size - 1)):
        bits = numpy.array([1 << rank], numpy.uint32)
        run_call(calls.allreduce(bits, op=op))
        assert bits[0] == wanted, (op, bits)
    value = numpy.array([1.0], numpy.float32)
    run_call(calls.allreduce(value, op="premultiplied_sum", factor=rank + 1))
    assert value[0] == sum(range(1, size + 1))

    root = size - 1
    mine = numbers(rank)
    total = numpy.zeros(5, numpy.int64) if rank == root else None
    run_call(calls.reduce(mine, total, root=root))
    if rank == root:
        same(total, sum(numbers(one) for one in range(size)))
        total[:] = mine
    run_call(calls.reduce(None if rank == root else mine, total, root=root))
    if rank == root:
        same(total, sum(numbers(one) for one in range(size)))

    whole = numpy.tile(mine, (size, 1))
    part = numpy.zeros(5, numpy.int64)
    run_call(calls.reduce_scatter(whole, part))
    same(part, sum(numbers(one) for one in range(size)))
    run_call(calls.reduce_scatter(whole, None, op="max"))
    same(whole[rank], numbers(size - 1))

    bits = numpy.array([0x3F80, 0x4000], numpy.uint16)  # 1 and 2 in bfloat16
    run_call(calls.allreduce(bits, dtype="bfloat16"))
    same(bits, [0x4000, 0x4080] if size == 2 else [0x4080, 0x4100])


def forms(comm, form):
    """The object that has the calls of a form, and the function that carries one out."""
    if form == "blocking":
        return comm, lambda _: None
    if form == "nonblocking":
        return comm.start, lambda request: request.wait()

    return comm.prepare, lambda prepared: prepared.run()


@pytest.mark.parametrize("form", ["blocking", "nonblocking", "prepared"])
@pytest.mark.parametrize("function", [rank_moves, rank_varies, rank_reduces], ids=lambda one: one.__name__)
def test_collectives_onFourRanks_deliverEveryByte(function, form):
    run_on_devices(function, 4, form)


def rank_counts_paths(comm):
    large = numpy.full(1 << 20, comm.rank, numpy.uint8)
    everything = numpy.zeros((comm.size, 1 << 20), numpy.uint8)
    counted = added(comm, lambda: comm.allgather(large, everything))
    assert counted["device_multicast_bytes_sent"] >= 1 << 20 and counted["chunks_received"] > 0, counted
    assert counted["collectives_completed"] == 1
    counted = added(comm, lambda: comm.allgather(large, everything, options=CallOptions(algorithm="ring")))
    assert "device_multicast_bytes_sent" not in counted, counted
    assert counted["device_reliable_bytes_sent"] >= 1 << 20
    counted = added(comm, lambda: comm.allreduce(large))
    assert counted["bytes_reduced"] >= (1 << 20) // comm.size, counted
    counted = added(comm, comm.barrier)
    assert counted["slot_exchanges"] == 1, counted


def test_path_ofEachCall_isSeenInTheCounters():
    run(rank_counts_paths, 2, TUTTI_DEVICE="ip")
    run(rank_counts_paths, 2, TUTTI_DEVICE="host")


def rank_prepared_many(comm):
    value = numpy.ones(3)
    step = comm.prepare.allreduce(value, op="sum")
    counted = added(comm, lambda: [step.run(timeout=30) for _ in range(10)])
    same(value, numpy.full(3, float(comm.size) ** 10))
    assert counted["collectives_completed"] == 10


def test_preparedCall_thatRunsTenTimes_sumsTenTimes():
    run_on_devices(rank_prepared_many, 2)


def rank_communicators(comm):
    twin = comm.duplicate()
    halves = comm.split(color=comm.rank % 2, key=-comm.rank)
    assert (halves.size, halves.rank) == (2, 0 if comm.rank >= 2 else 1)
    total = numpy.array([comm.rank])
    halves.allreduce(total)
    assert total[0] == (2 if comm.rank % 2 == 0 else 4)
    assert comm.split(color=None if comm.rank == 0 else 1).__class__.__name__ == ("NoneType" if comm.rank == 0
                                                                                 else "Communicator")
    pair = comm.subset([3, 1])
    assert (pair is None) == (comm.rank not in (1, 3))
    if pair is not None:
        assert pair.rank == (0 if comm.rank == 3 else 1)
        pair.barrier()
        pair.close()
    everything = numpy.zeros(4, numpy.int64)
    twin.allgather(numpy.array([comm.rank]), everything)
    same(everything, [0, 1, 2, 3])
    twin.close()
    halves.close()


def test_duplicateSplitAndSubset_haveTheirOwnRanks():
    run_on_devices(rank_communicators, 4)


def rank_observes(comm):
    comm.allreduce(numpy.ones(4))
    assert f"rank {comm.rank} of 2" in comm.describe()
    assert comm.status() is None, comm.status()
    record = comm.flight_record()
    assert record["rank"] == comm.rank
    assert [one["state"] for one in record["collectives"] if one["operation"] == "allreduce"] == ["done"], record
    assert comm.native_handle > 0
    comm.barrier()  # a rank that has left would be the status of the other one


def test_observation_tellsRankDeviceAndCollectives():
    run_on_devices(rank_observes, 2)
