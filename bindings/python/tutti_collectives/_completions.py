"""The completion callbacks of all requests, through one C function that lives as long as the library."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from ._declarations import CompletionFunction


class Completions:
    """Functions that wait for the end of a call, each known to C by a number.

    The library runs them in a thread that makes progress, so they must be short and must not wait.
    """

    def __init__(self) -> None:
        self._functions: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count(1)
        self._here = threading.local()
        self._interrupted = False
        self.c_function = CompletionFunction(self._run)

    def add(self, function: Callable[[], None]) -> int:
        """The number under which C gives this function back; it runs once."""
        number = next(self._numbers)
        self._functions[number] = function
        return number

    def remove(self, number: int) -> None:
        self._functions.pop(number, None)

    def running_here(self) -> bool:
        """Whether the calling thread runs a completion callback, in which no communicator may be left."""
        return getattr(self._here, "running", False)

    def raise_interrupt(self) -> None:
        """Raises the KeyboardInterrupt that a callback in this thread has caught, since none passes through C."""
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
