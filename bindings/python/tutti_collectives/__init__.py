"""Collective communication that sends each byte over each link once.

    import numpy
    from tutti_collectives import Communicator

    with Communicator() as comm:                       # ranks from torchrun, mpirun, srun or tutti run
        total = numpy.full(1024, comm.rank, numpy.float32)
        comm.allreduce(total)                          # in place, blocking
        request = comm.start.allreduce(total)          # nonblocking: request.wait(), or await request

docs/python.md of the project is the guide. The import loads nothing: libtutti.so is loaded at the first use.
"""

from .communicator import Communicator, Preparer, Starter
from .collectives import Collectives
from .datatypes import DataType, Operation
from .errors import (AbortedError, Code, InternalError, InvalidArgumentError, LibraryNotFoundError, PeerFailedError,
                     ResourceExhaustedError, SystemCallError, TuttiError, TuttiTimeoutError, UnsupportedError)
from .options import CallOptions, CommunicatorOptions
from .prepared import Prepared
from .request import Message, Request, wait_all, wait_any
from .unique_id import UniqueId

__version__ = "0.1.0"

__all__ = [
    "AbortedError", "CallOptions", "Code", "Collectives", "Communicator", "CommunicatorOptions", "DataType",
    "InternalError", "InvalidArgumentError", "LibraryNotFoundError", "Message", "Operation", "PeerFailedError",
    "Prepared", "Preparer", "Request", "ResourceExhaustedError", "Starter", "SystemCallError", "TuttiError",
    "TuttiTimeoutError", "UniqueId", "UnsupportedError", "library_path", "wait_all", "wait_any",
]


def library_path() -> str:
    """The path of the libtutti that this process uses, or its name for the dynamic linker.

    The first call loads libtutti.
    """
    from ._library import library

    return library().path
