"""Finds and loads libtutti.so at the first use, and turns its statuses into exceptions."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path
from typing import Any

from . import _declarations
from ._completions import Completions
from .errors import LibraryNotFoundError, TuttiError

VARIABLE = "TUTTI_LIBRARY"
SONAME = "libtutti.so.0"
IN_PACKAGE = Path(__file__).with_name("libtutti.so")
_REMEDY = (f"install the wheel of tutti-collectives, or build Tutti and set {VARIABLE} to the path of its libtutti.so")


class Library:
    """The loaded library: its C functions, and the completion callbacks under way."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.functions: Any = ctypes.CDLL(path)
        _declarations.declare(self.functions)
        self.completions = Completions()

    def check(self, status: int) -> None:
        """Raises the failure of the last C call of this thread if its `status` is not OK."""
        if status != 0:
            raise self.failure(status)

    def failure(self, status: int) -> TuttiError:
        """The exception for a failed C call of this thread."""
        message = self.functions.tutti_last_error().decode(errors="replace")
        count = self.functions.tutti_last_error_ranks(None, 0)
        ranks = (ctypes.c_uint32 * count)()
        self.functions.tutti_last_error_ranks(ranks, count)
        return TuttiError.of(status, message, ranks[:])

    def text(self, function: Any, handle: int) -> str:
        """A text that a C function allocates."""
        text = ctypes.c_void_p()
        self.check(function(handle, ctypes.byref(text)))
        try:
            return ctypes.string_at(text.value or 0).decode(errors="replace")
        finally:
            self.functions.tutti_free_text(text)


def _load() -> Library:
    """Loads the library from the first place that names one; the next places are not tried.

    A file that cannot be used is an error.
    """
    named = os.environ.get(VARIABLE)
    if named:
        place, path = f"{VARIABLE}={named}", named
    elif IN_PACKAGE.exists():
        place, path = f"the package ({IN_PACKAGE})", str(IN_PACKAGE)
    else:
        place, path = f"{VARIABLE} (not set), the package ({IN_PACKAGE}) and the dynamic linker ({SONAME})", SONAME
    try:
        return Library(path)
    except OSError as error:
        raise LibraryNotFoundError(f"libtutti is not usable from {place}: {error}: {_REMEDY}") from error
    except AttributeError as error:
        raise LibraryNotFoundError(f"libtutti from {place} is too old for this package: {error}: {_REMEDY}") from error


_lock = threading.Lock()
_loaded: Library | None = None


def library() -> Library:
    """The library, which the first call loads. Error: LibraryNotFoundError; the next call tries again."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _load()
    return _loaded
