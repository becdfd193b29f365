"""Errors as exceptions: a lost rank, an abort, a job that does not come together, and their codes, texts and ranks."""

import pickle
import time

import numpy
import pytest
from job_of_functions import free_port, run, run_on_devices, start
from tutti_collectives import (AbortedError, Code, Communicator, CommunicatorOptions, InvalidArgumentError,
                               PeerFailedError, TuttiError, TuttiTimeoutError, UniqueId)


def test_everyCode_hasAClass_thatIsFoundByPython():
    for code in list(Code)[1:]:
        error = TuttiError.of(code, "text", [3, 1])
        assert type(error) is not TuttiError and (error.code, error.ranks, str(error)) == (code, (3, 1), "text")
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), copy.code, copy.ranks, str(copy)) == (type(error), code, (3, 1), "text")
    assert type(TuttiError.of(77, "of a later version")) is TuttiError
    for kind, base in ((InvalidArgumentError, ValueError), (TuttiTimeoutError, TimeoutError),
                       (PeerFailedError, ConnectionError)):
        assert issubclass(kind, base)


def rank_loses_peer(comm):
    comm.barrier()
    print("running", flush=True)
    while True:
        try:
            comm.allreduce(numpy.ones(1000))
        except PeerFailedError as error:
            assert error.code == Code.PEER_FAILED and error.ranks == (1,), (error, error.ranks)
            assert "rank 1" in str(error)
            again = comm.status()
            assert isinstance(again, PeerFailedError), again
            print("named")
            return


@pytest.mark.parametrize("device", ["ip", "host"])
def test_killedRank_isNamedByTheOthers(device):
    ranks = start(rank_loses_peer, 3, TUTTI_DEVICE=device)
    try:
        for rank in ranks:
            rank.runs()
        ranks[1].process.kill()
        for rank in (ranks[0], ranks[2]):
            text = rank.end()
            assert "named" in text, text
            assert rank.process.returncode != 0  # close tells the failure, too
    finally:
        for rank in ranks:
            rank.remove()


def rank_raises(comm):
    """Rank 1 leaves the with statement by an exception while the others wait in a collective."""
    try:
        with comm:
            comm.barrier()
            if comm.rank == 1:
                raise KeyError("a fault of the program")
            comm.allreduce(numpy.ones(4))
    except KeyError:
        assert comm.rank == 1 and comm.closed
    except PeerFailedError as error:
        assert comm.rank != 1
        assert error.ranks == (1,) and "gave up" in str(error), error
        assert comm.closed
    else:
        raise AssertionError("the exception of rank 1 has not ended the call of this rank")


def test_exceptionInAWithStatement_endsThePeers():
    run_on_devices(rank_raises, 3)


def rank_aborts(comm):
    request = comm.start.recv(bytearray(4), source=1 - comm.rank, tag=1)
    if comm.rank == 1:
        comm.start.send(b"here", 0, tag=2)
    else:
        comm.recv(bytearray(4), source=1, tag=2)
        comm.abort("enough")
    begun = time.monotonic()
    try:
        request.wait()
        raise AssertionError("an aborted call has ended without an error")
    except AbortedError as error:
        assert comm.rank == 0 and "enough" in str(error), error
    except PeerFailedError as error:
        assert comm.rank == 1 and error.ranks == (0,) and "rank 0" in str(error), error
    assert time.monotonic() - begun < 30
    try:
        comm.allreduce(numpy.ones(2))
        raise AssertionError("a call on an aborted communicator succeeds")
    except TuttiError:
        pass
    assert comm.status() is not None
    try:
        comm.close()
    except TuttiError:
        pass
    for use in (comm.barrier, comm.describe, lambda: comm.start.allreduce(numpy.ones(2))):
        try:
            use()
            raise AssertionError("a closed communicator can be used")
        except InvalidArgumentError as error:
            assert "the communicator is closed: create a new one" in str(error)
    comm.close()


def test_abort_endsCallsOnAllRanks():
    run_on_devices(rank_aborts, 2)


def test_creation_withoutTheOtherRanks_timesOutAndNamesThem(monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1",
                        "MASTER_PORT": str(free_port())}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TuttiTimeoutError) as caught:
        Communicator(CommunicatorOptions(create_timeout=0.5))
    assert caught.value.ranks == (1, 2), caught.value


def test_allgather_thatRaises_isTheErrorOfTheCreation():
    def broken(mine, timeout):
        assert isinstance(mine, bytes) and mine and 0 < timeout <= 30
        raise KeyError("no such store")

    with pytest.raises(KeyError, match="no such store"):
        Communicator.from_allgather(broken, 0, 2)
    with pytest.raises(InvalidArgumentError, match="return 2 blocks of"):
        Communicator.from_allgather(lambda mine, timeout: [mine], 0, 2)


def created_by_id(name):
    import os
    import pathlib

    rank, size, path = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), pathlib.Path(name)
    if rank == 0:
        job = UniqueId.create("127.0.0.1")
        path.with_suffix(".new").write_text(job.text)
        path.with_suffix(".new").rename(path)
    while not path.exists():
        time.sleep(0.01)
    with Communicator.from_id(UniqueId(path.read_text()), rank, size) as comm:
        total = numpy.array([rank])
        comm.allreduce(total)
        assert (comm.rank, comm.size, total[0]) == (rank, 3, 3)
        with Communicator.from_allgather(over(comm), rank, size) as other:
            other.allreduce(total)
            assert total[0] == 9


def over(comm):
    """An allgather over another communicator."""
    def allgather(mine, timeout):
        everything = bytearray(len(mine) * comm.size)
        comm.allgather(mine, everything, timeout=timeout)
        return [everything[one * len(mine):(one + 1) * len(mine)] for one in range(comm.size)]

    return allgather


def test_uniqueIdAndAllgather_createCommunicators(tmp_path):
    run(created_by_id, 3, tmp_path / "id")
