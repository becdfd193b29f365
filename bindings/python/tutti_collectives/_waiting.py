"""Waits that Ctrl-C ends. A C call returns to Python only at its end, and Python runs signal handlers only then."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ._library import Library
from .errors import Code, InvalidArgumentError, TuttiError

T = TypeVar("T")
SLICE_S = 0.1  # longest time in seconds for which a signal handler waits
END_S = 2.0  # time in seconds for the end of a C call that was aborted


def checked_timeout(timeout: float | None) -> float | None:
    """A time limit in seconds; None, or infinity: no limit."""
    if timeout is None or timeout == math.inf:
        return None
    if not timeout >= 0:
        raise InvalidArgumentError(f"timeout is {timeout}: use 0 or more seconds, or None for no limit")
    return float(timeout)


def wait_in_slices(library: Library, wait: Callable[[int], int], ended: Callable[[], bool], timeout: float | None,
                   stated: float | None = None) -> int:
    """Calls `wait` with short times in nanoseconds until it ends, and returns its status.

    `ended` distinguishes a call that has ended with the code TIMEOUT from a wait that timed out.
    Error: TuttiTimeoutError after `timeout` seconds; its text has `stated` or the timeout instead
    of the length of the last slice.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        length = SLICE_S if deadline is None else min(SLICE_S, max(0.0, deadline - time.monotonic()))
        status = wait(int(length * 1e9))
        if status == Code.TIMEOUT and deadline is not None and time.monotonic() >= deadline and not ended():
            error = library.failure(status)
            text = str(error).replace(f"after {length:.3f} s", f"after {stated or timeout or 0.0:.3f} s", 1)
            raise TuttiError.of(status, text, error.ranks)
        library.completions.raise_interrupt()
        if status != Code.TIMEOUT or ended():
            return status


def interruptible(work: Callable[[], T], interrupt: Callable[[], object] | None = None) -> T:
    """Runs `work`, which blocks in C, so that Ctrl-C in the main thread ends the wait for `work`.

    Ctrl-C calls `interrupt`, so that `work` ends soon. Without `interrupt`, `work` goes on after
    Ctrl-C in a thread of its own, and its result is dropped.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        done.set()

    try:
        threading.Thread(target=run, name="tutti-wait", daemon=True).start()
    except RuntimeError:  # no thread can be created, because Python ends or the system has too many
        return work()
    try:
        while not done.wait(SLICE_S):
            pass
    except BaseException:
        if interrupt is not None:
            interrupt()
            done.wait(END_S)
        raise
    if errors:
        raise errors[0]
    return results.pop()
