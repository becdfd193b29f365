#!/usr/bin/env python3
"""Tests real jobs at whose store a stranger says hello as rank 1, before the ranks come: with a job key it gets nothing;
without one the job ends with an error that names it, whether it keeps the place or sends 200,000 nested arrays.

  stolen_place_test.py LOOP_PROGRAM
"""

import hashlib
import os
import socket
import struct
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402
from job import free_port, PATIENCE_S, Rank  # noqa: E402

PROGRAM = ""
RANKS = 3
STOLEN = 1
STRANGER = "127.0.0.2"
JOB_KEY = "5a" * 32
LEVELS = 200_000
NESTED = {"MessagePack": b"\x91" * LEVELS, "JSON": b"[" * LEVELS}
HELLO, GATHER = 1, 3
FAILED = 3  # exit status of the program after an error of the library


def frame(kind, payload):
    """A message to the store, as src/runtime/bootstrap/store/store_frame.hpp describes it."""
    return b"TUTI" + bytes([1, kind, 0, 0]) + struct.pack("<I", len(payload)) + payload


def hello():
    token = hashlib.sha256(b"").digest()  # that of every job without a run id
    return frame(HELLO, struct.pack("<IIII", STOLEN, RANKS, 60_000, 60_000) + token)


def greeting(content):
    return frame(GATHER, struct.pack("<II", 0, 60_000) + content)


def key_offer():
    """A well-formed key offer of a rank without a job key."""
    return b"tuttkey2" + struct.pack("<III", STOLEN, RANKS, 0) + os.urandom(32) + bytes(32)


class StolenPlace(unittest.TestCase):
    def setUp(self):
        self.ranks = {}
        self.addCleanup(self.begin)
        self.begin()

    def begin(self):
        """Ends what runs, and chooses the port of the next job."""
        for rank in self.ranks.values():
            rank.remove()
        self.ranks = {}
        self.port = free_port()

    def start(self, *numbers, key=""):
        for number in numbers:
            environment = {"TUTTI_DEVICE": "ip", "TUTTI_INTERFACE": "lo", "TUTTI_HIERARCHY": "flat"}
            if key:
                environment["TUTTI_JOB_KEY"] = key
            self.ranks[number] = Rank([PROGRAM, "allgather", "1000", "50"], number, RANKS, self.port, environment)

    def stranger(self):
        """A connection of the stranger to the store, which may not listen yet."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            one = socket.socket()
            one.settimeout(PATIENCE_S)
            one.bind((STRANGER, 0))
            try:
                one.connect(("127.0.0.1", self.port))
            except ConnectionRefusedError:
                one.close()
                self.assertLess(time.monotonic(), deadline, "rank 0 does not listen")
                time.sleep(0.01)
                continue
            self.addCleanup(one.close)
            return one

    def check_error(self, number, *words):
        text = self.ranks[number].end()
        self.assertEqual(self.ranks[number].process.returncode, FAILED, text[-3000:])
        for word in words:
            self.assertIn(word, text)

    def test_jobWithAKey_givesAStrangerNothing_andIsRight(self):
        self.start(0, key=JOB_KEY)
        # Not more than the log of refusals shows in a second.
        attempts = [hello(), hello() + greeting(NESTED["MessagePack"]), NESTED["JSON"]] * 3
        for content in attempts:
            one = self.stranger()
            answer = b""
            try:
                one.sendall(content)
                while part := one.recv(4096):
                    answer += part
            except (ConnectionResetError, BrokenPipeError):
                pass
            self.assertNotIn(b"TUTI\x01\x02", answer, "a welcome")
            self.assertNotIn(b"TUTI\x01\x04", answer, "the contributions of an exchange")
        self.start(1, 2, key=JOB_KEY)
        for number in range(RANKS):
            text = self.ranks[number].end()
            self.assertEqual(self.ranks[number].process.returncode, 0, text[-3000:])
            self.assertEqual(text.splitlines()[-1], "complete")
        refused = self.ranks[0].text().count(f"the connection from {STRANGER}:")
        self.assertEqual(refused, len(attempts), self.ranks[0].text()[-3000:])

    def test_jobWithoutAKey_endsWithBothAddresses_whenARankFindsItsPlaceTaken(self):
        self.start(0)
        one = self.stranger()
        one.sendall(hello())
        # The rank comes after the stranger: the store answers a second stranger only after it has read the first hello.
        self.wait_until_taken()
        self.start(STOLEN)
        for number in (0, STOLEN):
            self.check_error(number, f"rank {STOLEN} joined twice", f"from {STRANGER}:", "from 127.0.0.1:")

    def wait_until_taken(self):
        """Says a wrong hello, whose refusal shows that the store has read what came before."""
        probe = self.stranger()
        probe.sendall(frame(HELLO, struct.pack("<IIII", STOLEN, RANKS, 60_000, 60_000) + bytes(32)))
        try:
            while probe.recv(4096):
                pass
        except ConnectionResetError:
            pass

    def check_nested_greeting(self, content):
        self.start(0)
        one = self.stranger()
        one.sendall(hello())
        self.start(*(number for number in range(1, RANKS) if number != STOLEN))
        self.assertEqual(one.recv(12)[:6], b"TUTI\x01\x02", "the job without a key welcomes the stranger")
        one.sendall(greeting(content))
        for number in self.ranks:
            self.check_error(number, f"rank {STOLEN}")

    def test_nestedArraysAsGreeting_endAJobWithoutAKey_withAnErrorThatNamesTheRank(self):
        for name, nested in NESTED.items():
            for begins in (b"", key_offer()):
                with self.subTest(f"{name}, {len(begins)} bytes before"):
                    self.begin()
                    self.check_nested_greeting(begins + nested)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    for variable in ("TUTTI_RUN_ID", "TORCHELASTIC_RUN_ID"):
        os.environ.pop(variable, None)
    requirements.main()
