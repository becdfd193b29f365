"""Arguments that cannot be used are refused by name, with the remedy, and before anything is sent."""

import array
import mmap

import numpy
import pytest
from tutti_collectives import (CallOptions, Communicator, CommunicatorOptions, DataType, InvalidArgumentError,
                               TuttiTimeoutError, UniqueId)


@pytest.fixture(scope="module")
def comm():
    with Communicator(CommunicatorOptions(interface="lo")) as made:
        yield made


@pytest.mark.parametrize("buffer", [
    numpy.zeros(4), bytearray(4), memoryview(bytearray(4)), array.array("i", [1, 2]), mmap.mmap(-1, 16)],
    ids=lambda buffer: type(buffer).__name__)
def test_writableBuffer_ofEveryKind_isTaken(comm, buffer):
    assert comm.size == 1
    before = bytes(buffer)
    comm.broadcast(buffer)
    assert bytes(buffer) == before


@pytest.mark.parametrize("value, text", [
    ([1, 2], "send is a list, whose memory is not available through the buffer protocol"),
    (numpy.zeros((4, 4))[:, 1], "send of shape (4,) and strides (32,) is not contiguous: pass a contiguous buffer"),
    (numpy.asfortranarray(numpy.zeros((4, 4))), "numpy.ascontiguousarray(send)"),
    (numpy.zeros(2, dtype=">f4"), "send has elements of format '>f'"),
    (numpy.zeros(2, dtype=complex), "which no reduction combines"),
    (numpy.zeros(2, dtype=bool), "send has elements of format '?'")])
def test_sendBuffer_thatCannotBeReduced_isNamed(comm, value, text):
    with pytest.raises(InvalidArgumentError) as caught:
        comm.allreduce(value, numpy.zeros(4))
    assert text in str(caught.value)


def test_priority_isTakenByName_andOthersAreRefused(comm):
    for priority, number in ((None, 0), ("low", -1), ("normal", 0), ("high", 1)):
        options = CallOptions(priority=priority)
        assert options._structure().priority == number
        comm.allgather(numpy.zeros(4), numpy.zeros(4), options=options)
        comm.prepare.barrier(options=options).start().wait()
    with pytest.raises(InvalidArgumentError, match="priority is 'urgent': use \"low\", \"normal\" or \"high\""):
        comm.barrier(options=CallOptions(priority="urgent"))


def test_receiveBuffer_thatIsReadOnly_isNamed(comm):
    fixed = numpy.zeros(4)
    fixed.flags.writeable = False
    for value in (fixed, b"1234"):
        with pytest.raises(InvalidArgumentError, match="receive is read-only: pass a writable buffer"):
            comm.allgather(numpy.zeros(4), value)
    comm.broadcast(fixed, root=0)  # only read at its root


def test_buffers_ofDifferentTypes_areNamed(comm):
    with pytest.raises(InvalidArgumentError, match="send has elements of type int32, receive of type float32"):
        comm.allreduce(numpy.zeros(4, numpy.int32), numpy.zeros(4, numpy.float32))


def test_buffers_ofWrongLength_areRefusedByTheLibrary(comm):
    with pytest.raises(InvalidArgumentError, match="allgather"):
        comm.allgather(bytes(8), bytearray(9))


def test_buffer_duringACall_cannotBeResized(comm):
    memory = bytearray(8)
    request = comm.start.recv(memory, source=0, tag=99)
    with pytest.raises(BufferError):
        memory.extend(b"more")
    comm.send(bytes(8), to=0, tag=99)
    request.wait()
    memory.extend(b"more")


@pytest.mark.parametrize("dtype", ["bfloat16", DataType.BFLOAT16, "ml_dtypes.bfloat16"])
def test_dtype_namesTheMeaningOfBytesAndUnsignedIntegers(comm, dtype):
    for value in (numpy.array([0x3F80], numpy.uint16), bytearray(b"\x80\x3f")):
        comm.allreduce(value, op="premultiplied_sum", dtype=dtype, factor=3.0)
        assert bytes(value) == b"\x40\x40"  # 3 in bfloat16


