"""The ends of processes and objects: fork, exit with calls under way, garbage, and programs that do not close."""

import gc
import os
import signal
import subprocess
import sys

import numpy
from job_of_functions import run, run_on_devices, start
from tutti_collectives import Communicator, CommunicatorOptions, InvalidArgumentError


def in_child(work):
    """Runs `work` in a child of fork; its exit status is 0 if it raises nothing."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def rank_forks(comm):
    value = numpy.ones(4)
    request = comm.start.recv(bytearray(4), source=1 - comm.rank, tag=1)

    def uses():
        for use in (lambda: comm.allreduce(value), request.wait, request.test, lambda: comm.send(b"x", to=0),
                    comm.counters, comm.describe, comm.flight_record):
            try:
                use()
                raise AssertionError("a child of fork can use a communicator of its parent")
            except InvalidArgumentError as error:
                assert "fork" in str(error), error

    def has_its_own():
        for name in ("RANK", "WORLD_SIZE"):
            del os.environ[name]
        with Communicator(CommunicatorOptions(interface="lo")) as own:
            assert own.size == 1
            own.allreduce(value)

    in_child(uses)
    in_child(has_its_own)
    comm.barrier()
    comm.send(b"data", to=1 - comm.rank, tag=1)
    request.wait()
    comm.allreduce(value)
    assert (value == 2).all()
    comm.barrier()


def test_childOfFork_getsErrors_andTheParentGoesOn():
    run_on_devices(rank_forks, 2)


def unclosed(way):
    """Ends without close; `way` says how."""
    comm = Communicator()
    value = numpy.ones(4)
    comm.allreduce(value)
    if way == "pending":  # the buffer dies with the interpreter, and the call before it
        global kept
        kept = comm.start.recv(bytearray(1 << 20), source=1 - comm.rank, tag=7)
    if way == "awaited":
        import asyncio

        async def main():
            try:
                await asyncio.wait_for(until(), 0.05)
            except TimeoutError:
                pass

        async def until():
            await comm.start.recv(bytearray(4), source=1 - comm.rank, tag=7)

        asyncio.run(main())
    if way == "cycle":
        holder = [comm, comm.start.recv(bytearray(4), source=1 - comm.rank, tag=7)]
        holder.append(holder)
        del comm, holder
        gc.collect()
    print("end", value[0])


def check_unclosed(way):
    for text in run(unclosed, 2, way):
        assert "end 2.0" in text and "Error" not in text and "Exception" not in text, text


def test_program_thatDoesNotClose_endsWell():
    check_unclosed("nothing")


def test_program_thatExitsWithACallUnderWay_endsWell():
    check_unclosed("pending")


def test_program_thatExitsWithAnAwaitedCall_endsWell():
    check_unclosed("awaited")


def test_communicator_inACycleWithItsRequest_isLeft():
    check_unclosed("cycle")


def rank_terminated(comm):
    comm.barrier()
    print("running", flush=True)
    comm.recv(bytearray(4), source=1 - comm.rank)


def test_terminatedRank_endsAtOnce():
    ranks = start(rank_terminated, 2)
    try:
        for rank in ranks:
            rank.runs()
        for rank in ranks:
            rank.process.send_signal(signal.SIGTERM)
        for rank in ranks:
            rank.end()
            assert rank.process.returncode == -signal.SIGTERM
    finally:
        for rank in ranks:
            rank.remove()


def test_useInAnExitHandler_afterTheLibraryHasLeft_isRefused():
    """The handler was registered before the first communicator, so it runs after all have been left."""
    code = """
import atexit

def late():
    for use in (comm.counters, comm.describe, comm.status, comm.barrier):
        try:
            use()
        except InvalidArgumentError as error:
            print("refused:", error)

atexit.register(late)
from tutti_collectives import Communicator, CommunicatorOptions, InvalidArgumentError
comm = Communicator(CommunicatorOptions(interface="lo"))
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False,
                          env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == 4 * "refused: the communicator is closed: create a new one\n", done.stdout


def test_closeInAnExitHandler_whenPythonCreatesNoThreads_closes():
    """From version 3.12 on, Python creates no thread once it ends; the handler makes older versions do the same."""
    code = """
import atexit, threading
from tutti_collectives import Communicator, CommunicatorOptions
comm = Communicator(CommunicatorOptions(interface="lo"))

def refuse(thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")

def late():
    threading.Thread.start = refuse
    comm.close()
    print("closed:", comm.closed)

atexit.register(late)
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False,
                          env=environment)
    assert done.stdout == "closed: True\n" and not done.stderr, done.stdout + done.stderr


def test_garbageInACallback_isLeftInAThreadOfItsOwn():
    """A communicator that is dropped in a completion callback must not be finalized there."""
    code = """
import asyncio, gc, threading
from tutti_collectives import Communicator, CommunicatorOptions
from tutti_collectives import _core, request as requests

options = CommunicatorOptions(interface="lo")
comm, dropped = Communicator(options), [Communicator(options)]
left, leavers = [], []
original, leave = requests._Waiters.wake, _core._leave

def noted(*arguments):
    leavers.append(threading.current_thread().name)
    return leave(*arguments)

_core._leave = noted

def wake(self):
    core = dropped.pop()._core
    left.append(core._at_end)
    del core
    original(self)

requests._Waiters.wake = wake

async def main():
    request = comm.start.recv(bytearray(1), source=0)
    waiting = asyncio.ensure_future(until(request))
    await asyncio.sleep(0.05)
    comm.send(b"x", to=0)
    await waiting

async def until(request):
    await request

asyncio.run(main())
for thread in threading.enumerate():
    if thread.name == "tutti-leave":
        thread.join(60)
assert not left[0].alive
assert leavers == ["tutti-leave"], leavers
comm.close()
print("closed")
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False,
                          env=environment)
    assert done.returncode == 0 and done.stdout == "closed\n", done.stdout + done.stderr
