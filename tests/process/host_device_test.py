#!/usr/bin/env python3
"""Tests ranks of one host as processes over shared memory: the choice of the device, and the failure of a job that
loses a rank."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402
from job import free_port, PATIENCE_S, Rank  # noqa: E402

TUTTI = ""
LOOP = ""
FOR_EVER = "100000000"
PEER_TIMEOUT_S = 3.0  # default of CommunicatorOptions::peer_timeout, in seconds


def shared_memory_of(pid):
    """The inodes of the device's shared memory (a memfd called "tutti") that a process has mapped or open."""
    inodes = set()
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            inodes |= {line.split()[4] for line in maps if "/memfd:tutti" in line}
        for number in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{number}"
            if os.readlink(path).startswith("/memfd:tutti"):
                inodes.add(str(os.stat(path).st_ino))
    except OSError:
        pass  # the process has ended, or has closed the descriptor
    return inodes


class HostDevice(unittest.TestCase):
    def setUp(self):
        self.ranks = []

    def tearDown(self):
        for one in self.ranks:
            one.remove()

    def job(self, size, *arguments, of_rank=lambda rank: {"TUTTI_DEVICE": "host"}):
        port = free_port()
        self.ranks = [Rank([LOOP, *arguments], rank, size, port, of_rank(rank)) for rank in range(size)]
        return self.ranks

    def check_survivors(self, victim):
        for number, rank in enumerate(self.ranks):
            if number == victim:
                continue
            text = rank.end()
            self.assertEqual(rank.process.returncode, 3, text)
            self.assertIn(f"rank {victim} (", text)
            self.show_time(text)

    def show_time(self, text):
        took = re.search(r"failed in ([0-9.]+) s", text)
        self.assertIsNotNone(took, text)
        print(f"[ figures  ] the call of a survivor failed in {took.group(1)} s")

    def test_killed_rank_is_named_by_all_others(self):
        for by, size in (("multicast", "300000"), ("ring", "300000"), ("linear", "64")):
            for rank in self.job(4, "allgather", size, FOR_EVER, f"by={by}"):
                rank.runs()
            self.ranks[2].process.kill()
            self.check_survivors(2)
            self.tearDown()

    def test_frozen_rank_is_named_by_all_others(self):
        for rank in self.job(3, "broadcast", "300000", FOR_EVER):
            rank.runs()
        self.ranks[1].process.send_signal(signal.SIGSTOP)
        self.check_survivors(1)
        self.ranks[1].process.send_signal(signal.SIGCONT)
        self.assertIn("failed", self.ranks[1].end())

    def test_idle_root_finds_a_dead_rank_while_its_neighbours_compute(self):
        for by, size in (("multicast", "600000"), ("linear", "64")):
            ranks = self.job(5, "broadcast", size, FOR_EVER, "root=0", f"by={by}", "stop=2:20", "compute=1:20:1000000",
                             "compute=3:20:1000000")
            for survivor in (0, 4):
                text = ranks[survivor].end()
                self.assertEqual(ranks[survivor].process.returncode, 3, text)
                self.assertIn("rank 2 (", text)
                self.show_time(text)
            self.tearDown()

    def test_computing_rank_is_not_lost(self):
        for by, size in (("multicast", "100000"), ("linear", "64")):
            for rank in self.job(3, "allgather", size, "40", f"by={by}", "compute=1:20:5000"):
                self.assertIn("complete", rank.end())

    def test_rank_stopped_for_half_the_peer_timeout_is_not_lost(self):
        for device in ("host", "ip"):
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            job = self.job(3, "allgather", "30000", FOR_EVER, f"end={folder.name}/last-call",
                           of_rank=lambda rank, device=device: {"TUTTI_DEVICE": device})
            for rank in job:
                rank.runs()
            job[1].process.send_signal(signal.SIGSTOP)
            time.sleep(PEER_TIMEOUT_S / 2)
            waiting = [rank.process.poll() for rank in job]
            job[1].process.send_signal(signal.SIGCONT)
            self.assertEqual(waiting, [None] * 3, "the job ended before the stopped rank continued")
            job[0].process.terminate()
            for rank in job:
                self.assertIn("complete", rank.end())
            self.tearDown()

    def test_killed_job_leaves_no_shared_memory(self):
        for rank in self.job(4, "allgather", "300000", FOR_EVER):
            rank.runs()
        segments = set()
        for rank in self.ranks:
            mapped = shared_memory_of(rank.process.pid)
            # The segments are the process's own mapping and those of all other ranks.
            self.assertEqual(len(mapped), len(self.ranks))
            segments |= mapped
        self.assertEqual(len(segments), len(self.ranks))
        for rank in self.ranks:
            rank.process.kill()
        for rank in self.ranks:
            rank.end()
        # The kernel frees memory that no process has mapped or open.
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            self.assertEqual(shared_memory_of(pid) & segments, set(), f"process {pid}")

    def test_ranks_with_different_devices_all_fail(self):
        for rank in self.job(2, "allgather", "8", "10",
                             of_rank=lambda rank: {"TUTTI_DEVICE": ("host", "ip")[rank]}):
            text = rank.end()
            self.assertEqual(rank.process.returncode, 3, text)
            self.assertIn("disagree on the device", text)

    def test_unknown_device_is_refused_by_name(self):
        for rank in self.job(2, "allgather", "8", "10",
                             of_rank=lambda rank: {"TUTTI_DEVICE": "carrier-pigeon"}):
            text = rank.end()
            self.assertEqual(rank.process.returncode, 3, text)
            self.assertIn("""TUTTI_DEVICE is "carrier-pigeon": use the device 'auto', 'ip' or 'host'""", text)

    def chosen(self, *options, **environment):
        """The output of `tutti bench`, which describes the communicator."""
        outer = {name: value for name, value in os.environ.items() if name != "TUTTI_DEVICE"}
        done = subprocess.run(
            [TUTTI, "run", "-n", "2", "--", TUTTI, "bench", "broadcast", "-b", "8", "-e", "8", "-n", "2", *options],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False, env={**outer, **environment})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_ranks_of_one_host_share_memory_unless_a_network_is_requested(self):
        self.assertIn("device host:", self.chosen())
        self.assertIn("device ip:", self.chosen("--interface", "lo"))
        self.assertIn("device ip:", self.chosen("--device", "ip"))
        self.assertIn("device ip:", self.chosen(TUTTI_DEVICE="ip"))
        self.assertIn("device host:", self.chosen("--device", "host", TUTTI_DEVICE="ip"))
        self.assertIn("UC multicast", self.chosen("--multicast", "uc"))
        self.assertIn("UC multicast", self.chosen(TUTTI_MULTICAST="uc"))
        self.assertIn("UD multicast", self.chosen("--interface", "lo", "--multicast", "ud", TUTTI_MULTICAST="uc"))

    def test_uc_over_shared_memory_is_refused(self):
        for rank in self.job(2, "allgather", "8", "10",
                             of_rank=lambda rank: {"TUTTI_DEVICE": "host", "TUTTI_MULTICAST": "uc"}):
            text = rank.end()
            self.assertEqual(rank.process.returncode, 3, text)
            self.assertIn("the device 'host' has no UC multicast", text)

    def test_unknown_multicast_kind_is_refused_by_name(self):
        for rank in self.job(2, "allgather", "8", "10",
                             of_rank=lambda rank: {"TUTTI_MULTICAST": "rd"}):
            text = rank.end()
            self.assertEqual(rank.process.returncode, 3, text)
            self.assertIn("""TUTTI_MULTICAST is "rd": use the multicast 'ud' or 'uc', or 'none'""", text)

    def test_ranks_with_different_hierarchies_all_fail(self):
        for rank in self.job(2, "allgather", "8", "10",
                             of_rank=lambda rank: {"TUTTI_HIERARCHY": "groups" if rank == 1 else "leaders"}):
            text = rank.end()
            self.assertEqual(rank.process.returncode, 3, text)
            self.assertIn("the hierarchy of hosts (the option hierarchy, or TUTTI_HIERARCHY)", text)
        for rank in self.job(2, "allgather", "8", "10", of_rank=lambda rank: {"TUTTI_HIERARCHY": "leaders=0"}):
            text = rank.end()
            self.assertEqual(rank.process.returncode, 3, text)
            self.assertIn("""TUTTI_HIERARCHY is "leaders=0": the hierarchy must be 'leaders', 'leaders=N', 'groups' or 'flat'""", text)


if __name__ == "__main__":
    TUTTI, LOOP = sys.argv[1:3]
    requirements.main(argv=sys.argv[:1])
