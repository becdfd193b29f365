"""The element types and operations of reductions."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Union

from .errors import InvalidArgumentError


class DataType(IntEnum):
    """The type of the elements that a reduction combines; the values are those of tutti.h."""

    INT8 = 0
    INT16 = 1
    INT32 = 2
    INT64 = 3
    UINT8 = 4
    UINT16 = 5
    UINT32 = 6
    UINT64 = 7
    FLOAT16 = 8
    BFLOAT16 = 9
    FLOAT32 = 10
    FLOAT64 = 11

    @property
    def item_bytes(self) -> int:
        """The length of one element in bytes."""
        return (1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8)[self]


class Operation(IntEnum):
    """The operation of a reduction; the values are those of tutti.h.

    AND, OR and XOR are bitwise, for integers. AVERAGE is the sum divided by the number of ranks. PREMULTIPLIED_SUM
    multiplies the contribution of each rank by the factor of that rank.
    """

    SUM = 0
    MIN = 1
    MAX = 2
    PROD = 3
    AND = 4
    OR = 5
    XOR = 6
    AVERAGE = 7
    PREMULTIPLIED_SUM = 8


# An element type as a caller may give it: a name, a DataType, or an object with a name, such as numpy.dtype.
DataTypeLike = Union[DataType, str, object]
OperationLike = Union[Operation, str]

# The element types by struct format and length, for the types that the buffer protocol knows.
_FORMATS = {"signed": "bhilq", "unsigned": "BHILQ", "float": "efd"}
_KINDS = {letter: kind for kind, letters in _FORMATS.items() for letter in letters}
_TYPES = {
    **{("signed", 1 << n): DataType(n) for n in range(4)},
    **{("unsigned", 1 << n): DataType(4 + n) for n in range(4)},
    ("float", 2): DataType.FLOAT16,
    ("float", 4): DataType.FLOAT32,
    ("float", 8): DataType.FLOAT64,
}


def _choices(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " or " + names[-1]


def operation_of(value: OperationLike) -> Operation:
    """An operation by its name ("sum") or number."""
    try:
        return Operation[value.upper()] if isinstance(value, str) else Operation(value)
    except (KeyError, ValueError, TypeError, AttributeError):
        names = [one.name.lower() for one in Operation]
        raise InvalidArgumentError(f"op is {value!r}: use {_choices(names)}") from None


def _named_type(value: DataTypeLike) -> DataType:
    if isinstance(value, DataType):
        return value
    name = str(getattr(value, "name", None) or getattr(value, "__name__", value))
    try:
        return DataType[name.rpartition(".")[2].upper()]
    except KeyError:
        names = [one.name.lower() for one in DataType]
        raise InvalidArgumentError(f"dtype is {value!r}, which no reduction combines: use {_choices(names)}") from None


def data_type_of(argument: str, letters: str, item_bytes: int, dtype: DataTypeLike | None) -> DataType:
    """The element type of a buffer by its struct format, or by `dtype`.

    `dtype` may give another type to bytes, and to unsigned integers of the same length, but not to
    other elements.
    """
    kind = _KINDS.get(letters)
    own = _TYPES.get((kind, item_bytes)) if kind else None
    if dtype is None:
        if own is None:
            raise InvalidArgumentError(f"{argument} has elements of format {letters!r}, which no reduction combines: "
                                       f"convert them, or view them as a type of tutti_collectives.DataType")
        return own
    named = _named_type(dtype)
    if named == own or letters in ("B", "b", "c"):
        return named
    if kind == "unsigned" and item_bytes == named.item_bytes:
        return named
    raise InvalidArgumentError(f"{argument} has elements of format {letters!r}, but dtype is {named.name.lower()}: "
                               f"leave dtype out, or view the buffer as unsigned integers of {named.item_bytes} bytes")


def factor_bytes(factor: float, data_type: DataType) -> bytes:
    """One element with the value of a factor. A bfloat16 is rounded to nearest, ties to even."""
    if data_type == DataType.BFLOAT16:
        bits = int.from_bytes(struct.pack("=f", factor), byteorder="little" if struct.pack("=H", 1)[0] else "big")
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 if factor == factor else bits >> 16 | 0x40
        return struct.pack("=H", rounded & 0xFFFF)
    letter = "bhiqBHIQe?fd"[data_type]
    try:
        if letter not in "efd" and int(factor) != factor:
            raise ValueError("it is not an integer")
        return struct.pack("=" + letter, factor if letter in "efd" else int(factor))
    except (struct.error, OverflowError, ValueError) as error:
        raise InvalidArgumentError(f"factor is {factor}, which {data_type.name.lower()} cannot hold ({error}): use a "
                                   f"value of the type of the elements") from None
