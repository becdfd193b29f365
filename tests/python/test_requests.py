"""Requests: waiting with limits, dropping, order, Ctrl-C, and the life of buffers."""

import gc
import os
import re
import signal
import threading
import time
import weakref

import numpy
import pytest
from job_of_functions import run, run_on_devices
from tutti_collectives import PeerFailedError, TuttiError, TuttiTimeoutError, wait_all, wait_any


def rank_late(comm):
    """Rank 1 makes its call only when rank 0 has seen a wait time out."""
    value = numpy.ones(4)
    if comm.rank == 0:
        request = comm.start.allreduce(value, timeout=0.3)
        begun = time.monotonic()
        for wait in (request.wait, lambda: request.wait(0.25), lambda: wait_all([request], 0.25),
                     lambda: wait_any([request], 0.25)):
            try:
                wait()
                raise AssertionError("a call ended without rank 1")
            except TuttiTimeoutError as error:
                assert "after 0.250 s" in str(error) or "after 0.300 s" in str(error), error
        assert time.monotonic() - begun >= 1.0
        assert not request.done and not request.test()
        try:
            comm.barrier(timeout=0.2)
            raise AssertionError("a barrier ended without rank 1")
        except TuttiTimeoutError as error:
            assert error.ranks == (1,), (error, error.ranks)
            barrier = error.request
        comm.send(b"go", to=1)
        request.wait()
        barrier.wait(timeout=60)
        assert request.done and barrier.done and request.test()
    else:
        comm.recv(bytearray(2), source=0)
        comm.allreduce(value)
        comm.barrier()
    assert (value == 2).all()


def test_waitThatTimesOut_namesTheRank_andTheCallGoesOn():
    run_on_devices(rank_late, 2)


class Memory(bytearray):
    """A buffer whose end can be seen."""


LONG = 1 << 20  # bytes of a message that is received only after its sender was told to send


def send_when_told(comm):
    comm.recv(bytearray(2), source=0)
    comm.send(bytes(LONG), to=0, tag=4)
    comm.send(b"", to=0, tag=5)


def tell_the_sender(comm):
    comm.send(b"go", to=1)
    comm.recv(bytearray(1), source=1, tag=5)


def rank_dropped(comm):
    incoming = Memory(LONG)
    alive = weakref.ref(incoming)
    if comm.rank == 0:
        comm.start.recv(incoming, source=1, tag=4)  # dropped at once
        del incoming
        gc.collect()
        assert alive() is not None, "the memory of a call under way was freed"
        tell_the_sender(comm)
        deadline = time.monotonic() + 60
        while alive() is not None and time.monotonic() < deadline:
            own = comm.start.recv(bytearray(1), source=0, tag=8)  # each start frees the requests that have ended
            comm.send(b"", to=0, tag=8)
            own.wait()
        assert alive() is None, "the memory of a call that has ended is kept"
    else:
        send_when_told(comm)
    comm.barrier()


def test_droppedRequest_keepsItsMemory_untilItsCallHasEnded():
    run_on_devices(rank_dropped, 2)


def rank_dropped_while_closing(comm):
    incoming = Memory(LONG)
    alive = weakref.ref(incoming)
    with comm.duplicate() as other:
        if comm.rank == 0:
            request = comm.start.recv(incoming, source=1, tag=4)
            closing = threading.Thread(target=comm.close, args=(60,))
            closing.start()
            while not comm.closed:
                time.sleep(0.001)
            del request, incoming
            gc.collect()
            assert alive() is not None, "the memory of a call under way was freed"
            other.barrier()
            closing.join()
        else:
            other.barrier()
            comm.send(bytes(LONG), to=0, tag=4)
            comm.close()


def test_requestDroppedWhileTheCommunicatorCloses_keepsItsMemory():
    run_on_devices(rank_dropped_while_closing, 2)


def rank_interrupted_at_the_start(comm):
    """Ctrl-C can end a start in Python after C has begun the call."""
    incoming = Memory(LONG)
    alive = weakref.ref(incoming)
    if comm.rank == 0:
        begin = comm._core.begin

        def interrupted(start, place):
            begin(start, place)
            raise KeyboardInterrupt

        comm._core.begin = interrupted
        with pytest.raises(KeyboardInterrupt):
            comm.recv(incoming, source=1, tag=4)
        del comm._core.begin, begin, incoming
        gc.collect()
        assert alive() is not None, "the memory of a call under way was freed"
        tell_the_sender(comm)
    else:
        send_when_told(comm)
    comm.barrier()


