#!/usr/bin/env python3
"""Tests ranks whose process forks or exits in the middle of a job. The ranks are processes on loopback, over datagrams
and over shared memory."""

import os
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402
from job import free_port, Rank  # noqa: E402

PROGRAM = ""
RANKS = 3
ACTOR = 1  # the rank that forks or exits
DEVICES = ("ip", "host")


class Life(unittest.TestCase):
    def setUp(self):
        self.jobs = {}

    def tearDown(self):
        for one in [rank for ranks in self.jobs.values() for rank in ranks]:
            one.remove()

    def start(self, *arguments):
        """Starts one job on each device."""
        for device in DEVICES:
            port = free_port()
            environment = {"TUTTI_DEVICE": device, "TUTTI_INTERFACE": "lo", "TUTTI_HIERARCHY": "flat",
                           "TSAN_OPTIONS": os.environ.get("TSAN_OPTIONS", "") + ":die_after_fork=0"}
            self.jobs[device] = [Rank([PROGRAM, *arguments], rank, RANKS, port, environment)
                                 for rank in range(RANKS)]


class Fork(Life):
    def check_job(self, end):
        self.start("fork", end)
        for device, ranks in self.jobs.items():
            for rank in ranks:
                text = rank.end()
                self.assertEqual(rank.process.returncode, 0, f"{device}: {text}")
                self.assertEqual(text.splitlines()[-1], "complete")

    def test_child_that_usesAndDestroysTheHandlesAndExits_getsErrorsAndTheJobGoesOn(self):
        self.check_job("exit")

    def test_child_that_usesAndDestroysTheHandlesAndEndsAtOnce_getsErrorsAndTheJobGoesOn(self):
        self.check_job("_exit")

    def test_child_runsCommunicatorsOfItsOwn(self):
        self.check_job("communicate")


class Exit(Life):
    def check_exit(self, way, duration):
        self.start(way, duration)
        for ranks in self.jobs.values():
            ranks[ACTOR].runs()
        for device, ranks in self.jobs.items():
            text = ranks[ACTOR].end()
            self.assertEqual(ranks[ACTOR].process.returncode, 0, f"{device}: {text}")
        gone = time.monotonic()
        for device, ranks in self.jobs.items():
            for rank in ranks[:ACTOR] + ranks[ACTOR + 1:]:
                text = rank.end()
                self.assertEqual(rank.process.returncode, 3, f"{device}: {text}")
                self.assertRegex(text, rf"failed: .*rank {ACTOR} \(")
        took = time.monotonic() - gone
        print(f"[ figures  ] {way}, {duration}: the peers had ended {took:.3f} s after the rank")

    def test_exit_withoutDestroying_isNamedByThePeers(self):
        self.check_exit("exit", "heap")

    def test_exit_withStaticCommunicator_isNamedByThePeers(self):
        self.check_exit("exit", "static")

    def test_returnFromMain_withoutDestroying_isNamedByThePeers(self):
        self.check_exit("return", "heap")

    def test_returnFromMain_withStaticCommunicator_isNamedByThePeers(self):
        self.check_exit("return", "static")

    def test_exit_inACallback_isNamedByThePeers(self):
        self.check_exit("callback", "heap")

    def test_exit_inACallbackWithStaticCommunicator_isNamedByThePeers(self):
        self.check_exit("callback", "static")


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    requirements.main(argv=sys.argv[:1])
