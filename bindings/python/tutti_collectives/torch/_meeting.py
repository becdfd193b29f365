"""Exchanges of the ranks of a group through torch's store, for the backend in Python."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

_PAUSE_S = 0.01


class Meeting:
    """Meets the other ranks under a number that no earlier attempt has used, as the adapter's StoreExchange does.

    Every rank writes a fresh nonce, rank 0 publishes a roster of the nonces that it has read, and
    each rank confirms a roster that has its own nonce. If a nonce changes before its rank has
    confirmed, rank 0 has read the nonce of an earlier attempt and publishes a new roster.
    """

    def __init__(self, store: Any, prefix: str, rank: int, size: int, timeout_s: float, name: str) -> None:
        self._store, self._rank, self._size, self._name = store, rank, size, name
        self._prefix = f"tutti/{prefix}/"
        self._timeout_s = timeout_s
        self._exchanges = 0
        end = time.monotonic() + timeout_s
        nonce = secrets.token_hex(16)
        store.set(f"{self._prefix}hello/{rank}", nonce)
        self._number = self._publish(nonce, end) if rank == 0 else self._confirm(nonce, end)

    def _wait(self, ready: Callable[[], bool], end: float, absent: Callable[[], list[int]]) -> None:
        while not ready():
            if time.monotonic() >= end:
                raise TimeoutError(f"Timed out waiting {self._timeout_s:g} s for the other ranks of group "
                                   f"'{self._name}' at rank {self._rank}: ranks {absent()} have not come: look for an "
                                   "earlier error of these ranks, or give init_process_group a longer timeout")
            time.sleep(_PAUSE_S)

    def _missing(self, key: str) -> list[int]:
        return [rank for rank in range(self._size) if rank != self._rank and not self._store.check([f"{key}/{rank}"])]

    def _publish(self, own: str, end: float) -> str:
        hello = self._prefix + "hello"
        self._wait(lambda: not self._missing(hello), end, lambda: self._missing(hello))
        while True:
            nonces = [own, *(self._store.get(f"{hello}/{rank}").decode() for rank in range(1, self._size))]
            number = self._prefix + secrets.token_hex(16)
            self._store.set(self._prefix + "roster", "\n".join([number, *nonces]))
            changed = False

            def settled() -> bool:
                nonlocal changed
                missing = self._missing(number + "/confirm")
                changed = any(self._store.get(f"{hello}/{rank}").decode() != nonces[rank] for rank in missing)
                return not missing or changed

            self._wait(settled, end, lambda: self._missing(number + "/confirm"))
            if not changed:
                self._store.set(number + "/go", "1")
                return number

    def _confirm(self, own: str, end: float) -> str:
        confirmed = ""

        def met() -> bool:
            nonlocal confirmed
            if not self._store.check([self._prefix + "roster"]):
                return False
            number, *nonces = self._store.get(self._prefix + "roster").decode().split("\n")
            if len(nonces) != self._size or nonces[self._rank] != own:
                return False
            if number != confirmed:
                self._store.set(f"{number}/confirm/{self._rank}", "1")
            confirmed = number
            return bool(self._store.check([number + "/go"]))

        self._wait(met, end, lambda: self._missing(self._prefix + "hello"))
        return confirmed

    def allgather(self, mine: bytes, timeout_s: float) -> list[bytes]:
        """The bytes of all ranks, in rank order."""
        key = f"{self._number}/{self._exchanges}"
        self._exchanges += 1
        self._store.set(f"{key}/{self._rank}", mine.hex())
        self._wait(lambda: not self._missing(key), time.monotonic() + timeout_s, lambda: self._missing(key))
        return [bytes.fromhex(self._store.get(f"{key}/{rank}").decode()) for rank in range(self._size)]
