"""Requests in an event loop of asyncio: completion by the callback of the library, timeouts, cancelling, dropping."""

import asyncio
import gc
import threading
import time

import numpy
import pytest
from job_of_functions import run, run_on_devices
from tutti_collectives import AbortedError, TuttiTimeoutError


def rank_awaits(comm):
    async def main():
        values = [numpy.full(1000, comm.rank + 1.0) for _ in range(8)]
        await asyncio.gather(*[comm.start.allreduce(one) for one in values])
        assert all((one == 3.0).all() for one in values)
        request = comm.start.recv(bytearray(4), source=1 - comm.rank, tag=1)
        await asyncio.gather(comm.start.send(b"abcd", 1 - comm.rank, tag=1), request)
        assert request.done and request.message.nbytes == 4
        await request  # a request that is done ends at once
        await comm.start.barrier()

    asyncio.run(main())


def test_await_ofManyCalls_endsWithTheirResults():
    run_on_devices(rank_awaits, 2)


def rank_loop_runs(comm):
    """While a call waits for rank 1, the loop of rank 0 goes on, and no thread of Python is added."""
    async def main():
        incoming = bytearray(4)
        waiting = asyncio.ensure_future(both(comm.start.recv(incoming, source=1)))
        turns = 0
        while turns < 50:
            await asyncio.sleep(0.001)
            turns += 1
            assert not waiting.done()
        assert threading.active_count() == threads
        comm.send(b"go", to=1)
        await asyncio.wait_for(waiting, 60)
        assert incoming == b"data"

    async def both(request):
        await asyncio.gather(until(request), until(request))  # two tasks wait for one request

    async def until(request):
        await request

    threads = threading.active_count()
    if comm.rank == 0:
        asyncio.run(main())
    else:
        comm.recv(bytearray(2), source=0)
        comm.send(b"data", to=0)
    comm.barrier()


def test_await_leavesTheLoopToOtherTasks():
    run_on_devices(rank_loop_runs, 2)


def rank_await_times_out(comm):
    async def main():
        request = comm.start.allreduce(value, timeout=0.2)
        try:
            await request
            raise AssertionError("the call has ended without rank 1")
        except TuttiTimeoutError as error:
            assert "after 0.200 s" in str(error) and error.request is request, error
        try:
            await asyncio.wait_for(wrapped(request), 0.1)
            raise AssertionError("the call has ended without rank 1")
        except TimeoutError:
            assert not request.done
        comm.send(b"go", to=1)
        while not request.done:
            await asyncio.sleep(0.01)
        await request

    async def wrapped(request):
        request._timeout = None
        await request

    value = numpy.ones(4)
    if comm.rank == 0:
        asyncio.run(main())
    else:
        comm.recv(bytearray(2), source=0)
        comm.allreduce(value)
    assert (value == 2).all()
    comm.barrier()


def test_awaitThatTimesOut_leavesTheCallUnderWay():
    run_on_devices(rank_await_times_out, 2)


def rank_await_fails(comm):
    async def main():
        request = comm.start.recv(bytearray(4), source=1 - comm.rank)
        asyncio.get_running_loop().call_later(0.1, request.cancel)
        try:
            await request
            raise AssertionError("a cancelled receive has ended without an error")
        except AbortedError:
            pass

    asyncio.run(main())
    comm.barrier()


def test_await_raisesTheErrorOfTheCall():
    run_on_devices(rank_await_fails, 2)


def rank_abandons(comm):
    """The loop ends, and the request is dropped, while the call is under way; its callback then finds no loop."""
    async def main():
        request = comm.start.recv(bytearray(4), source=1 - comm.rank)
        try:
            await asyncio.wait_for(until(request), 0.05)
        except TimeoutError:
            pass

    async def until(request):
        await request

    asyncio.run(main())
    gc.collect()
    # A weak reference would not tell: the collector clears it before it asks the request what to keep.
    orphans = comm._core._orphans
    assert [bytes(one.buffers) for one in orphans] == [bytes(4)], "the memory of a call under way is not kept"
    memory = orphans[0].buffers
    comm.barrier()
    comm.send(b"late", to=1 - comm.rank)
    deadline = time.monotonic() + 60
    while orphans and time.monotonic() < deadline:
        own = comm.start.recv(bytearray(1), source=comm.rank, tag=9)  # each start frees the requests that have ended
        comm.send(b"", to=comm.rank, tag=9)
        own.wait()
    assert not orphans and memory == b"late"
    comm.barrier()


@pytest.mark.parametrize("device", ["ip", "host"])
def test_loopThatEndsBeforeTheCall_isNoFault(device):
    for text in run(rank_abandons, 2, TUTTI_DEVICE=device):
        assert "Exception" not in text and "Error" not in text, text
