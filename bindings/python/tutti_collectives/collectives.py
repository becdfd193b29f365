"""The collectives in one class.

Blocking, nonblocking and prepared calls differ only in `_carry_out`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from ._buffers import Buffer, BufferLike
from ._calls import Blocks, Call, Collective, received, sent
from .datatypes import DataTypeLike, Operation, OperationLike
from .options import CallOptions

Result = TypeVar("Result", covariant=True)


class Collectives(ABC, Generic[Result]):
    """The collectives of a communicator.

    Every rank must call the same collectives in the same order, with the same sizes, counts, types, root and options.
    Several threads may call collectives, if all ranks then still call them in the same order.

    *Buffers* are objects with the buffer protocol: arrays of numpy, bytearray, memoryview, array.array, mmap; for
    sending also bytes. They must be contiguous, and writable where data is received. Nothing is copied or converted. A
    buffer belongs to the call until the call has ended; a receive buffer may have changed if the call has failed.
    Collectives that move bytes take elements of any type, and only lengths must agree.

    *In place*: a buffer that is passed as None is a part of the other buffer, as each method says.

    *Reductions* take their element type from the buffers, or from `dtype`: a name such as "bfloat16", a DataType or a
    dtype of numpy. If a buffer has bytes or unsigned integers, `dtype` may name another type for the same memory, such
    as bfloat16, which the buffer protocol does not know. `op` is an Operation or its name; "premultiplied_sum" needs
    `factor`, the factor of this rank.

    *counts* and *offsets* are in elements of the buffer that holds all blocks, one entry for each rank; `offsets` are
    the places at which the blocks begin. Without them the blocks follow each other.

    `timeout` is in seconds. A longer wait raises TuttiTimeoutError, whose `ranks` are the ranks
    whose data is missing; the call goes on. None: no limit, because the loss of a rank ends the
    call in any case.

    Errors: InvalidArgumentError for an argument that cannot be used; PeerFailedError, AbortedError
    and others for a call that fails.
    """

    @property
    @abstractmethod
    def rank(self) -> int:
        """The number of this rank, from 0."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of ranks."""

    @abstractmethod
    def _carry_out(self, call: Call, timeout: float | None) -> Result:
        """Starts, runs or prepares a call."""

    def barrier(self, *, timeout: float | None = None, options: CallOptions | None = None) -> Result:
        """Ends when every rank has called this method.

            comm.barrier(timeout=10)
        """
        return self._carry_out(Call(Collective.BARRIER, options), timeout)

    def broadcast(self, buffer: BufferLike, root: int = 0, *, timeout: float | None = None,
                  options: CallOptions | None = None) -> Result:
        """Copies root's `buffer`, which may be read-only, into the `buffer` of every other rank.

            comm.broadcast(weights, root=0)
        """
        call = Call(Collective.BROADCAST, options, root)
        return self._carry_out(call.receive(Buffer(buffer, "buffer", writable=self.rank != root)), timeout)

    def allgather(self, send: BufferLike | None, receive: BufferLike, *, timeout: float | None = None,
                  options: CallOptions | None = None) -> Result:
        """Copies every rank's `send`, in rank order, into `receive`, which has one block of that length for each rank.

        In place (`send` None): this rank sends its own block of `receive`.

            everything = numpy.empty((comm.size, 4), numpy.float32)
            comm.allgather(numpy.full(4, comm.rank, numpy.float32), everything)
        """
        whole = received(receive)
        call = Call(Collective.ALLGATHER, options).receive(whole)
        if send is None:
            block = whole.nbytes // self.size
            return self._carry_out(call.send_part(whole, self.rank * block, block), timeout)
        return self._carry_out(call.send(sent(send)), timeout)

    def allgatherv(self, send: BufferLike | None, receive: BufferLike, counts: Sequence[int],
                   offsets: Sequence[int] | None = None, *, timeout: float | None = None,
                   options: CallOptions | None = None) -> Result:
        """As allgather, with blocks of different sizes.

        Rank r's block has counts[r] elements and begins at element offsets[r] of `receive`.

            comm.allgatherv(mine, everything, counts=[3, 0, 5])
        """
        whole = received(receive)
        blocks = Blocks("", counts, offsets, whole.item_bytes, self.size)
        call = Call(Collective.ALLGATHERV, options).receive(whole).received_blocks(blocks)
        if send is None:
            return self._carry_out(call.send_part(whole, *self._own(blocks)), timeout)
        return self._carry_out(call.send(sent(send)), timeout)

    def gather(self, send: BufferLike | None, receive: BufferLike | None = None, root: int = 0, *,
               timeout: float | None = None, options: CallOptions | None = None) -> Result:
        """Copies every rank's `send`, in rank order, into root's `receive`; other ranks pass None for `receive`.

        In place at the root (`send` None): the block of the root is already in `receive`.

            comm.gather(mine, everything if comm.rank == 0 else None)
        """
        call = Call(Collective.GATHER, options, root)
        if self.rank != root:
            return self._carry_out(call.send(sent(send)), timeout)
        whole = received(receive)
        call.receive(whole)
        if send is None:
            block = whole.nbytes // self.size
            return self._carry_out(call.send_part(whole, self.rank * block, block), timeout)
        return self._carry_out(call.send(sent(send)), timeout)

    def gatherv(self, send: BufferLike | None, receive: BufferLike | None = None, counts: Sequence[int] | None = None,
                offsets: Sequence[int] | None = None, root: int = 0, *, timeout: float | None = None,
                options: CallOptions | None = None) -> Result:
        """As gather, with blocks of different sizes; `counts` and `offsets` matter at the root only.

            comm.gatherv(mine, everything, counts=[3, 0, 5], root=2)
        """
        call = Call(Collective.GATHERV, options, root)
        if self.rank != root:
            return self._carry_out(call.send(sent(send)), timeout)
        whole = received(receive)
        blocks = Blocks("", counts, offsets, whole.item_bytes, self.size)
        call.receive(whole).received_blocks(blocks)
        if send is None:
            return self._carry_out(call.send_part(whole, *self._own(blocks)), timeout)
        return self._carry_out(call.send(sent(send)), timeout)

    def scatter(self, send: BufferLike | None, receive: BufferLike | None, root: int = 0, *,
                timeout: float | None = None, options: CallOptions | None = None) -> Result:
        """Copies block r of root's `send` into rank r's `receive`; other ranks pass None for `send`.

        In place at the root (`receive` None): the block of the root stays where it is.

            comm.scatter(everything if comm.rank == 0 else None, mine)
        """
        call = Call(Collective.SCATTER, options, root)
        if self.rank != root:
            return self._carry_out(call.receive(received(receive)), timeout)
        whole = sent(send)
        call.send(whole)
        if receive is None:
            block = whole.nbytes // self.size
            return self._carry_out(call.receive_part(whole, self.rank * block, block), timeout)
        return self._carry_out(call.receive(received(receive)), timeout)

    def scatterv(self, send: BufferLike | None, receive: BufferLike | None, counts: Sequence[int] | None = None,
                 offsets: Sequence[int] | None = None, root: int = 0, *, timeout: float | None = None,
                 options: CallOptions | None = None) -> Result:
        """As scatter, with blocks of different sizes; `counts` and `offsets` matter at the root only.

            comm.scatterv(everything, mine, counts=[3, 0, 5])
        """
        call = Call(Collective.SCATTERV, options, root)
        if self.rank != root:
            return self._carry_out(call.receive(received(receive)), timeout)
        whole = sent(send)
        blocks = Blocks("", counts, offsets, whole.item_bytes, self.size)
        call.send(whole).sent_blocks(blocks)
        if receive is None:
            return self._carry_out(call.receive_part(whole, *self._own(blocks)), timeout)
        return self._carry_out(call.receive(received(receive)), timeout)

    def alltoall(self, send: BufferLike, receive: BufferLike, *, timeout: float | None = None,
                 options: CallOptions | None = None) -> Result:
        """Sends block r of `send` to rank r, and receives rank r's block for this rank as block r of `receive`.

        Both have one block for each rank. In place, both are the same buffer; the call then copies what it sends.

            comm.alltoall(outgoing, incoming)
        """
        return self._carry_out(Call(Collective.ALLTOALL, options).send(sent(send)).receive(received(receive)), timeout)

    def alltoallv(self, send: BufferLike, receive: BufferLike, send_counts: Sequence[int],
                  receive_counts: Sequence[int], send_offsets: Sequence[int] | None = None,
                  receive_offsets: Sequence[int] | None = None, *, timeout: float | None = None,
                  options: CallOptions | None = None) -> Result:
        """As alltoall, with blocks of different sizes.

        `send_counts` are in elements of `send`, and `receive_counts` in elements of `receive`.

            comm.alltoallv(outgoing, incoming, send_counts=[0, 4], receive_counts=[1, 2])
        """
        outgoing, incoming = sent(send), received(receive)
        call = Call(Collective.ALLTOALLV, options).send(outgoing).receive(incoming)
        call.sent_blocks(Blocks("send_", send_counts, send_offsets, outgoing.item_bytes, self.size))
        call.received_blocks(Blocks("receive_", receive_counts, receive_offsets, incoming.item_bytes, self.size))
        return self._carry_out(call, timeout)

    def reduce(self, send: BufferLike | None, receive: BufferLike | None = None, op: OperationLike = Operation.SUM,
               root: int = 0, *, dtype: DataTypeLike | None = None, factor: float | None = None,
               timeout: float | None = None, options: CallOptions | None = None) -> Result:
        """Combines the elements of every rank's `send` into root's `receive`; other ranks pass None for `receive`.

        In place at the root (`send` None): `receive` is also the contribution of the root.

            comm.reduce(mine, total if comm.rank == 0 else None, op="max")
        """
        call = Call(Collective.REDUCE, options, root)
        if self.rank != root:
            own = sent(send)
            return self._carry_out(call.send(own).reduction(op, dtype, factor, own), timeout)
        return self._carry_out(self._combined(call, send, receive, op, dtype, factor), timeout)

    def allreduce(self, send: BufferLike | None, receive: BufferLike | None = None, op: OperationLike = Operation.SUM,
                  *, dtype: DataTypeLike | None = None, factor: float | None = None, timeout: float | None = None,
                  options: CallOptions | None = None) -> Result:
        """Combines the elements of every rank's `send` into `receive` on every rank.

        In place (`receive` None): `send` also receives the result.

            comm.allreduce(gradients, op="average")
        """
        if receive is None:
            send, receive = None, send
        return self._carry_out(self._combined(Call(Collective.ALLREDUCE, options), send, receive, op, dtype, factor),
                               timeout)

    def reduce_scatter(self, send: BufferLike, receive: BufferLike | None, op: OperationLike = Operation.SUM, *,
                       dtype: DataTypeLike | None = None, factor: float | None = None, timeout: float | None = None,
                       options: CallOptions | None = None) -> Result:
        """Combines the elements of every rank's `send`, which has one block for each rank; rank r's `receive` gets
        block r of the result.

        In place (`receive` None): the result replaces this rank's block of `send`, which must be writable.

            comm.reduce_scatter(gradients, mine, op="sum")
        """
        call = Call(Collective.REDUCE_SCATTER, options)
        if receive is None:
            whole = received(send, "send")
            block = whole.nbytes // self.size
            call.send(whole).receive_part(whole, self.rank * block, block).reduction(op, dtype, factor, whole)
        else:
            whole, own = sent(send), received(receive)
            call.send(whole).receive(own).reduction(op, dtype, factor, whole, own)
        return self._carry_out(call, timeout)

    def reduce_scatterv(self, send: BufferLike, receive: BufferLike | None, counts: Sequence[int],
                        offsets: Sequence[int] | None = None, op: OperationLike = Operation.SUM, *,
                        dtype: DataTypeLike | None = None, factor: float | None = None, timeout: float | None = None,
                        options: CallOptions | None = None) -> Result:
        """As reduce_scatter, with blocks of different sizes; `counts` and `offsets` describe `send` on every rank.

            comm.reduce_scatterv(gradients, mine, counts=[3, 0, 5])
        """
        call = Call(Collective.REDUCE_SCATTERV, options)
        whole = received(send, "send") if receive is None else sent(send)
        blocks = Blocks("", counts, offsets, whole.item_bytes, self.size)
        call.send(whole).sent_blocks(blocks)
        if receive is None:
            call.receive_part(whole, *self._own(blocks)).reduction(op, dtype, factor, whole)
        else:
            own = received(receive)
            call.receive(own).reduction(op, dtype, factor, whole, own)
        return self._carry_out(call, timeout)

    def _own(self, blocks: Blocks) -> tuple[int, int]:
        """The offset and the length of this rank's block, in bytes."""
        return blocks.offsets[self.rank], blocks.sizes[self.rank]

    def _combined(self, call: Call, send: BufferLike | None, receive: BufferLike | None, op: OperationLike,
                  dtype: DataTypeLike | None, factor: float | None) -> Call:
        result = received(receive)
        call.receive(result)
        if send is None:
            return call.send_part(result, 0, result.nbytes).reduction(op, dtype, factor, result)
        own = sent(send)
        return call.send(own).reduction(op, dtype, factor, own, result)
