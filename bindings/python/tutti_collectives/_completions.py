"""The completion callbacks of all requests, through one C function that lives as long as the library."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from ._declarations import CompletionFunction


class Completions:
    """Functions that run at the end of a call; C identifies each function by a number.

    The library runs these functions in a thread that makes progress, so they must not block.
    """

    def __init__(self) -> None:
        self._functions: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count(1)
        self._here = threading.local()
        self._interrupted = False
        self.c_function = CompletionFunction(self._run)

    def add(self, function: Callable[[], None]) -> int:
        """Registers a function, which runs once. Returns the number by which C identifies it."""
        number = next(self._numbers)
        self._functions[number] = function
        return number

    def remove(self, number: int) -> None:
        self._functions.pop(number, None)

    def running_here(self) -> bool:
        """Whether this thread runs a completion callback, which must not leave a communicator."""
        return getattr(self._here, "running", False)

    def raise_interrupt(self) -> None:
        """Raises in the main thread the KeyboardInterrupt that a callback has caught.

        A callback cannot raise it, because no exception passes through C.
        """
        if self._interrupted and threading.current_thread() is threading.main_thread():
            self._interrupted = False
            raise KeyboardInterrupt

    def _run(self, _status: int, _message: bytes, number: int) -> None:
        self._here.running = True
        try:
            self._functions.pop(number)()
        except KeyboardInterrupt:
            self._interrupted = True
        finally:
            self._here.running = False
