"""A fixed set of ranks that run collectives together."""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from . import _declarations
from ._buffers import BufferLike
from ._calls import Call, received, sent
from ._core import LEAVE_S, Core
from ._library import Library, library
from ._waiting import checked_timeout, interruptible
from .collectives import Collectives
from .errors import Code, InternalError, InvalidArgumentError, TuttiError
from .options import CommunicatorOptions
from .prepared import Prepared
from .request import Message, Request
from .unique_id import UniqueId

Result = TypeVar("Result", covariant=True)

# An allgather that the program supplies: it gets the bytes of this rank and a time limit in seconds, and returns those
# of all ranks, in rank order.
Allgather = Callable[[bytes, float], Sequence[bytes]]


class _OverCore(Collectives[Result]):
    """The collectives of one C communicator."""

    _core: Core

    @property
    def rank(self) -> int:
        """The number of this rank, from 0."""
        return self._core.rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._core.size

    def _start(self, call: Call, timeout: float | None) -> Request:
        functions = self._core.library.functions
        limit = checked_timeout(timeout)
        return Request(self._core,
                       lambda handle, place: functions.tutti_start(handle, ctypes.byref(call.structure), place),
                       call.buffers, limit)

    def _start_send(self, message: BufferLike, to: int, tag: int, timeout: float | None) -> Request:
        functions = self._core.library.functions
        limit = checked_timeout(timeout)
        own = sent(message, "message")
        target, number = _number("to", to, 32), _number("tag", tag, 64)
        return Request(
            self._core,
            lambda handle, place: functions.tutti_isend(handle, own.address, own.nbytes, target, number, place),
            own.view, limit)

    def _start_recv(self, buffer: BufferLike, source: int | None, tag: int | None, tag_mask: int | None,
                    timeout: float | None) -> Request:
        functions = self._core.library.functions
        limit = checked_timeout(timeout)
        own = received(buffer, "buffer")
        origin = _declarations.ANY_RANK if source is None else _number("source", source, 32)
        mask = _declarations.ALL_TAG_BITS if tag_mask is None else _number("tag_mask", tag_mask, 64)
        wanted, mask = (0, 0) if tag is None else (_number("tag", tag, 64), mask)
        return Request(
            self._core,
            lambda handle, place: functions.tutti_irecv(handle, own.address, own.nbytes, origin, wanted, mask, place),
            own.view, limit, receives=True)


class Starter(_OverCore[Request]):
    """The nonblocking form of each call, as `comm.start`: it returns the request of the call at once.

    The `timeout` of a call applies to each wait for its request.

        request = comm.start.allgather(mine, everything)
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    def send(self, message: BufferLike, to: int, tag: int = 0, *, timeout: float | None = None) -> Request:
        """As Communicator.send. The request is done when `message` may be changed."""
        return self._start_send(message, to, tag, timeout)

    def recv(self, buffer: BufferLike, source: int | None = None, tag: int | None = 0, *, tag_mask: int | None = None,
             timeout: float | None = None) -> Request:
        """As Communicator.recv. `Request.message` has the message once the request is done."""
        return self._start_recv(buffer, source, tag, tag_mask, timeout)

    def _carry_out(self, call: Call, timeout: float | None) -> Request:
        return self._start(call, timeout)


class Preparer(_OverCore[Prepared]):
    """The prepared form of each collective, as `comm.prepare`: it checks the call and starts nothing."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def _carry_out(self, call: Call, timeout: float | None) -> Prepared:
        return Prepared(self._core, call, checked_timeout(timeout))


