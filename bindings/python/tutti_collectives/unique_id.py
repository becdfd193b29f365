"""The id by which ranks without a launcher find each other."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

from ._declarations import UniqueIdText
from ._library import library


@dataclass(frozen=True)
class UniqueId:
    """Identifies a job that is being started. The program carries `text` to the other ranks.

    A process that has the text can join the job, so treat it as a secret.

        job = UniqueId.create()       # at rank 0
        send_to_the_others(job.text)
        comm = Communicator.from_id(UniqueId(text), rank, size)
    """

    text: str = field(repr=False)

    @staticmethod
    def create(host: str | None = None) -> UniqueId:
        """Makes an id in the process that will be rank 0, and starts the store there.

        `host` is the address at which the other ranks reach this process; None selects the address
        of the first interface that is up and is not the loopback. The store uses a TCP port and a
        thread until rank 0 has joined or `discard` is called.
        """
        made = UniqueIdText()
        found = library()
        found.check(found.functions.tutti_unique_id_create(host.encode() if host else None, ctypes.byref(made)))
        return UniqueId(made.text.decode())

    def discard(self) -> None:
        """Stops the store of this id if this process made the id and has not joined; otherwise does nothing."""
        found = library()
        found.check(found.functions.tutti_unique_id_discard(ctypes.byref(self._structure())))

    def _structure(self) -> UniqueIdText:
        return UniqueIdText(text=self.text.encode())
