"""The exceptions of Tutti: one class for each code of the library."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from .request import Request


class Code(IntEnum):
    """The kind of a failure; the values are those of `tutti_status_t`."""

    OK = 0
    INVALID_ARGUMENT = 1
    UNSUPPORTED = 2
    RESOURCE_EXHAUSTED = 3
    TIMEOUT = 4
    PEER_FAILED = 5
    ABORTED = 6
    SYSTEM = 7
    INTERNAL = 8


class TuttiError(Exception):
    """A failure that the library reports.

    `code` is the kind of the failure, and `ranks` are the ranks that are known to be at fault, such as a lost rank.
    After a wait that timed out, `ranks` are the ranks whose data is missing at this rank.
    """

    code: int = Code.INTERNAL
    ranks: tuple[int, ...] = ()
    _classes: ClassVar[dict[int, type[TuttiError]]] = {}

    @staticmethod
    def of(code: int, message: str, ranks: Sequence[int] = ()) -> TuttiError:
        """The exception for a code of the library; a plain TuttiError for a code of a later version."""
        error = TuttiError._classes.get(code, TuttiError)(message)
        error.code = Code(code) if code <= max(Code) else code
        error.ranks = tuple(ranks)
        return error

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        TuttiError._classes[cls.code] = cls


class InvalidArgumentError(TuttiError, ValueError):
    """An unusable argument, environment variable or file, given by the caller."""

    code = Code.INVALID_ARGUMENT


class UnsupportedError(TuttiError):
    """A feature that this device or host lacks."""

    code = Code.UNSUPPORTED


class ResourceExhaustedError(TuttiError):
    """A lack of memory or file descriptors, or a limit that is reached."""

    code = Code.RESOURCE_EXHAUSTED


class TuttiTimeoutError(TuttiError, TimeoutError):
    """An operation that did not end within its time limit.

    A call whose wait timed out goes on, and its buffers still belong to it. `request` is that call, so that the program
    may wait again; None for other operations.
    """

    code = Code.TIMEOUT
    request: Request | None = None


class PeerFailedError(TuttiError, ConnectionError):
    """The loss of another rank: it died, hung or became unreachable. `ranks` names it."""

    code = Code.PEER_FAILED


class AbortedError(TuttiError):
    """The use of a communicator that was aborted, or the end of a call that was cancelled."""

    code = Code.ABORTED


class SystemCallError(TuttiError):
    """The failure of a system call."""

    code = Code.SYSTEM


class InternalError(TuttiError):
    """A broken invariant inside Tutti, which is a bug of Tutti."""

    code = Code.INTERNAL


class LibraryNotFoundError(ImportError):
    """No usable libtutti.so; the text names the places that were searched and the fix."""