def test_callInterruptedAtItsStart_keepsItsMemory():
    run_on_devices(rank_interrupted_at_the_start, 2)


def rank_closed_under_way(comm):
    if comm.rank == 1:
        comm.barrier()
        comm.send(b"", to=0, tag=6)  # rank 0 must not abort while this rank is in the barrier
        try:
            comm.close()
        except PeerFailedError as error:  # if rank 0 was faster
            assert error.ranks == (0,), error.ranks
        return
    incoming = Memory(8)
    alive = weakref.ref(incoming)
    request = comm.start.recv(incoming, source=0, tag=4)
    kept = comm.start.recv(bytearray(8), source=0, tag=5)
    del incoming, request
    gc.collect()
    assert alive() is not None
    comm.barrier()
    comm.recv(bytearray(0), source=1, tag=6)
    try:
        comm.close(timeout=0.2)
        raise AssertionError("a communicator with calls under way was closed without an error")
    except TuttiTimeoutError as error:
        assert "were aborted" in str(error), error
    assert comm.closed and alive() is None and kept.done


def test_close_withCallsUnderWay_abortsThem_andFreesTheirMemory():
    run_on_devices(rank_closed_under_way, 2)


def rank_any_order(comm):
    requests = [comm.start.recv(bytearray(1), source=1 - comm.rank, tag=tag) for tag in range(4)]
    ended = []
    for tag in (2, 0, 3, 1):
        comm.send(b"x", to=1 - comm.rank, tag=tag)
        index = wait_any([requests[one] for one in range(4) if one not in ended], timeout=60)
        ended.append([one for one in range(4) if one not in ended][index])
        requests[ended[-1]].wait()
        comm.barrier()
    assert ended == [2, 0, 3, 1]
    wait_all(requests)
    assert [one.message.tag for one in requests] == [0, 1, 2, 3]


def test_waitAny_givesRequestsInTheOrderOfTheirEnd():
    run_on_devices(rank_any_order, 2)


def rank_threads(comm):
    """Four threads, each with a duplicate of its own."""
    twins = [comm.duplicate() for _ in range(4)]
    totals = [numpy.full(1000, comm.rank + 1.0) for _ in twins]

    def work(twin, total):
        for _ in range(20):
            twin.allreduce(total, op="average")

    threads = [threading.Thread(target=work, args=pair) for pair in zip(twins, totals)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert all((total == 1.5).all() for total in totals)
    for twin in twins:
        twin.close()


def test_threads_withDuplicates_runTogether():
    run_on_devices(rank_threads, 2)


def rank_interrupted(comm, call):
    """Rank 0 is interrupted in a call that rank 1 does not make."""
    comm.barrier()
    if comm.rank == 1:
        try:
            comm.recv(bytearray(4), source=0)
            raise AssertionError("rank 0 has not aborted")
        except PeerFailedError:
            return close_after_abort(comm)
    calls = {"wait": lambda: comm.start.recv(bytearray(4), source=1, tag=1).wait(),
             "allreduce": lambda: comm.allreduce(numpy.ones(3)),
             "split": lambda: comm.split(0),
             "duplicate": comm.duplicate,
             "wait_any": lambda: wait_any([comm.start.recv(bytearray(4), source=1, tag=1)])}
    begun = 0.0

    def interrupt():
        nonlocal begun
        time.sleep(0.5)
        begun = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        calls[call]()
        raise AssertionError("the call was not interrupted")
    except KeyboardInterrupt:
        print(f"interrupted after {time.monotonic() - begun:.3f} s", flush=True)
    thread.join()
    comm.abort("interrupted")
    return close_after_abort(comm)


def close_after_abort(comm):
    try:
        comm.close(timeout=5)
    except TuttiError:
        pass


@pytest.mark.parametrize("call", ["wait", "allreduce", "split", "duplicate", "wait_any"])
def test_interrupt_endsABlockingCall(call):
    text, _ = run(rank_interrupted, 2, call, TUTTI_DEVICE="ip")
    took = float(re.search(r"interrupted after ([\d.]+) s", text).group(1))
    print(f"[ figures  ] {call}: interrupted after {took:.3f} s")
