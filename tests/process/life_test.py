#!/usr/bin/env python3
"""Tests ranks whose process forks in the middle of a job. The ranks are processes on loopback, over datagrams
and over shared memory."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402
from job import free_port, Rank  # noqa: E402

PROGRAM = ""
RANKS = 3
DEVICES = ("ip", "host")


class Life(unittest.TestCase):
    def setUp(self):
        self.ranks = []

    def tearDown(self):
        for one in self.ranks:
            if one.process.poll() is None:
                one.process.kill()
                one.process.wait()
            one.log.close()

    def job(self, device, *arguments):
        port = free_port()
        environment = {"TUTTI_DEVICE": device, "TUTTI_INTERFACE": "lo", "TUTTI_HIERARCHY": "flat"}
        self.ranks = [Rank([PROGRAM, *arguments], rank, RANKS, port, environment) for rank in range(RANKS)]

    def on_each_device(self, check):
        for device in DEVICES:
            with self.subTest(device=device):
                try:
                    check(device)
                finally:
                    self.tearDown()


class Fork(Life):
    def check_job(self, end):
        def check(device):
            self.job(device, "fork", end)
            for rank in self.ranks:
                text = rank.end()
                self.assertEqual((text.splitlines()[-1:], rank.process.returncode), (["complete"], 0), text)

        self.on_each_device(check)

    def test_child_that_usesAndDestroysTheHandlesAndExits_getsErrorsAndTheJobGoesOn(self):
        self.check_job("exit")

    def test_child_that_usesAndDestroysTheHandlesAndEndsAtOnce_getsErrorsAndTheJobGoesOn(self):
        self.check_job("_exit")

    def test_child_runsCommunicatorsOfItsOwn(self):
        self.check_job("communicate")


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    requirements.main(argv=sys.argv[:1])
