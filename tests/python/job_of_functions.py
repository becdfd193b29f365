"""Jobs whose ranks are processes that call one function of a test file."""

import inspect
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "process"))
from job import Rank, free_port  # noqa: E402

DEVICES = ("ip", "host")
_ENVIRONMENT = {"TUTTI_INTERFACE": "lo", "TUTTI_HIERARCHY": "flat", "PYTHONFAULTHANDLER": "1"}


def start(function, size, *arguments, **environment):
    """Starts `size` ranks that call `function`, a function of a test file, with a communicator and texts."""
    port = free_port()
    command = [sys.executable, str(HERE / "job_of_functions.py"), inspect.getfile(function), function.__name__,
               *map(str, arguments)]
    return [Rank(command, rank, size, port, {**_ENVIRONMENT, **environment}) for rank in range(size)]


def run(function, size, *arguments, **environment):
    """Runs a job to its end and returns what each rank has printed. Every rank must succeed."""
    ranks = start(function, size, *arguments, **environment)
    try:
        texts = [rank.end() for rank in ranks]
        states = [rank.process.returncode for rank in ranks]
        assert states == [0] * size, f"ranks ended with {states}:\n" + "\n".join(texts)
        return texts
    finally:
        for rank in ranks:
            rank.remove()


def run_on_devices(function, size, *arguments, **environment):
    """As run, over datagrams and over shared memory."""
    return [text for device in DEVICES
            for text in run(function, size, *arguments, TUTTI_DEVICE=device, **environment)]


def added(comm, call):
    """The counters that a call has increased, with their differences."""
    before = comm.counters()
    call()
    return {name: value - before.get(name, 0) for name, value in comm.counters().items() if value != before.get(name, 0)}


def _main(file, name, *arguments):
    sys.path.insert(0, os.path.dirname(file))
    function = getattr(__import__(pathlib.Path(file).stem), name)
    if next(iter(inspect.signature(function).parameters), "") != "comm":
        return function(*arguments)
    from tutti_collectives import Communicator

    with Communicator() as comm:
        if os.environ.get("TUTTI_DEVICE"):
            assert comm.device == os.environ["TUTTI_DEVICE"], comm.describe()
        return function(comm, *arguments)


if __name__ == "__main__":
    _main(*sys.argv[1:])
