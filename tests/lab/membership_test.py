#!/usr/bin/env python3
"""Jobs whose switch forgets a membership, or drops multicast, while they run: mixes of all collectives stay right, and the
rank joins its groups again."""

import contextlib
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402
from mix_job import MixJob, Switch  # noqa: E402

TUTTI = ""
MIX = ""
WARNING = " no longer receives multicast from "


def figure(job, text, *ranks):
    counts = "; ".join(f"rank {rank}: " + ", ".join(f"{name} {job.finals[rank].get(name, 0)}" for name in (
        "multicast_fallbacks", "multicast_rejoins", "chunks_fetched", "chunks_received", "slot_entries_requested"))
        for rank in ranks)
    print(f"[ figures  ] {text}, {job.completed[ranks[0]]} calls right at all ranks; {counts}", flush=True)


class MembershipInTheLab(unittest.TestCase):
    def setUp(self):
        check = subprocess.run([TUTTI, "lab", "check"], capture_output=True, text=True, timeout=100, check=False)
        if not any(line.startswith("persistent lab") and line.split()[-1] == "yes" for line in check.stdout.splitlines()):
            requirements.skip_without("netadmin", "no persistent lab here: see `tutti lab check`")

    @contextlib.contextmanager
    def job(self, hosts, *options):
        name = f"member-{os.getpid()}"
        built = subprocess.run([TUTTI, "lab", "up", "--name", name, "--hosts", str(hosts)], capture_output=True, text=True,
                               timeout=100, check=False)
        self.assertEqual(built.returncode, 0, built.stderr)
        job = None
        try:
            job = MixJob(TUTTI, MIX, name, *options)
            yield job, Switch(name)
        finally:
            if job is not None and job.process.poll() is None:
                job.process.terminate()
                job.wait()
            subprocess.run([TUTTI, "lab", "down", "--name", name], capture_output=True, timeout=100, check=False)

    def expect_right_end(self, job, ranks):
        self.assertEqual(job.end(), 0, job.output())
        self.assertEqual(sorted(job.completed), list(range(ranks)), job.output())
        self.assertEqual(len(set(job.completed.values())), 1)

    def expect(self, job, what, condition):
        self.assertTrue(job.wait_until(condition), f"{what}:\n{job.output()}")

    def lose_membership(self, job, switch, host, ranks):
        """Drops the membership of a host until one of its ranks has joined again. The kernel restores it without a rejoin when
        it repeats its report or answers a query of the switch; a later report of the ranks tells the two apart."""
        def rejoined(counters):
            return any(counters[rank].get("multicast_rejoins", 0) > 0 for rank in ranks)

        self.assertGreater(switch.drop_membership(host), 0)
        while True:
            self.expect(job, "a rejoin", lambda counters: rejoined(counters) or switch.memberships(host))
            seen = dict(job.reports)
            self.expect(job, "a report", lambda counters: all(job.reports[rank] > seen[rank] for rank in ranks))
            if rejoined(job.counters):
                return
            switch.drop_membership(host)

    def test_membership_that_the_switch_forgot_is_restored_by_one_rejoin(self):
        hosts, deaf = 4, 2
        with self.job(hosts) as (job, switch):
            self.expect(job, "all ranks report", lambda counters: len(counters) == hosts)
            self.assertEqual(job.count(deaf, "multicast_rejoins"), 0)
            self.lose_membership(job, switch, deaf, [deaf])
            fetched = job.count(deaf, "chunks_fetched")
            self.assertGreater(fetched, 0)
            self.assertGreaterEqual(job.count(deaf, "multicast_fallbacks"), 3)
            heard = job.count(deaf, "chunks_received")
            self.expect(job, "chunks by multicast again",
                        lambda counters: counters[deaf].get("chunks_received", 0) > heard + 5 * fetched)
            self.assertEqual(len(switch.memberships(deaf)), 1)
            self.expect_right_end(job, hosts)
            figure(job, "membership forgotten, 4 hosts", deaf, 0)
            for rank in range(hosts):
                self.assertEqual(job.finals[rank].get("multicast_rejoins", 0), 1 if rank == deaf else 0, f"rank {rank}")
            self.assertEqual(job.warnings(WARNING), [])

    def test_ranks_of_one_host_restore_its_membership_together(self):
        options = ["--ranks-per-host", "2", "--env", "TUTTI_DEVICE=ip", "--env", "TUTTI_HIERARCHY=flat"]
        with self.job(2, *options) as (job, switch):
            self.expect(job, "all ranks report", lambda counters: len(counters) == 4)
            self.lose_membership(job, switch, 1, [2, 3])
            self.expect(job, "a rejoin of each rank", lambda counters: all(
                counters[rank].get("multicast_rejoins", 0) > 0 for rank in (2, 3)))
            fetched = {rank: job.count(rank, "chunks_fetched") for rank in (2, 3)}
            self.expect(job, "the membership at the switch", lambda counters: bool(switch.memberships(1)))
            self.expect(job, "rounds after it", lambda counters: all(
                counters[rank].get("chunks_received", 0) > 20 * fetched[rank] for rank in (2, 3)))
            self.expect_right_end(job, 4)
            figure(job, "membership forgotten, 2 ranks on each of 2 hosts", 2, 3)

    def test_multicast_blocked_in_mid_job_is_said_once_by_each_rank_and_used_again_afterwards(self):
        hosts = 3
        with self.job(hosts) as (job, switch):
            self.expect(job, "all ranks report", lambda counters: len(counters) == hosts)
            with switch.blocked():
                self.expect(job, "a warning of each rank", lambda counters: len(job.warnings(WARNING)) == hosts)
                self.expect(job, "fetched rounds after it", lambda counters: len(counters) == hosts and all(
                    one.get("multicast_fallbacks", 0) > 30 and one.get("multicast_rejoins", 0) >= 2
                    for one in counters.values()))
            heard = job.count(0, "chunks_received")
            self.expect(job, "multicast again", lambda counters: counters[0].get("chunks_received", 0) > heard + 10_000)
            self.expect_right_end(job, hosts)
            figure(job, "multicast blocked, then passed again, 3 hosts", 0, 1, 2)
            self.assertEqual(len(job.warnings(WARNING)), hosts)
            for line in job.warnings(WARNING):
                self.assertRegex(line, r"rank \d \(\S+\) no longer receives multicast from rank \d \(\S+\), even.*eth0.*239\..*querier")


if __name__ == "__main__":
    TUTTI = os.path.abspath(sys.argv.pop(1))
    MIX = os.path.abspath(sys.argv.pop(1))
    requirements.main(verbosity=2)
