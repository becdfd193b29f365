"""The handle of a call under way: wait for it, test it, cancel it, or await it."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from . import _declarations
from ._core import Core, ended
from ._waiting import checked_timeout, wait_in_slices
from .errors import Code, InvalidArgumentError, TuttiError, TuttiTimeoutError


class _Waiters:
    """The futures that the end of one call wakes. The completion callback runs shortly before the call is done."""

    def __init__(self) -> None:
        self._futures: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[bool]]] = []
        self._called = False
        self.asked = False  # whether C has the callback

    def add(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[bool]) -> None:
        self._futures.append((loop, future))
        if self._called:
            self.wake()

    def wake(self) -> None:
        self._called = True
        for loop, future in list(self._futures):
            try:
                loop.call_soon_threadsafe(_wake, future, True)
            except RuntimeError:  # the loop is closed, so no task waits in it
                pass


def _wake(future: asyncio.Future[bool], by_callback: bool) -> None:
    if not future.done():
        future.set_result(by_callback)


@dataclass(frozen=True)
class Message:
    """The message that a receive has got: its sender, its tag and its length in bytes."""

    source: int
    tag: int
    nbytes: int


class Request:
    """One call under way. Only one thread at a time may use it.

    The buffers belong to the call until it has ended, and the request keeps them alive. A request
    that is dropped while its call is under way hands the buffers to the communicator, and the call
    goes on.

        request = comm.start.allreduce(gradients)
        compute()
        request.wait(timeout=10)      # or: await request
    """

    def __init__(self, core: Core, start: Callable[[int, object], int], buffers: object, timeout: float | None,
                 receives: bool = False) -> None:
        self._core = core
        self._place = ctypes.c_void_p()  # C puts the request here
        self._buffers = buffers
        self._timeout = timeout
        self._receives = receives
        self._message: Message | None = None
        self._failure: tuple[int, str, tuple[int, ...]] | None = None
        self._waiters = _Waiters()
        core.begin(start, self._place)

    @property
    def _handle(self) -> int | None:
        return self._place.value

    @property
    def done(self) -> bool:
        """Whether the call has ended, with or without success. Does not block and advances nothing."""
        return self._handle is None or ended(self._core.library, self._handle)

    @property
    def progress(self) -> tuple[int, int]:
        """How far the call has come: units that are done and units of the whole call; (0, 0) if not yet known.

        The unit is a chunk or a task, as tutti_progress_t says. Any thread may read it.
        """
        if self._handle is None:
            raise InvalidArgumentError("the call has ended and has no progress: read done instead")
        state = _declarations.Progress()
        functions = self._core.library.functions
        self._core.library.check(functions.tutti_request_progress(self._handle, ctypes.byref(state)))
        return state.chunks_present, state.chunks_total

    @property
    def message(self) -> Message:
        """Sender, tag and length of the message of a receive that is done."""
        if self._message is None:
            raise InvalidArgumentError("the request has no message: read it after a receive is done")
        return self._message

    def test(self) -> bool:
        """Advances the call without blocking. Returns whether it has ended; raises its error if it has failed."""
        if self._handle is not None:
            flag = ctypes.c_int()
            status = self._core.library.functions.tutti_request_test(self._handle, ctypes.byref(flag))
            if not flag.value:
                self._core.library.check(status)
                return False
            self._settle()
        self._raise_failure()
        return True

    def wait(self, timeout: float | None = None) -> None:
        """Waits for the end of the call and raises its error if it has failed. Ctrl-C ends the wait, not the call.

        `timeout` is in seconds; None selects the timeout of the call. Error: TuttiTimeoutError; the
        call then goes on, and the program may wait again.
        """
        self._wait(self._timeout if timeout is None else checked_timeout(timeout))

    def cancel(self) -> None:
        """Cancels a receive, which then ends with AbortedError unless it already has its message.

        Wait for the request afterwards. Error: InvalidArgumentError for other calls.
        """
        if self._handle is not None:
            self._core.library.check(self._core.library.functions.tutti_request_cancel(self._handle))

    def __await__(self) -> Generator[Any, None, None]:
        """Waits in an event loop of asyncio, which the completion callback of the library wakes.

        A task that is cancelled here leaves the call under way. The timeout of the call applies.
        """
        if not self.done:
            loop = asyncio.get_running_loop()
            woken: asyncio.Future[bool] = loop.create_future()
            self._add_waiter(loop, woken)
            timer = None if self._timeout is None else loop.call_later(self._timeout, _wake, woken, False)
            try:
                by_callback = yield from woken.__await__()
            finally:
                if timer is not None:
                    timer.cancel()
            self._wait(None if by_callback else 0.0, stated=self._timeout)
        self.wait()

    def _wait(self, limit: float | None, stated: float | None = None) -> None:
        handle, library = self._handle, self._core.library
        if handle is not None:
            try:
                wait_in_slices(library, lambda length: library.functions.tutti_request_wait_for(handle, length),
                               lambda: ended(library, handle), limit, stated)
            except TuttiTimeoutError as error:
                error.request = self
                raise
            self._settle()
        self._raise_failure()

    def _add_waiter(self, loop: asyncio.AbstractEventLoop, woken: asyncio.Future[bool]) -> None:
        """Wakes a future at the end of the call.

        The function that C gets does not refer to this request, so that the program can drop the request.
        """
        if not self._waiters.asked:
            library = self._core.library
            number = library.completions.add(self._waiters.wake)
            status = library.functions.tutti_request_set_callback(self._handle, library.completions.c_function, number)
            if status != Code.OK:
                library.completions.remove(number)
                raise library.failure(status)
            self._waiters.asked = True
        self._waiters.add(loop, woken)

    def _settle(self) -> None:
        """Keeps the result of a call that has ended, and gives up its handle and its buffers."""
        handle, library = self._handle, self._core.library
        if handle is None:
            return
        status = library.functions.tutti_request_wait(handle)
        if status != Code.OK:
            error = library.failure(status)
            self._failure = (status, str(error), error.ranks)
        elif self._receives:
            found = _declarations.MessageStructure()
            library.check(library.functions.tutti_request_message(handle, ctypes.byref(found)))
            self._message = Message(found.source, found.tag, found.bytes)
        self._place.value = None
        self._buffers = None
        library.functions.tutti_request_free(handle)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise TuttiError.of(*self._failure)

    def __del__(self) -> None:
        place = getattr(self, "_place", None)
        if place is not None and place.value is not None:
            handle, place.value = place.value, None
            self._core.adopt(handle, self._buffers)


def _open(requests: Sequence[Request]) -> Any:
    """The handles of requests as an array of C; NULL for a call that has ended."""
    return (ctypes.c_void_p * len(requests))(*[one._handle for one in requests])


def wait_all(requests: Sequence[Request], timeout: float | None = None) -> None:
    """Waits until all calls have ended. The requests may belong to several communicators.

    Raises the first failure in the order of `requests`, or TuttiTimeoutError if some calls have not ended after
    `timeout` seconds; these go on, and the program may wait again.

        wait_all([comm.start.send(x, right), comm.start.recv(y, left)], timeout=10)
    """
    limit = checked_timeout(timeout)
    under_way = [one for one in requests if one._handle is not None]
    if under_way:
        library = under_way[0]._core.library
        handles = _open(under_way)
        wait_in_slices(library, lambda length: library.functions.tutti_request_wait_all(handles, len(under_way), length),
                       lambda: all(one.done for one in under_way), limit)
    for one in under_way:
        one._settle()
    for one in requests:
        one._raise_failure()


def wait_any(requests: Sequence[Request], timeout: float | None = None) -> int:
    """Waits until one of the calls has ended and returns its index in `requests`.

    A call that had ended before counts, too. `wait` on the request at this index then returns at once.
    Error: TuttiTimeoutError if no call has ended after `timeout` seconds.

        index = wait_any(requests)
        requests[index].wait()
    """
    limit = checked_timeout(timeout)
    for index, one in enumerate(requests):
        if one.done:
            return index
    if not requests:
        raise InvalidArgumentError("requests is empty: pass at least one request")
    library = requests[0]._core.library
    handles, place = _open(requests), ctypes.c_size_t()
    status = wait_in_slices(
        library,
        lambda length: library.functions.tutti_request_wait_any(handles, len(requests), length, ctypes.byref(place)),
        lambda: False, limit)
    library.check(status)
    return place.value
