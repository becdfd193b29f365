"""The C handle of a communicator, and the memory of calls that the program has dropped while they were under way."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Callable

from . import _declarations
from ._library import Library
from .errors import Code, InvalidArgumentError

# Time limit in seconds for leaving a communicator that was not closed: for its calls in flight and
# for peers that need data.
LEAVE_S = 5.0


class Orphan:
    """A request without an owner. Its buffers belong to the library until its call has ended."""

    __slots__ = ("buffers", "request")

    def __init__(self, request: int, buffers: object) -> None:
        self.request = request
        self.buffers = buffers


def ended(library: Library, request: int) -> bool:
    """Whether the call of a request has ended; any thread may call this function."""
    progress = _declarations.Progress()
    return library.functions.tutti_request_progress(request, ctypes.byref(progress)) != Code.OK or bool(progress.done)


class Lease:
    """A C handle with a count of its users; the last user destroys the handle.

    A `with` statement is one user, for a long C call in another thread.
    """

    def __init__(self, library: Library, handle: int) -> None:
        self._handle = handle
        self._library = library
        self._users = 1
        self._lock = threading.Lock()

    @property
    def handle(self) -> int:
        if self._users == 0:
            raise InvalidArgumentError("the communicator is closed: create a new one")
        return self._handle

    def __enter__(self) -> int:
        with self._lock:
            handle = self.handle
            self._users += 1
        return handle

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            last = self._users == 0
        if last:
            self._library.functions.tutti_comm_destroy(self._handle)


def _leave(library: Library, lease: Lease, orphans: deque[Orphan], timeout: float) -> int:
    """Ends the calls in flight, then frees the handles. Returns the status of tutti_comm_finalize."""
    functions = library.functions
    status: int = functions.tutti_comm_finalize(lease.handle, int(min(timeout, 2.0**33) * 1e9))
    while orphans:
        functions.tutti_request_free(orphans.popleft().request)
    lease.release()
    return status


def _leave_dropped(library: Library, lease: Lease, orphans: deque[Orphan]) -> None:
    """Leaves a communicator that was not closed, when the program drops it or exits."""
    if library.completions.running_here():
        threading.Thread(target=_leave, args=(library, lease, orphans, LEAVE_S), name="tutti-leave").start()
    else:
        _leave(library, lease, orphans, LEAVE_S)


class Core:
    """One C communicator. Each request refers to this object, so that the communicator outlives its requests."""

    def __init__(self, library: Library, handle: int) -> None:
        self.library = library
        self._lease: Lease | None = Lease(library, handle)
        self._orphans: deque[Orphan] = deque()
        self._at_end = weakref.finalize(self, _leave_dropped, library, self._lease, self._orphans)
        number = ctypes.c_uint32()
        library.check(library.functions.tutti_comm_rank(handle, ctypes.byref(number)))
        self.rank: int = number.value
        library.check(library.functions.tutti_comm_size(handle, ctypes.byref(number)))
        self.size: int = number.value

    @property
    def closed(self) -> bool:
        return self._lease is None

    @property
    def lease(self) -> Lease:
        if self._lease is None:
            raise InvalidArgumentError(f"rank {self.rank}: the communicator is closed: create a new one")
        return self._lease

    @property
    def handle(self) -> int:
        return self.lease.handle

    def begin(self, start: Callable[[int, object], int], place: ctypes.c_void_p) -> None:
        """Starts a call by `start`, which gets this handle and the place for the request.

        The caller passes `place`, because Ctrl-C can raise KeyboardInterrupt here after C has stored the request.
        """
        if self._orphans:
            self._free_ended_orphans()
        self.library.check(start(self.handle, ctypes.byref(place)))

    def adopt(self, request: int, buffers: object) -> None:
        """Takes a request whose owner is gone, with its buffers."""
        if ended(self.library, request):
            self.library.functions.tutti_request_free(request)
        else:
            self._orphans.append(Orphan(request, buffers))

    def close(self, timeout: float) -> None:
        """Ends every call within a time and frees the handle. Error: the failure of the communicator, or a timeout."""
        lease = self._lease
        if self._at_end.detach() is None or lease is None:
            return
        self._lease = None
        status = _leave(self.library, lease, self._orphans, timeout)
        self._free_ended_orphans()  # the program may have dropped requests meanwhile
        self.library.check(status)

    def _free_ended_orphans(self) -> None:
        for _ in range(len(self._orphans)):
            try:
                orphan = self._orphans.popleft()
            except IndexError:  # another thread has taken the orphans
                return
            if ended(self.library, orphan.request):
                self.library.functions.tutti_request_free(orphan.request)
            else:
                self._orphans.append(orphan)
