"""A collective as the C structure that describes it, with everything to which the structure refers."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from . import _declarations
from ._buffers import Buffer, BufferLike
from .datatypes import DataTypeLike, Operation, OperationLike, data_type_of, factor_bytes, operation_of
from .errors import InvalidArgumentError
from .options import CallOptions


class Collective(IntEnum):
    """The collectives; the values are those of tutti.h."""

    BARRIER = 0
    BROADCAST = 1
    ALLGATHER = 2
    ALLGATHERV = 3
    GATHER = 4
    SCATTER = 5
    ALLTOALL = 6
    REDUCE = 7
    REDUCE_SCATTER = 8
    ALLREDUCE = 9
    GATHERV = 10
    SCATTERV = 11
    ALLTOALLV = 12
    REDUCE_SCATTERV = 13


class Blocks:
    """The sizes and offsets in bytes of the blocks of one buffer, one block for each rank."""

    def __init__(self, argument: str, counts: Sequence[int] | None, offsets: Sequence[int] | None, item_bytes: int,
                 ranks: int) -> None:
        if counts is None:
            raise InvalidArgumentError(f"{argument}counts is None: pass the number of elements of each rank's block")
        sizes = self._bytes(f"{argument}counts", counts, item_bytes, ranks)
        begins = (list(itertools.accumulate(sizes[:-1], initial=0)) if offsets is None
                  else self._bytes(f"{argument}offsets", offsets, item_bytes, ranks))
        array = ctypes.c_uint64 * ranks
        self.sizes = array(*sizes)
        self.offsets = array(*begins)

    @staticmethod
    def _bytes(argument: str, elements: Sequence[int], item_bytes: int, ranks: int) -> list[int]:
        if len(elements) != ranks:
            raise InvalidArgumentError(f"{argument} has {len(elements)} entries: use one for each of the {ranks} ranks")
        numbers = [int(one) for one in elements]
        if min(numbers) < 0:
            raise InvalidArgumentError(f"{argument} contains {min(numbers)}: use 0 or more")
        if max(numbers) * item_bytes >= 2**64:
            raise InvalidArgumentError(f"{argument} contains {max(numbers)} elements of {item_bytes} bytes: use less "
                                       "than 2**64 bytes")
        return [one * item_bytes for one in numbers]


class Call:
    """One collective. `buffers` keeps the memory of its arguments alive and must exist until the call has ended."""

    def __init__(self, collective: Collective, options: CallOptions | None, root: int = 0) -> None:
        self.collective = collective
        self.buffers: list[Any] = []
        if not 0 <= root < 2**32:
            raise InvalidArgumentError(f"root is {root}: use the number of a rank")
        self.structure = _declarations.CallStructure(collective=collective, root=root)
        if options is not None:
            self.structure.options = ctypes.pointer(options._structure())

    def waited_for(self) -> Call:
        """Marks the call as one whose caller waits at once, so that the progress thread need not wake."""
        if not self.structure.options:
            self.structure.options = ctypes.pointer(_declarations.CallOptions())
        self.structure.options.contents.will_wait = 1
        return self

    def send(self, buffer: Buffer) -> Call:
        self.structure.send, self.structure.send_bytes = buffer.address, buffer.nbytes
        self.buffers.append(buffer.view)
        return self

    def receive(self, buffer: Buffer) -> Call:
        self.structure.receive, self.structure.receive_bytes = buffer.address, buffer.nbytes
        self.buffers.append(buffer.view)
        return self

    def send_part(self, whole: Buffer, begin: int, nbytes: int) -> Call:
        """Sets a part of the receive buffer as the send buffer, for a call in place."""
        self.structure.send, self.structure.send_bytes = whole.address + begin, nbytes
        return self

    def receive_part(self, whole: Buffer, begin: int, nbytes: int) -> Call:
        self.structure.receive, self.structure.receive_bytes = whole.address + begin, nbytes
        return self

    def received_blocks(self, blocks: Blocks) -> Call:
        self.structure.sizes, self.structure.offsets = blocks.sizes, blocks.offsets
        return self

    def sent_blocks(self, blocks: Blocks) -> Call:
        self.structure.send_sizes, self.structure.send_offsets = blocks.sizes, blocks.offsets
        return self

    def reduction(self, op: OperationLike, dtype: DataTypeLike | None, factor: float | None, *buffers: Buffer) -> Call:
        """Sets operation and type; all buffers must have elements of one type."""
        operation = operation_of(op)
        types = [data_type_of(one.argument, one.letters, one.item_bytes, dtype) for one in buffers]
        if types[0] != types[-1]:
            raise InvalidArgumentError(f"{buffers[0].argument} has elements of type {types[0].name.lower()}, "
                                       f"{buffers[-1].argument} of type {types[-1].name.lower()}: use one type for both")
        made = _declarations.Reduction(type=types[0], operation=operation)
        if (factor is not None) != (operation == Operation.PREMULTIPLIED_SUM):
            raise InvalidArgumentError(f"factor is {factor} and op is {operation.name.lower()}: pass a factor for "
                                       f"premultiplied_sum, and None for every other op")
        if factor is not None:
            self._factor = ctypes.create_string_buffer(factor_bytes(factor, types[0]))
            made.factor = ctypes.addressof(self._factor)
        self.structure.reduction = ctypes.pointer(made)
        return self


def sent(value: BufferLike, argument: str = "send") -> Buffer:
    if value is None:
        raise InvalidArgumentError(f"{argument} is None at this rank: pass a buffer")
    return Buffer(value, argument, writable=False)


def received(value: BufferLike, argument: str = "receive") -> Buffer:
    if value is None:
        raise InvalidArgumentError(f"{argument} is None at this rank: pass a writable buffer")
    return Buffer(value, argument, writable=True)
