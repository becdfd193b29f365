"""The options of communicators and of single calls."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from . import _declarations
from .errors import InvalidArgumentError

Filled = TypeVar("Filled", bound=ctypes.Structure)


def nanoseconds(name: str, seconds: float) -> int:
    """A duration of an option; 0 is refused, because the library would take it as the default."""
    if not 0 < seconds < 2**33:
        raise InvalidArgumentError(f"{name} is {seconds}: use a number of seconds above 0")
    return max(1, int(seconds * 1e9))


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _filled(structure: type[Filled], **values: Any) -> Filled:
    """A C structure with these values. Error: InvalidArgumentError for a number that its field cannot hold."""
    made = structure(**values)
    for name, value in values.items():
        if value is not None and not isinstance(value, bytes) and getattr(made, name) != value:
            largest = 2**(8 * getattr(structure, name).size) - 1
            raise InvalidArgumentError(f"{name} is {value}: use a number from 0 to {largest}")
    return made


@dataclass(frozen=True)
class CommunicatorOptions:
    """The options of a communicator; None selects the default, which docs/operating.md describes.

    If an option marked (equal on all ranks) has different values, the creation fails and names the option.
    """

    #: Name or IP address of the network interface. If None, TUTTI_INTERFACE is used; if that is not set either,
    #: the library chooses the interface.
    interface: str | None = None
    #: (equal on all ranks) Whether IPv6 is used instead of IPv4.
    ipv6: bool = False
    #: (equal on all ranks) Device that moves the bytes: "ip" (UDP), "host" (shared memory of one host) or "auto". If
    #: None, TUTTI_DEVICE is used; the default is "auto".
    device: str | None = None
    #: (equal on all ranks) How the device "ip" multicasts a chunk: as one datagram ("ud") or as one message of several
    #: datagrams ("uc"); with "none" it multicasts nothing. If None, TUTTI_MULTICAST is used; the default is "ud".
    multicast: str | None = None
    #: (equal on all ranks) Whether creation fails if the network does not pass multicast between all ranks. If False,
    #: creation succeeds on such a network, and the collectives use connections only. TUTTI_REQUIRE_MULTICAST=1 has the
    #: same effect as True.
    require_multicast: bool = False
    #: (equal on all ranks) Hop limit (TTL in IPv4) of multicast datagrams, 1 to 255: they cross at most
    #: `multicast_hops` - 1 routers. If None, TUTTI_MULTICAST_HOPS is used; the default is 1, which keeps multicast
    #: inside the subnet.
    multicast_hops: int | None = None
    #: (equal on all ranks) Number of multicast subgroups that share each block.
    subgroups: int | None = None
    #: (equal on all ranks) Number of ranks that multicast at the same time in an Allgather. If None, the library learns
    #: it from measurements.
    chains: int | None = None
    #: (equal on all ranks) Payload of a multicast chunk, in bytes.
    chunk_bytes: int | None = None
    #: Payload of one datagram of a "uc" message, in bytes.
    segment_bytes: int | None = None
    #: (equal on all ranks) Credit window in bytes: the most that all senders together may have outstanding.
    window_bytes: int | None = None
    #: (equal on all ranks) Size in bytes up to which a Broadcast is done at its root as soon as it is sent; 0 turns
    #: this off.
    retain_bytes: int | None = None
    #: (equal on all ranks) Whether every datagram carries a keyed tag; if False, it carries a CRC-32C instead.
    authenticate: bool = True
    #: (equal on all ranks) Whether a ready barrier begins every collective.
    always_barrier: bool = False
    #: Peer timeout in seconds: a watched peer that gives no answer for this long, counted from the first ping
    #: without an answer, is declared lost.
    peer_timeout: float | None = None
    #: Time in seconds within which all ranks must create the communicator.
    create_timeout: float | None = None
    #: Number of receive workers, at most one per subgroup. If None, TUTTI_RECEIVE_WORKERS is used; if that is not
    #: set either, there are no receive workers.
    receive_workers: int | None = None
    #: Addresses "host:port" of the aggregators that reduce for this communicator. If empty, TUTTI_AGGREGATORS is
    #: used; if that is not set either, no aggregators are used. Creation fails if only some ranks give a list.
    aggregators: Sequence[str] = ()
    #: Whether creation goes on without aggregators if one of them cannot be used; if False, creation fails.
    aggregator_fallback: bool = False
    #: (equal on all ranks) Hierarchy of a job with several ranks on each of several hosts: "leaders", "leaders=N" (N
    #: leaders per host), "groups" or "flat". If None, TUTTI_HIERARCHY is used; the default is "leaders".
    hierarchy: str | None = None
    #: The job key: 32 random bytes that only the ranks of the job have. Creation fails unless all ranks have the
    #: same key, or none has one. If None, the key comes from the file that TUTTI_JOB_KEY_FILE names; if that is
    #: not set either, from the unique id or the launcher. repr() does not show it.
    job_key: bytes | None = field(default=None, repr=False)
    #: Traffic class of the datagrams of the device "ip": a code point such as "46", or with a priority in the
    #: queues of this host, as in "46/5". Three values separated by commas, as in "8,0,46", are the classes of
    #: calls of low, normal and high priority. If None, TUTTI_TRAFFIC_CLASS is used; if that is not set either, the
    #: kernel's default.
    traffic_class: str | None = None
    #: Largest number of reliable connections that the device "ip" holds at a time, 2 or more. If None,
    #: TUTTI_MAX_CONNECTIONS is used; if that is not set either, there is no limit.
    max_connections: int | None = None

    def _structure(self) -> _declarations.CommOptions:
        if self.retain_bytes is not None and self.retain_bytes < 0:
            raise InvalidArgumentError(f"retain_bytes is {self.retain_bytes}: use 0 or more bytes")
        if self.job_key is not None and len(self.job_key) != 32:
            raise InvalidArgumentError(f"job_key has {len(self.job_key)} bytes: use 32")
        made = _filled(
            _declarations.CommOptions,
            interface_name=_text(self.interface), ipv6=self.ipv6, subgroups=self.subgroups or 0,
            chains=self.chains or 0, chunk_bytes=self.chunk_bytes or 0, window_bytes=self.window_bytes or 0,
            no_authentication=not self.authenticate, always_barrier=self.always_barrier,
            receive_workers=self.receive_workers or 0, aggregator_fallback=self.aggregator_fallback,
            aggregators=_text(",".join(self.aggregators) or None), device_name=_text(self.device),
            multicast=_text(self.multicast), segment_bytes=self.segment_bytes or 0,
            keep_bytes=0 if self.retain_bytes is None else max(1, self.retain_bytes),
            hierarchy=_text(self.hierarchy), require_multicast=self.require_multicast,
            multicast_hops=self.multicast_hops or 0, traffic_class=_text(self.traffic_class),
            max_connections=self.max_connections or 0)
        if self.peer_timeout is not None:
            made.peer_timeout_ns = nanoseconds("peer_timeout", self.peer_timeout)
        if self.create_timeout is not None:
            made.create_timeout_ns = nanoseconds("create_timeout", self.create_timeout)
        if self.job_key is not None:
            key = ctypes.create_string_buffer(self.job_key, 32)
            made.job_key = ctypes.addressof(key)
            made.key = key  # keeps the bytes alive as long as the structure
        return made


@dataclass(frozen=True)
class CallOptions:
    """The options of one collective, equal on all ranks except `priority`; None selects the default.

    `algorithm` is a name that `tutti explain` lists, such as "multicast" or "ring".
    """

    algorithm: str | None = None
    #: Number of ports k of a k-port algorithm.
    ports: int | None = None
    #: Radix k of a k-nomial tree.
    radix: int | None = None
    #: Number of segments into which a pipelined message is cut.
    segments: int | None = None
    #: "low", "normal" or "high": ready data of this call is sent before ready data of calls of this
    #: process that have a lower priority.
    priority: str | None = None

    def _structure(self) -> _declarations.CallOptions:
        priority = {None: 0, "low": -1, "normal": 0, "high": 1}.get(self.priority)
        if priority is None:
            raise InvalidArgumentError(f"priority is {self.priority!r}: use \"low\", \"normal\" or \"high\"")
        return _filled(_declarations.CallOptions, ports=self.ports or 0, radix=self.radix or 0,
                       segments=self.segments or 0, algorithm_name=_text(self.algorithm), priority=priority)
