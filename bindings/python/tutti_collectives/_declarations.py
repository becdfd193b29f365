"""The part of include/tutti/tutti.h that the package uses, as ctypes. A test compares it with the headers."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

ANY_RANK = 0xFFFFFFFF
NO_COLOR = 0xFFFFFFFF
ALL_TAG_BITS = 0xFFFFFFFFFFFFFFFF

Status = c_int32
Handle = c_void_p
CompletionFunction = ctypes.CFUNCTYPE(None, Status, c_char_p, c_void_p)
AllgatherFunction = ctypes.CFUNCTYPE(Status, c_void_p, c_void_p, c_size_t, c_int64, c_void_p)
CounterFunction = ctypes.CFUNCTYPE(None, c_char_p, c_uint64, c_void_p)


class Sized(ctypes.Structure):
    """A structure whose first field is its size, which the constructor sets."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **fields)


class UniqueIdText(ctypes.Structure):
    """tutti_unique_id_t"""

    _fields_ = [("text", c_char * 128)]


class CommOptions(Sized):
    """tutti_comm_options_t"""

    _fields_ = [
        ("size", c_size_t),
        ("interface_name", c_char_p),
        ("ipv6", c_uint32),
        ("subgroups", c_uint32),
        ("chains", c_uint32),
        ("chunk_bytes", c_uint32),
        ("window_bytes", c_uint64),
        ("no_authentication", c_uint32),
        ("always_barrier", c_uint32),
        ("peer_timeout_ns", c_int64),
        ("create_timeout_ns", c_int64),
        ("receive_workers", c_uint32),
        ("aggregator_fallback", c_uint32),
        ("aggregators", c_char_p),
        ("device_name", c_char_p),
        ("multicast", c_char_p),
        ("segment_bytes", c_uint64),
        ("keep_bytes", c_uint64),
        ("hierarchy", c_char_p),
        ("require_multicast", c_uint32),
        ("multicast_hops", c_uint32),
        ("job_key", c_void_p),
        ("traffic_class", c_char_p),
        ("max_connections", c_uint32),
    ]


class CallOptions(Sized):
    """tutti_call_options_t"""

    _fields_ = [
        ("size", c_size_t),
        ("algorithm", c_uint32),
        ("ports", c_uint32),
        ("radix", c_uint32),
        ("segments", c_uint32),
        ("algorithm_name", c_char_p),
        ("will_wait", c_uint32),
        ("unused", c_uint32),
        ("priority", c_int32),
    ]


class Reduction(Sized):
    """tutti_reduction_t"""

    _fields_ = [("size", c_size_t), ("type", c_uint32), ("operation", c_uint32), ("factor", c_void_p)]


class CallStructure(Sized):
    """tutti_call_t"""

    _fields_ = [
        ("size", c_size_t),
        ("collective", c_uint32),
        ("root", c_uint32),
        ("send", c_void_p),
        ("send_bytes", c_size_t),
        ("receive", c_void_p),
        ("receive_bytes", c_size_t),
        ("reduction", POINTER(Reduction)),
        ("sizes", POINTER(c_uint64)),
        ("offsets", POINTER(c_uint64)),
        ("send_sizes", POINTER(c_uint64)),
        ("send_offsets", POINTER(c_uint64)),
        ("options", POINTER(CallOptions)),
    ]


class MessageStructure(Sized):
    """tutti_message_t"""

    _fields_ = [("size", c_size_t), ("source", c_uint32), ("tag", c_uint64), ("bytes", c_uint64)]


class Progress(Sized):
    """tutti_progress_t"""

    _fields_ = [("size", c_size_t), ("chunks_present", c_uint64), ("chunks_total", c_uint64), ("done", c_uint32)]


STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "tutti_unique_id": UniqueIdText,
    "tutti_comm_options": CommOptions,
    "tutti_call_options": CallOptions,
    "tutti_reduction": Reduction,
    "tutti_call": CallStructure,
    "tutti_message": MessageStructure,
    "tutti_progress": Progress,
}

_Options = POINTER(CommOptions)
_Out = POINTER(c_void_p)

# The result and the arguments of each function.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "tutti_version": (c_char_p, []),
    "tutti_status_string": (c_char_p, [Status]),
    "tutti_last_error": (c_char_p, []),
    "tutti_last_error_ranks": (c_size_t, [POINTER(c_uint32), c_size_t]),
    "tutti_free_text": (None, [c_void_p]),
    "tutti_comm_create": (Status, [_Options, _Out]),
    "tutti_unique_id_create": (Status, [c_char_p, POINTER(UniqueIdText)]),
    "tutti_unique_id_discard": (Status, [POINTER(UniqueIdText)]),
    "tutti_comm_create_with_id": (Status, [POINTER(UniqueIdText), c_uint32, c_uint32, _Options, _Out]),
    "tutti_comm_create_with_callback": (Status, [AllgatherFunction, c_void_p, c_uint32, c_uint32, _Options, _Out]),
    "tutti_comm_duplicate": (Status, [Handle, _Options, _Out]),
    "tutti_comm_split": (Status, [Handle, c_uint32, c_int64, _Options, _Out]),
    "tutti_comm_subset": (Status, [Handle, POINTER(c_uint32), c_size_t, _Options, _Out]),
    "tutti_comm_destroy": (None, [Handle]),
    "tutti_comm_rank": (Status, [Handle, POINTER(c_uint32)]),
    "tutti_comm_size": (Status, [Handle, POINTER(c_uint32)]),
    "tutti_comm_abort": (Status, [Handle, c_char_p]),
    "tutti_comm_status": (Status, [Handle]),
    "tutti_comm_finalize": (Status, [Handle, c_int64]),
    "tutti_comm_counters": (Status, [Handle, CounterFunction, c_void_p]),
    "tutti_comm_flight_record": (Status, [Handle, POINTER(c_void_p)]),
    "tutti_comm_describe": (Status, [Handle, POINTER(c_void_p)]),
    "tutti_start": (Status, [Handle, POINTER(CallStructure), _Out]),
    "tutti_prepare": (Status, [Handle, POINTER(CallStructure), _Out]),
    "tutti_prepared_start": (Status, [Handle, _Out]),
    "tutti_prepared_free": (None, [Handle]),
    "tutti_isend": (Status, [Handle, c_void_p, c_size_t, c_uint32, c_uint64, _Out]),
    "tutti_irecv": (Status, [Handle, c_void_p, c_size_t, c_uint32, c_uint64, c_uint64, _Out]),
    "tutti_request_cancel": (Status, [Handle]),
    "tutti_request_message": (Status, [Handle, POINTER(MessageStructure)]),
    "tutti_request_test": (Status, [Handle, POINTER(c_int)]),
    "tutti_request_wait": (Status, [Handle]),
    "tutti_request_wait_for": (Status, [Handle, c_int64]),
    "tutti_request_wait_all": (Status, [POINTER(c_void_p), c_size_t, c_int64]),
    "tutti_request_wait_any": (Status, [POINTER(c_void_p), c_size_t, c_int64, POINTER(c_size_t)]),
    "tutti_request_progress": (Status, [Handle, POINTER(Progress)]),
    "tutti_request_set_callback": (Status, [Handle, CompletionFunction, c_void_p]),
    "tutti_request_free": (None, [Handle]),
}


def declare(loaded: ctypes.CDLL) -> None:
    """Sets the result and arguments of every function.

    Error: AttributeError for a function that the library lacks.
    """
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
