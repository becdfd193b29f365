"""The options of a process group."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta


@dataclass(frozen=True)
class Options:
    """Options of the communicator of a group: `init_process_group("tutti", pg_options=Options(device="host"))`.

    An option that is left at None has the value of its environment variable TUTTI_...; without such a variable it has
    the default of libtutti. All ranks of a group must give the same options, except `interface`, `peer_timeout`,
    `receive_workers`, `max_connections` and `priority`.
    """

    device: str | None = None  # "ip", "host" or "auto"
    interface: str | None = None  # name or IP address of the network interface
    ipv6: bool | None = None
    multicast: str | None = None  # "ud", "uc" or "none"
    require_multicast: bool | None = None
    multicast_hops: int | None = None
    hierarchy: str | None = None  # "leaders", "leaders=N", "groups" or "flat"
    aggregators: str | None = None  # "host:port,..."
    aggregator_fallback: bool | None = None
    traffic_class: str | None = None
    priority: str | None = None  # "low", "normal" or "high", of all operations; None: Allgathers high, others normal
    subgroups: int | None = None
    chains: int | None = None
    chunk_bytes: int | None = None
    window_bytes: int | None = None
    segment_bytes: int | None = None
    retain_bytes: int | None = None  # 0: the root of a Broadcast retains no copy
    receive_workers: int | None = None
    max_connections: int | None = None
    authenticate: bool | None = None
    always_barrier: bool | None = None
    peer_timeout: timedelta | None = None  # time without an answer after which a watched peer is declared lost
    create_timeout: timedelta | None = None  # time limit of the creation, once all ranks have come

    def texts(self) -> dict[str, str]:
        """The options that are given, as the adapter takes them: under the names and with the values of C."""
        texts = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if field.name == "retain_bytes":
                texts["keep_bytes"] = str(value or 1)  # in C, 0 selects the default
            elif field.name == "authenticate":
                texts["no_authentication"] = str(int(not value))
            elif isinstance(value, timedelta):
                texts[field.name + "_ns"] = str(value // timedelta(microseconds=1) * 1000)
            elif isinstance(value, bool):
                texts[field.name] = str(int(value))
            else:
                texts[field.name] = str(value)
        return texts

    def in_python(self) -> dict[str, object]:
        """The options that are given, as CommunicatorOptions takes them, without `priority`.

        `priority` is an option of single calls.
        """
        values: dict[str, object] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None or field.name == "priority":
                continue
            if isinstance(value, timedelta):
                value = value.total_seconds()
            elif field.name == "aggregators":
                value = value.split(",")
            values[field.name] = value
        return values


def options_of(given: object) -> Options:
    """The Options that the program has passed as pg_options; the defaults for None.

    Error: TypeError for anything else.
    """
    if given is None:
        return Options()
    if isinstance(given, Options):
        return given
    raise TypeError(f"pg_options is a {type(given).__name__}: pass tutti_collectives.torch.Options(...) or None")
