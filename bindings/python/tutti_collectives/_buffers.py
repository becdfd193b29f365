"""Memory of the caller by the buffer protocol: its address and length, checked and never copied."""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_char_p, c_int, c_ssize_t, c_void_p, py_object
from typing import Any

from .errors import InvalidArgumentError

# The buffers that collectives take. typing has no name for the buffer protocol before Python 3.12.
BufferLike = Any

_NATIVE_ORDERS = "@=" + ("<" if sys.byteorder == "little" else ">")


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    ]


# Separate prototypes, because every module of the process shares those of ctypes.pythonapi.
_get_buffer = ctypes.PYFUNCTYPE(c_int, py_object, POINTER(_PyBuffer), c_int)(("PyObject_GetBuffer", ctypes.pythonapi))
_release_buffer = ctypes.PYFUNCTYPE(None, POINTER(_PyBuffer))(("PyBuffer_Release", ctypes.pythonapi))


class Buffer:
    """The memory of one argument. Its `view` keeps the memory in place, so that a bytearray cannot be resized."""

    __slots__ = ("address", "argument", "item_bytes", "letters", "nbytes", "view")

    def __init__(self, value: BufferLike, argument: str, *, writable: bool) -> None:
        self.argument = argument
        try:
            self.view = memoryview(value)
        except (TypeError, ValueError, BufferError) as error:
            raise InvalidArgumentError(f"{argument} is a {type(value).__name__}, whose memory is not available "
                                       f"through the buffer protocol ({error}): pass an array of numpy, a bytearray "
                                       f"or a memoryview; if numpy does not know the element type, pass "
                                       f"array.view('uint8')") from None
        if not self.view.c_contiguous:
            raise InvalidArgumentError(f"{argument} of shape {self.view.shape} and strides {self.view.strides} is not "
                                       f"contiguous: pass a contiguous buffer, such as numpy.ascontiguousarray({argument})")
        if writable and self.view.readonly:
            raise InvalidArgumentError(f"{argument} is read-only: pass a writable buffer, such as an array of numpy or "
                                       f"a bytearray")
        self.nbytes = self.view.nbytes
        self.item_bytes = self.view.itemsize
        self.letters = self.view.format.lstrip(_NATIVE_ORDERS)
        raw = _PyBuffer()
        _get_buffer(self.view, ctypes.byref(raw), 0)
        self.address = (raw.buf or 0) if self.nbytes else 0
        _release_buffer(ctypes.byref(raw))

    def __len__(self) -> int:
        """The number of elements."""
        return self.nbytes // self.item_bytes if self.item_bytes else 0