def test_dtype_thatContradictsTheBuffer_isRefused(comm):
    with pytest.raises(InvalidArgumentError, match="send has elements of format 'd', but dtype is float32"):
        comm.allreduce(numpy.zeros(2), numpy.zeros(2), dtype=numpy.float32)
    with pytest.raises(InvalidArgumentError, match="dtype is 'float8_e4m3fn', which no reduction combines: use int8"):
        comm.allreduce(bytearray(2), dtype="float8_e4m3fn")


@pytest.mark.parametrize("factor, op, text", [
    (None, "premultiplied_sum", "pass a factor for premultiplied_sum"), (2.0, "sum", "and None for every other op"),
    (0.5, "premultiplied_sum", "factor is 0.5, which int32 cannot hold"), (None, "mean", "op is 'mean': use sum, min")])
def test_factorAndOperation_thatDoNotFit_areRefused(comm, factor, op, text):
    with pytest.raises(InvalidArgumentError, match=text):
        comm.allreduce(numpy.zeros(2, numpy.int32), op=op, factor=factor)


def test_counts_areChecked(comm):
    for counts, text in (([1, 2], "counts has 2 entries: use one for each of the 1 ranks"),
                         ([-1], "counts contains -1: use 0 or more"),
                         ([2**61], f"counts contains {2**61} elements of 8 bytes: use less than")):
        with pytest.raises(InvalidArgumentError, match=text):
            comm.allgatherv(numpy.zeros(2), numpy.zeros(2), counts)


def test_options_thatCannotBeUsed_areRefused(comm):
    with pytest.raises(InvalidArgumentError, match="job_key has 3 bytes: use 32"):
        Communicator(CommunicatorOptions(job_key=b"abc"))
    with pytest.raises(InvalidArgumentError, match="peer_timeout is 0: use a number of seconds above 0"):
        Communicator(CommunicatorOptions(peer_timeout=0))
    with pytest.raises(InvalidArgumentError, match="no_such"):
        comm.allreduce(numpy.zeros(2), options=CallOptions(algorithm="no_such"))
    with pytest.raises(InvalidArgumentError, match="subgroups is 4294967296: use a number from 0 to 4294967295"):
        Communicator(CommunicatorOptions(subgroups=2**32))
    with pytest.raises(InvalidArgumentError, match="segments is -1: use a number from 0 to"):
        comm.allreduce(numpy.zeros(2), options=CallOptions(segments=-1))
    for timeout in (-1, float("nan")):
        with pytest.raises(InvalidArgumentError, match="timeout is"):
            comm.barrier(timeout=timeout)


def test_reprOfOptions_doesNotShowTheJobKey():
    text = repr(CommunicatorOptions(interface="lo", job_key=b"k" * 32))
    assert "interface='lo'" in text
    assert "job_key" not in text and "kkk" not in text


def test_callThatBlocks_tellsTheLibraryThatItWaits(comm, monkeypatch):
    calls = []
    start = comm._start
    monkeypatch.setattr(comm, "_start", lambda call, timeout: calls.append(call) or start(call, timeout))
    for options in (None, CallOptions(segments=2)):
        comm.allreduce(numpy.ones(1), options=options)
        assert calls.pop().structure.options.contents.will_wait == 1


def test_numbers_ofRanksAndTags_areChecked(comm):
    for call in (lambda: comm.send(b"", to=-1), lambda: comm.recv(bytearray(1), source=2**32 - 1),
                 lambda: comm.send(b"", to=0, tag=2**64), lambda: comm.broadcast(bytearray(1), root=-2),
                 lambda: comm.split(color=2**32 - 1)):
        with pytest.raises(InvalidArgumentError, match="(to|source|tag|root|color) is .*: use "):
            call()


def test_uniqueId_thatIsNone_isRefused():
    with pytest.raises(InvalidArgumentError):
        Communicator.from_id(UniqueId("nonsense"), 0, 1)


def test_reprOfUniqueId_doesNotShowTheText():
    assert "nonsense" not in repr(UniqueId("nonsense"))


def test_uniqueId_thatIsDiscarded_hasNoStore():
    job = UniqueId.create("127.0.0.1")
    job.discard()
    with pytest.raises(TuttiTimeoutError, match="could not join rank 0 at .*cannot connect to"):
        Communicator.from_id(job, 1, 2, CommunicatorOptions(create_timeout=0.5))
