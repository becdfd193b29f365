#!/usr/bin/env python3
"""Runs real jobs across the lab's network, with every rank on its own host and a switch between them."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402

TUTTI = ""
LOOP = ""
SORT = ""
PRECEDENCE = ""
AGGREGATED = ""
PATIENCE_S = 100


def can(what):
    """Whether `tutti lab check` says that this machine can build this kind of lab."""
    check = subprocess.run([TUTTI, "lab", "check"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return any(line.startswith(what) and line.split()[-1] == "yes" for line in check.stdout.splitlines())


class LabJobs(unittest.TestCase):
    def setUp(self):
        if not can("temporary lab"):
            requirements.skip_without("lab", "no temporary lab here: see `tutti lab check`")

    def bench(self, lab_options, operation, *options, hosts=3):
        return self.results_of(self.report(lab_options, operation, *options, hosts=hosts))

    def results_of(self, report):
        return [row[place] for row in report["rows"] for place in ("out_of_place", "in_place") if row.get(place)]

    def report(self, lab_options, operation, *options, hosts):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bench.json")
            done = subprocess.run([TUTTI, "lab", "run", "--hosts", str(hosts), *lab_options, "--", TUTTI, "bench",
                                   operation, "-n", "6", "-w", "2", "--json", path, *options],
                                  capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        self.assertEqual(report["wrong_bytes"], 0)
        return report

    def total(self, results, counter):
        return sum(result["counters"].get(counter, 0) for result in results)

    def per_repetition(self, results, counter):
        """A counter for one repetition. The benchmark repeats what a late rank delayed, and counts and checks that, too."""
        return self.total(results, counter) / sum(result["checked_repetitions"] for result in results)

    def check_multicast(self, results, blocks, block_bytes):
        """Checks that the bytes of all blocks were multicast once each, apart from losses."""
        collectives = self.total(results, "collectives_started") // len(results)
        self.assertGreater(collectives, 0)
        for result in results:
            sent = result["counters"]["device_multicast_bytes_sent"]
            self.assertGreaterEqual(sent, blocks * block_bytes * 6)
            self.assertLess(sent, 1.5 * blocks * block_bytes * result["checked_repetitions"])

    def lab(self, *words):
        return subprocess.run([TUTTI, "lab", *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def test_lab_runs_without_standard_input_and_output(self):
        for closed in ("<&-", "<&- >&-"):
            with self.subTest(closed):
                done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", TUTTI, "lab", "run", "--hosts", "2",
                                       "--", "sh", "-c", "exit $((RANK + 3))"],
                                      capture_output=True, text=True, timeout=PATIENCE_S, check=False)
                self.assertIn(done.returncode, (3, 4), done.stderr)

    def test_place_of_a_lab_has_its_share_of_the_cores(self):
        if not can("persistent lab"):
            requirements.skip_without("netadmin", "no persistent lab here: see `tutti lab check`")
        for division in ("traffic", "hosts"):
            with self.subTest(division):
                self.check_shares_of_the_cores(f"cores-{os.getpid()}", division)

    def check_shares_of_the_cores(self, name, division):
        built = self.lab("up", "--name", name, "--hosts", "3", "--aggregators", "1", "--cores", division)
        self.assertEqual(built.returncode, 0, built.stderr)
        try:
            own = {str(core) for core in os.sched_getaffinity(0)}
            for options, places in (([], ["h0", "h1", "h2", "a0"]), (["--aggregators", "0"], ["h0", "h1", "h2"]),
                                    (["--hosts", "2"], ["h0", "h1", "a0"])):
                shares = dict(line.split("=") for line in self.lab("cores", "--name", name, *options).stdout.split())
                self.assertEqual(list(shares), [f"tutti-{name}-{place}" for place in places])
                self.assertEqual({core for share in shares.values() for core in share.split(",")}, own)
                if division == "hosts" and len(own) < len(places) and "a0" in places:
                    self.assertEqual(set(shares[f"tutti-{name}-a0"].split(",")), own)
            refused = self.lab("cores", "--name", name, "--hosts", "4")
            self.assertEqual(refused.returncode, 2)
            self.assertIn(f"more than the 3 hosts of lab '{name}'", refused.stderr)
        finally:
            self.lab("down", "--name", name)

    def test_allgather_over_ipv6_is_multicast(self):
        report = self.report(["--ipv6"], "allgather", "-b", "64K", "-e", "64K", "--ipv6", hosts=3)
        self.assertIn(" at [", report["communicator"])
        self.check_multicast(self.results_of(report), 3, 65536)

    def test_chunks_lost_over_ipv6_are_fetched(self):
        results = self.bench(["--ipv6", "--loss", "3", "--loss-proto", "udp"], "broadcast", "-b", "512K", "-e", "512K",
                             "--ipv6")
        self.check_multicast(results, 1, 524288)
        self.assertGreater(self.total(results, "chunks_lost"), 0)
        self.assertGreater(self.total(results, "chunks_fetched") + self.total(results, "chunks_retransmitted"), 0)

    def test_network_that_drops_multicast_carries_every_collective_from_rank_to_rank(self):
        sizes = ["-b", "64", "-e", "64K"]
        for operation, options in (("broadcast", sizes), ("allgather", sizes), ("allreduce", sizes), ("alltoall", sizes),
                                   ("barrier", [])):
            results = self.bench(["--loss", "100", "--loss-proto", "multicast"], operation, *options)
            self.assertEqual(self.total(results, "chunks_sent"), 0)
            self.assertEqual(self.total(results, "slot_exchanges"), 0)
            self.assertGreater(self.total(results, "messages_eager"), 0)

    def test_required_multicast_fails_on_a_network_that_drops_it(self):
        done = self.lab("run", "--hosts", "3", "--loss", "100", "--loss-proto", "multicast", "--", TUTTI, "bench", "barrier",
                        "--require-multicast")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"multicast is required, but rank \d \(\S+\) hears no multicast from rank \d")

    def test_lost_slot_entries_are_sent_again(self):
        results = self.bench(["--loss", "5", "--loss-proto", "udp"], "allgather", "-b", "64", "-e", "8K", hosts=4)
        # Every size is measured in place and out of place, with barriers between the repetitions.
        for result in results:
            self.assertGreaterEqual(result["counters"]["slot_exchanges"], 4 * 6)
            self.assertGreaterEqual(result["counters"]["device_slot_datagrams_sent"], 4 * 4 * 6)
        self.assertGreater(self.total(results, "slot_entries_requested"), 0)
        self.assertGreater(self.total(results, "slot_entries_resent"), 0)

    def test_entries_of_a_gather_are_sent_to_the_root_alone(self):
        for options in ([], ["--ipv6"]):
            results = self.bench(options, "gather", "-b", "64", "-e", "64", *options, hosts=4)
            gathered = 3 * (6 + 2) * len(results)
            # A datagram for all ranks is received three times, a datagram of a gathered entry once.
            self.assertLessEqual(self.total(results, "device_slot_datagrams_received"),
                                 3 * self.total(results, "device_slot_datagrams_sent") - gathered)

    def test_paced_gigabit_link_loses_less_than_two_percent(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "lab.json")
            results = self.bench(["--rate", "1gbit", "--json", path], "allgather", "-b", "1M", "-e", "1M", hosts=4)
            with open(path, encoding="utf-8") as file:
                links = json.load(file)["links"]
        self.check_multicast(results, 4, 1 << 20)
        # The counter `chunks_lost` also has chunks that a late sender had not sent yet.
        self.assertLess(sum(link["queue_drops"] for link in links), sum(link["rx_packets"] for link in links) / 50)

    def test_wait_for_a_rank_that_is_late_in_the_first_allgather_does_not_slow_later_ones(self):
        late_s = 1.5
        calls = 18
        done = subprocess.run([TUTTI, "lab", "run", "--hosts", "4", "--rate", "100mbit", "--", LOOP, "allgather", "65536",
                               str(calls), f"compute=3:0:{late_s * 1000:.0f}", "report=1"], capture_output=True, text=True,
                              timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        reports = [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if "] {" in line]
        self.assertEqual(len(reports), 4)
        # If later calls took the lost time for the pace of the link, each of them would take as long.
        waits_s = sorted(report["counters"]["data_phase_ns"] / 1e9 for report in reports)
        self.assertGreater(waits_s[1], late_s / 2)
        self.assertLess(waits_s[-1], calls / 2 * late_s)

    def test_ranks_of_one_host_use_shared_memory_in_hierarchical_calls(self):
        hosts = ["--ranks-per-host", "3"]
        for operation, options in (("allgather", ["-b", "5K", "-e", "40K"]), ("broadcast", ["-b", "100K", "-e", "100K",
                                                                                          "--root", "4"])):
            calls = {}
            for algorithm in ("hierarchical", "multicast"):
                results = self.bench(hosts, operation, *options, "--algorithm", algorithm, hosts=2)
                # The six ranks agree on the start and on the end of each repetition by calls that take the same path in both runs.
                calls[algorithm] = min(result["counters"]["hierarchical_calls"] - 2 * 6 * result["checked_repetitions"]
                                       for result in results)
            self.assertGreaterEqual(calls["hierarchical"] - calls["multicast"], 6 * 6)

    def test_long_broadcast_is_sent_between_hosts_in_segments(self):
        # The long message has 16 segments, each with one collective of every host's ranks and one of the leaders.
        ranks, leaders = 6, 2
        for root in (0, 3, 4):
            completed = {}
            for size in ("100K", "4000000"):
                results = self.bench(["--ranks-per-host", "3"], "broadcast", "-b", size, "-e", size, "--root", str(root),
                                     "--algorithm", "hierarchical", hosts=2)
                completed[size] = self.per_repetition(results, "collectives_completed")
            self.assertGreaterEqual(completed["4000000"] - completed["100K"], (16 - 1) * (ranks + leaders) * 2 / 3, f"root {root}")

    def test_hierarchy_option_selects_the_calls(self):
        # An Allgather of 256 KiB among 2 hosts of 4 ranks has blocks of 4 segments. The three sums count the
        # collectives on side communicators for one call with leaders, with groups and with two leaders a host.
        by_leaders, by_groups, by_two = 8 * 6 + 2 * 4, 8 * 3, 8 * 2 + 4
        completed = {}
        for hierarchy in ("leaders", "leaders=2", "groups", "flat"):
            results = self.bench(["--ranks-per-host", "4", "--env", f"TUTTI_HIERARCHY={hierarchy}"], "allgather", "-b", "256K",
                                 "-e", "256K", hosts=2)
            completed[hierarchy] = self.per_repetition(results, "collectives_completed")
            self.assertEqual(self.total(results, "hierarchical_calls") > 0, hierarchy != "flat", hierarchy)
        self.assertGreaterEqual(completed["leaders"] - completed["groups"], (by_leaders - by_groups) * 2 / 3)
        self.assertGreaterEqual(completed["leaders"] - completed["leaders=2"], (by_leaders - by_two) * 2 / 3)

    def test_description_of_a_communicator_names_its_hierarchy(self):
        for hierarchy, said in (("leaders", "2 hosts of 4 ranks each, joined by shared memory"),
                                ("leaders=2", "2 hosts of 4 ranks each, joined by shared memory, 2 leaders a host"),
                                ("leaders=3", "one leader a host: 4 ranks a host cannot be divided into 3 equal parts of 2 or more"),
                                ("groups", "2 hosts of 4 ranks each, joined by shared memory, long blocks by groups")):
            report = self.report(["--ranks-per-host", "4"], "barrier", "--hierarchy", hierarchy, hosts=2)
            self.assertIn(said, report["communicator"].splitlines(), hierarchy)
        alone = self.report(["--ranks-per-host", "4"], "barrier", "--hierarchy", "leaders=3", "--device", "ip", hosts=2)
        self.assertNotIn("joined", alone["communicator"])
        self.assertNotIn("one leader a host", alone["communicator"])

    def test_short_allgather_of_hosts_with_several_ranks_uses_leaders(self):
        results = self.bench(["--ranks-per-host", "2"], "allgather", "-b", "64", "-e", "64", hosts=2)
        for result in results:
            self.assertGreaterEqual(result["counters"]["hierarchical_calls"], 2 * 4 * 6)

    def test_sort_gathers_histograms_by_the_algorithm_of_its_option(self):
        for algorithm, share in (("hierarchical", 1), ("recursive_doubling", 0)):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "sort.json")
                done = subprocess.run([TUTTI, "lab", "run", "--hosts", "2", "--ranks-per-host", "2", "--", SORT, "--radix",
                                       "2,10", "--keys", "1000", "-n", "2", "-w", "1", "--allgather", algorithm, "--json",
                                       path], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                with open(path, encoding="utf-8") as file:
                    report = json.load(file)
            self.assertEqual(report["settings"]["allgather"], algorithm)
            for row in report["rows"]:
                self.assertEqual(row["wrong"], "")
                self.assertEqual(row["hierarchical_calls"], share * row["passes"] * row["sorts_checked"])

    def hierarchical_calls(self, rules):
        """Hierarchical calls of two hosts of two ranks, which run Allgathers, and Barriers between them."""
        results = self.bench(["--ranks-per-host", "2", "--env", f"TUTTI_ALGORITHMS={rules}"], "allgather", "-b", "64", "-e", "64",
                             hosts=2)
        return sum(result["counters"].get("hierarchical_calls", 0) for result in results)

    def test_rules_of_the_environment_replace_the_hierarchy_for_their_calls(self):
        rules = "allgather=ring,barrier=dissemination"
        self.assertEqual(self.hierarchical_calls(rules), 0)
        self.assertEqual(self.hierarchical_calls(f"when:ranks=4:hosts=2:device=ip,{rules}"), 0)
        self.assertGreater(self.hierarchical_calls("allreduce=ring"), 0)
        self.assertGreater(self.hierarchical_calls(f"when:ranks=8:hosts=2:device=ip,{rules}"), 0)

    def test_frozen_rank_is_named_on_all_hosts(self):
        for collective in ("allgather", "broadcast"):
            done = subprocess.run([TUTTI, "lab", "run", "--hosts", "2", "--ranks-per-host", "2", "--grace-s", "12", "--", LOOP,
                                   collective, "3000", "1000000", "stop=3:50", "by=hierarchical"],
                                  capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            for rank in range(3):
                said = [line for line in done.stdout.splitlines() if line.startswith(f"[{rank}] failed in")]
                self.assertEqual(len(said), 1, done.stdout + done.stderr)
                # The communicator names rank 3 with its host, and those of hosts and leaders by its number in the job.
                self.assertRegex(said[0], r"rank 3 (of the job|\()")

    def test_aggregators_keep_a_reduce_scatter_to_one_copy_on_each_uplink(self):
        ranks, block, calls = 4, 1 << 20, 3
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            done = self.lab("run", "--hosts", str(ranks), "--aggregators", "2", "--mtu", "9000", "--stats", "--json", report,
                            "--", AGGREGATED, "reduce_scatter", str(block), str(calls), "order=ring")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(report, encoding="utf-8") as file:
                links = json.load(file)["links"]
        # The counters that each aggregator prints show that both aggregators worked.
        self.assertEqual(done.stdout.count(f"in_network_calls {calls}\n"), 2, done.stdout)
        self.assertEqual(len(links), ranks)
        for link in links:
            # Headers, ACKs, connection setup and teardown take less than a tenth of the bytes.
            self.assertLess(link["tx_bytes"], 1.1 * calls * block * (ranks - 1))
            self.assertGreater(link["tx_bytes"], calls * block * (ranks - 1))
            self.assertLess(link["rx_bytes"], 1.2 * calls * block)
            self.assertGreater(link["rx_bytes"], calls * block)

    def test_only_rank_of_a_host_has_real_time_priority_except_in_callbacks(self):
        round_robin = subprocess.run(["chrt", "--rr", "1", "true"], capture_output=True, check=False)
        if round_robin.returncode != 0 or os.nice(0) != 0:
            requirements.skip_without("priority", "no round-robin scheduling for this process, or it has a nice value")
        done = self.lab("run", "--hosts", "2", "--", PRECEDENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in range(2):
            self.assertIn(f"rank {rank}: precedence 100, callback of another thread at policy {os.SCHED_OTHER}", done.stdout)


if __name__ == "__main__":
    TUTTI = os.path.abspath(sys.argv.pop(1))
    LOOP = os.path.abspath(sys.argv.pop(1))
    SORT = os.path.abspath(sys.argv.pop(1))
    PRECEDENCE = os.path.abspath(sys.argv.pop(1))
    AGGREGATED = os.path.abspath(sys.argv.pop(1))
    requirements.main(verbosity=2)
