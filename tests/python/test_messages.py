"""Messages from rank to rank: tags, masks, any source, cancelling, and lengths."""

import numpy
from job_of_functions import added, run_on_devices
from tutti_collectives import AbortedError, InvalidArgumentError, wait_all


def rank_ring(comm):
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    for count in (1, 1 << 18):  # eager, and by rendezvous
        incoming = numpy.zeros(count, numpy.int32)

        def exchange():
            outgoing = numpy.full(count, comm.rank, numpy.int32)
            wait_all([comm.start.send(outgoing, right, tag=3), comm.start.recv(incoming, left, tag=3)], timeout=60)

        counted = added(comm, exchange)
        assert (incoming == left).all()
        kind = "tagged_sent_eager" if count == 1 else "tagged_sent_rendezvous"
        assert counted.get(kind) == 1, counted


def test_ringOfMessages_deliversShortAndLongOnes():
    run_on_devices(rank_ring, 4)


def rank_any_source(comm):
    if comm.rank > 0:
        comm.send(bytes([comm.rank] * comm.rank), to=0, tag=16 * comm.rank + 5)
    else:
        seen = set()
        for _ in range(comm.size - 1):
            buffer = bytearray(8)
            message = comm.recv(buffer, source=None, tag=5, tag_mask=0xF, timeout=60)
            assert message.nbytes == message.source and message.tag == 16 * message.source + 5
            assert buffer[:message.nbytes] == bytes([message.source] * message.source)
            seen.add(message.source)
        assert seen == {1, 2, 3}
    comm.barrier()


def test_receiveOfAnyRank_tellsSourceTagAndLength():
    run_on_devices(rank_any_source, 4)


def rank_tags(comm):
    if comm.rank == 0:
        comm.send(b"second", to=1, tag=2)
        comm.send(b"first", to=1, tag=1)
    else:
        buffer = bytearray(6)
        assert comm.recv(buffer, source=0, tag=1).nbytes == 5 and buffer[:5] == b"first"
        message = comm.recv(buffer, tag=None)
        assert (message.source, message.tag, bytes(buffer)) == (0, 2, b"second")
    comm.barrier()


def test_receiveOfATag_leavesOtherMessages():
    run_on_devices(rank_tags, 2)


def rank_cancel(comm):
    request = comm.start.recv(bytearray(4), source=1 - comm.rank, tag=9)
    assert not request.test() and not request.done
    request.cancel()
    try:
        request.wait()
        raise AssertionError("the receive has got a message that was never sent")
    except AbortedError:
        assert request.done
    send = comm.start.send(b"x", 1 - comm.rank, tag=10)
    try:
        send.cancel()
        raise AssertionError("a send was cancelled")
    except InvalidArgumentError as error:
        assert "only a receive can be cancelled" in str(error), error
    comm.recv(bytearray(1), tag=10)
    send.wait()
    try:
        send.message
        raise AssertionError("a send has the message of a receive")
    except InvalidArgumentError:
        pass


def test_cancelledReceive_isAborted_andSendsAreNotCancelled():
    run_on_devices(rank_cancel, 2)


def rank_too_long(comm):
    if comm.rank == 0:
        comm.send(b"too long", to=1)
    else:
        try:
            comm.recv(bytearray(3), source=0)
            raise AssertionError("a message longer than the buffer is received")
        except InvalidArgumentError as error:
            assert "8" in str(error) and "3" in str(error), error
    comm.barrier()


def test_messageLongerThanTheBuffer_isAnErrorAtTheReceiver():
    run_on_devices(rank_too_long, 2)