class Communicator(_OverCore[None]):
    """A fixed set of ranks that run collectives together. Its own methods block until a call has ended.

    `Communicator()` has all ranks of the job that the environment variables of torchrun, mpirun,
    srun or `tutti run` describe; without such variables it has one rank. Every rank must create it.
    `start` has the nonblocking form of each call and `prepare` the prepared form.

    Threads: several threads may use a communicator, if all ranks call its collectives in the same
    order; no thread may start a call while another thread closes the communicator. Ctrl-C ends a
    blocking call with KeyboardInterrupt within 0.2 seconds; the collective itself goes on, so close
    or abort the communicator then. In a child of `os.fork` the communicators of the parent give
    InvalidArgumentError; the child may create its own.

    A `with` statement closes the communicator, and aborts it if an exception leaves the block, so that no peer waits.
    Without a `with` statement, call `close`. A communicator that is dropped, or still open at exit,
    is closed with a time limit of five seconds.

        with Communicator() as comm:
            total = numpy.full(4, comm.rank, numpy.float32)
            comm.allreduce(total)
    """

    def __init__(self, options: CommunicatorOptions | None = None) -> None:
        self._core = _create(options, lambda found, wanted, place: found.functions.tutti_comm_create(wanted, place))

    @classmethod
    def from_id(cls, unique_id: UniqueId, rank: int, size: int,
                options: CommunicatorOptions | None = None) -> Communicator:
        """A communicator of `size` ranks that have the same id. Rank 0 must be the process that made the id."""
        text = unique_id._structure()
        number, ranks = _number("rank", rank, 32), _number("size", size, 32)
        return cls._over(_create(options, lambda found, wanted, place: found.functions.tutti_comm_create_with_id(
            ctypes.byref(text), number, ranks, wanted, place)))

    @classmethod
    def from_allgather(cls, allgather: Allgather, rank: int, size: int,
                       options: CommunicatorOptions | None = None) -> Communicator:
        """A communicator of `size` ranks that find each other by an allgather of the program.

        `allgather(mine, timeout)` gets this rank's bytes and returns those of all ranks, in rank order and of equal
        length; it must raise an exception after `timeout` seconds. Only this method calls
        `allgather`, in the calling thread. This method raises an exception of `allgather` again.

            Communicator.from_allgather(lambda mine, timeout: mpi.allgather(mine), mpi.rank, mpi.size)
        """
        errors: list[BaseException] = []
        number, ranks = _number("rank", rank, 32), _number("size", size, 32)
        function = _declarations.AllgatherFunction(_exchange(allgather, ranks, errors))
        try:
            core = _create(options, lambda found, wanted, place: found.functions.tutti_comm_create_with_callback(
                function, None, number, ranks, wanted, place), here=True)
        except TuttiError as error:
            raise (errors[0] if errors else error)
        return cls._over(core)

    @classmethod
    def _over(cls, core: Core) -> Communicator:
        made = cls.__new__(cls)
        made._core = core
        return made

    # ---- calls ----

    @property
    def start(self) -> Starter:
        """The nonblocking calls: `comm.start.allreduce(x)` returns a Request."""
        return Starter(self._core)

    @property
    def prepare(self) -> Preparer:
        """The prepared calls: `comm.prepare.allreduce(x)` returns a Prepared."""
        return Preparer(self._core)

    def send(self, message: BufferLike, to: int, tag: int = 0, *, timeout: float | None = None) -> None:
        """Sends a message with a tag to rank `to`, which may be this rank.

        Returns when `message` may be changed: at once for a short message that finds room at the receiver, otherwise
        when a receive has got it. A rank may send and receive messages at any point in the order of its collectives.

            comm.send(b"ready", to=1, tag=7)
        """
        self._start_send(message, to, tag, timeout).wait()

    def recv(self, buffer: BufferLike, source: int | None = None, tag: int | None = 0, *, tag_mask: int | None = None,
             timeout: float | None = None) -> Message:
        """Receives one message of rank `source`, or of any rank (None), into `buffer`.

        The tag of the message must agree with `tag` in the bits of `tag_mask` (None: all bits);
        `tag` None accepts every tag. The message may be shorter than the buffer.
        Error: InvalidArgumentError for a longer message, which is lost.

            message = comm.recv(buffer, source=None, tag=7)
            print(message.source, bytes(buffer[:message.nbytes]))
        """
        request = self._start_recv(buffer, source, tag, tag_mask, timeout)
        request.wait()
        return request.message

    def _carry_out(self, call: Call, timeout: float | None) -> None:
        self._start(call.waited_for(), timeout).wait()

    # ---- other communicators ----

    def duplicate(self, options: CommunicatorOptions | None = None) -> Communicator:
        """A second communicator of the same ranks, whose calls need no order relative to those of this one.

        Every rank must call this method at the same place in the order of the collectives. Ctrl-C in this method, in
        `split` and in `subset` aborts the communicator.
        """
        made = self._other("duplicate", options, lambda functions, handle, wanted, place:
                           functions.tutti_comm_duplicate(handle, wanted, place))
        if made is None:
            raise InternalError("the library has created no communicator")
        return made

    def split(self, color: int | None, key: int = 0, options: CommunicatorOptions | None = None) -> Communicator | None:
        """The communicator of the ranks that pass the same color.

        These ranks are numbered by key and, among equal keys, by their rank in this communicator. Color None: this
        rank joins no communicator and gets None. Every rank must call this method at the same place in the order of
        the collectives.
        """
        chosen = _declarations.NO_COLOR if color is None else _number("color", color, 32)
        return self._other("split", options, lambda functions, handle, wanted, place:
                           functions.tutti_comm_split(handle, chosen, key, wanted, place))

    def subset(self, ranks: Sequence[int], options: CommunicatorOptions | None = None) -> Communicator | None:
        """The communicator of the ranks in `ranks`, in the order of the list; None at other ranks.

        Every rank must call this method at the same place in the order of the collectives. Ranks
        may pass different lists if these have no rank in common.
        """
        named = (ctypes.c_uint32 * len(ranks))(*[_number("ranks", one, 32) for one in ranks])
        return self._other("subset", options, lambda functions, handle, wanted, place:
                           functions.tutti_comm_subset(handle, named, len(named), wanted, place))

    def _other(self, name: str, options: CommunicatorOptions | None,
               make: Callable[[Any, int, Any, Any], int]) -> Communicator | None:
        """Creates a communicator from this one.

        The C call keeps the handle of this communicator, even if Ctrl-C ends the wait for the call.
        """
        lease = self._core.lease

        def leased(found: Library, wanted: Any, place: Any) -> int:
            with lease as handle:
                return make(found.functions, handle, wanted, place)

        core = _create_or_none(options, leased, interrupt=lambda: self.abort(f"{name} was interrupted"))
        return None if core is None else self._over(core)

    # ---- the end ----

    def abort(self, reason: str = "") -> None:
        """Ends every call of the communicator with an error.

        At this rank the error is AbortedError, at the peers an error that names this rank. Any thread may call this
        method. Later calls fail.
        """
        with self._core.lease as handle:
            self._check(self._core.library.functions.tutti_comm_abort(handle, reason.encode() or None))

    def close(self, timeout: float = 30.0) -> None:
        """Ends the communicator at this rank, within `timeout` seconds, and frees it.

        Waits for calls in flight and for peers that need data from this rank. A second call does
        nothing. Errors: the failure of the communicator; TuttiTimeoutError if calls in flight were
        aborted, or if peers may lack data although all calls have ended; in the second case `ranks`
        has these peers. The communicator is closed in any case.
        """
        limit = checked_timeout(timeout)
        interruptible(lambda: self._core.close(2.0**33 if limit is None else limit))

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._core.closed

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.closed:
            return
        if kind is None or issubclass(kind, SystemExit):
            self.close()
            return
        try:
            self.abort(f"{kind.__name__}: {error}")
            self.close(LEAVE_S)
        except TuttiError:  # the exception that leaves the block is the first failure
            pass

    # ---- observation ----

    def status(self) -> TuttiError | None:
        """The first failure or abort that this rank or a peer has noticed; None if there is none. Does not block.

        Only a rank that has a call in flight notices the death of a peer by itself.
        """
        functions = self._core.library.functions
        with self._core.lease as handle:
            status = functions.tutti_comm_status(handle)
        return None if status == Code.OK else self._core.library.failure(status)

    def describe(self) -> str:
        """A few lines that name device, interface, multicast group and limits."""
        with self._core.lease as handle:
            return self._core.library.text(self._core.library.functions.tutti_comm_describe, handle)

    @property
    def device(self) -> str:
        """The device that the communicator uses: "ip" or "host"."""
        found = re.search(r"^device (\w+):", self.describe(), re.MULTILINE)
        if found is None:
            raise InternalError(f"describe names no device: {self.describe()!r}")
        return found.group(1)

    def counters(self) -> dict[str, int]:
        """The value of every protocol and device counter by its name, counted since the communicator was created.

        docs/operating.md lists the counters.
        """
        counts: dict[str, int] = {}

        def visit(name: bytes, value: int, _context: object) -> None:
            counts[name.decode()] = value

        function = _declarations.CounterFunction(visit)
        with self._core.lease as handle:
            self._check(self._core.library.functions.tutti_comm_counters(handle, function, None))
        return counts

    def flight_record(self) -> dict[str, Any]:
        """The last 256 collectives of this rank with their phase and progress, and all counters."""
        with self._core.lease as handle:
            text = self._core.library.text(self._core.library.functions.tutti_comm_flight_record, handle)
        record: dict[str, Any] = json.loads(text)
        return record

    @property
    def native_handle(self) -> int:
        """The `tutti_comm_t*` as a number, for C code of the same process. It stays valid until `close`."""
        return self._core.handle

    def __repr__(self) -> str:
        return f"<Communicator rank {self.rank} of {self.size}{', closed' if self.closed else ''}>"

    def _check(self, status: int) -> None:
        self._core.library.check(status)


