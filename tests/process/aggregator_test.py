#!/usr/bin/env python3
"""Tests `tutti aggregator` from outside, with real processes on loopback that join it, lose it, or die."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402
from job import free_port, kill, PATIENCE_S, Rank  # noqa: E402

TUTTI = ""
PROGRAM = ""
MANY_CALLS = "1000000"


class Aggregator:
    """One `tutti aggregator` process and its output."""

    def __init__(self, key_file, *options):
        self.process = subprocess.Popen(
            [TUTTI, "aggregator", "--listen", "127.0.0.1:0", "--key-file", key_file, *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        first = self.process.stdout.readline()
        assert first.startswith("listening on "), first
        self.address = first.split()[-1]

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.communicate(timeout=PATIENCE_S)[0]


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.key_file = os.path.join(self.folder.name, "key")
        with open(self.key_file, "w", encoding="utf-8") as file:
            file.write("0123456789abcdef" * 4)
        os.chmod(self.key_file, 0o600)
        self.ranks = []
        self.aggregators = []

    def tearDown(self):
        for one in self.ranks:
            one.remove()
        for one in self.aggregators:
            kill(one.process)
            one.process.stdout.close()
        self.folder.cleanup()

    def aggregator(self, *options):
        self.aggregators.append(Aggregator(self.key_file, *options))
        return self.aggregators[-1]

    def job(self, size, addresses, *arguments, **environment):
        port = free_port()
        settings = {"TUTTI_AGGREGATORS": ",".join(addresses),
                    "TUTTI_AGGREGATOR_KEY_FILE": self.key_file, **environment}
        job = [Rank([PROGRAM, *arguments], rank, size, port, settings) for rank in range(size)]
        self.ranks += job
        return job

    def check_success(self, job):
        for rank in job:
            text = rank.end()
            self.assertEqual(rank.process.returncode, 0, text)
            self.assertIn("done", text)

    def test_jobs_join_and_leave_and_are_counted(self):
        first, second = self.aggregator(), self.aggregator()
        for operation in ("allreduce", "reduce_scatter", "reduce"):
            self.check_success(self.job(3, [first.address, second.address], operation, "400000", "3"))
        for one in (first, second):
            text = one.end()
            self.assertEqual(one.process.returncode, 0, text)
            self.assertEqual(text.count("has left"), 3, text)
            self.assertIn("in_network_calls 9", text)

    def test_killed_aggregator_is_named_at_every_rank(self):
        one = self.aggregator()
        job = self.job(3, [one.address], "allreduce", "400000", MANY_CALLS, "apart")
        for rank in job:
            rank.runs()
        one.end(signal.SIGKILL)
        for rank in job:
            text = rank.end()
            self.assertEqual(rank.process.returncode, 3, text)
            self.assertIn("aggregator " + one.address, text)

    def test_job_with_a_dead_rank_is_dropped_and_the_other_continues(self):
        one = self.aggregator()
        victim = self.job(3, [one.address], "allreduce", "100000", MANY_CALLS, "apart")
        for rank in victim:
            rank.runs()
        victim[1].process.kill()
        bystander = self.job(2, [one.address], "reduce_scatter", "100000", "200")
        for rank in (victim[0], victim[2]):
            text = rank.end()
            self.assertEqual(rank.process.returncode, 3, text)
            self.assertIn("rank 1 (", text)
        self.check_success(bystander)
        self.check_success(self.job(2, [one.address], "reduce", "100000", "5"))
        text = one.end()
        self.assertEqual(text.count("is dropped"), 1, text)
        self.assertEqual(text.count("has left"), 2, text)

    def test_terminated_aggregator_fails_its_jobs(self):
        one = self.aggregator()
        job = self.job(2, [one.address], "allreduce", "100000", MANY_CALLS, "apart")
        for rank in job:
            rank.runs()
        text = one.end()
        self.assertEqual(one.process.returncode, 0, text)
        for rank in job:
            text = rank.end()
            self.assertEqual(rank.process.returncode, 3, text)
            self.assertIn("aggregator " + one.address, text)

    def test_second_signal_ends_the_process_at_once(self):
        one = self.aggregator()
        # The stopped process gets both signals before it acts on the first.
        for how in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM):
            one.process.send_signal(how)
        text = one.end(signal.SIGCONT)
        self.assertEqual(one.process.returncode, -signal.SIGTERM, text)

    def test_absent_aggregator_is_named_in_the_error(self):
        address = f"127.0.0.1:{free_port()}"
        for rank in self.job(2, [address], "allreduce", "4", "1"):
            text = rank.end()
            self.assertEqual(rank.process.returncode, 3, text)
            self.assertIn("aggregator " + address, text)
            self.assertIn("tutti aggregator --listen", text)

    def test_environment_of_the_ranks_does_not_affect_the_aggregator(self):
        one = self.aggregator()
        self.check_success(self.job(4, [one.address], "allreduce", "100000", "5",
                                    TUTTI_ALGORITHMS="barrier=recursive_doubling"))

    def test_unusable_arguments_are_named(self):
        def refused(*arguments, key=self.key_file):
            done = subprocess.run([TUTTI, "aggregator", "--key-file", key, *arguments],
                                  capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            return done.stderr
        self.assertIn("nowhere", refused("--listen", "nowhere"))
        self.assertIn("slots", refused("--listen", "127.0.0.1:0", "--slots", "0"))
        open_key = os.path.join(self.folder.name, "open")
        with open(open_key, "w", encoding="utf-8") as file:
            file.write("0" * 64)
        os.chmod(open_key, 0o644)
        self.assertIn("chmod 600", refused("--listen", "127.0.0.1:0", key=open_key))


if __name__ == "__main__":
    TUTTI, PROGRAM = sys.argv[1:3]
    requirements.main(argv=sys.argv[:1] + sys.argv[3:])