_Make = Callable[[Library, Any, Any], int]


def _number(name: str, value: int, bits: int) -> int:
    if not 0 <= value < 2**bits - (bits == 32):
        raise InvalidArgumentError(f"{name} is {value}: use a number from 0 to {2**bits - 1 - (bits == 32)}")
    return int(value)


def _create_or_none(options: CommunicatorOptions | None, make: _Make, here: bool = False,
                    interrupt: Callable[[], None] | None = None) -> Core | None:
    """A communicator that `make` creates in C; None if this rank has joined none.

    If `here`, this thread calls `make`.
    """
    found = library()
    structure = None if options is None else options._structure()
    wanted = None if structure is None else ctypes.byref(structure)

    def work() -> Core | None:
        handle = ctypes.c_void_p()
        found.check(make(found, wanted, ctypes.byref(handle)))
        return None if handle.value is None else Core(found, handle.value)

    return work() if here else interruptible(work, interrupt)


def _create(options: CommunicatorOptions | None, make: _Make, here: bool = False) -> Core:
    core = _create_or_none(options, make, here)
    if core is None:
        raise InternalError("the library has created no communicator")
    return core


def _exchange(allgather: Allgather, ranks: int, errors: list[BaseException]) -> Callable[..., int]:
    """The C form of an allgather of the program.

    An exception of the allgather is appended to `errors`, because no exception may pass through C.
    """

    def exchange(mine: int, everything: int, nbytes: int, timeout_ns: int, _context: object) -> int:
        try:
            blocks = allgather(ctypes.string_at(mine, nbytes) if nbytes else b"", timeout_ns / 1e9)
            lengths = [len(one) for one in blocks]
            if lengths != [nbytes] * ranks:
                raise InvalidArgumentError(f"allgather returned blocks of {lengths} bytes: return {ranks} blocks of "
                                           f"{nbytes} bytes")
            ctypes.memmove(everything, b"".join(blocks), nbytes * ranks)
        except BaseException as error:
            errors.append(error)
            return Code.INVALID_ARGUMENT
        return Code.OK

    return exchange
