#!/usr/bin/env python3
"""Tests the program `tutti` from outside: real processes on loopback, exit codes and JSON."""

import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402

TUTTI = ""
PATIENCE_S = 100
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWUSER = 0x1000_0000


def tutti(*arguments, environment=None):
    return subprocess.run([TUTTI, *arguments], capture_output=True, text=True, timeout=PATIENCE_S,
                          env={**os.environ, **(environment or {})}, check=False)


def job(ranks, *arguments):
    return tutti("run", "-n", str(ranks), "--no-prefix", "--", TUTTI, *arguments)


class Bench(unittest.TestCase):
    def run_bench(self, operation, *options, ranks=3):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bench.json")
            done = job(ranks, "bench", operation, "-n", "4", "-w", "1", "-J", path, *options)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(path, encoding="utf-8") as file:
                return json.load(file), done.stdout

    def check_result(self, result, repetitions=4):
        self.assertEqual(result["wrong_bytes"], 0)
        # Every repetition and the warm-up is checked, and more are if some were repeated.
        self.assertGreaterEqual(result["checked_repetitions"], repetitions + 1)
        self.assertEqual(len(result["times_ns"]), repetitions)
        time = result["time_ns"]
        order = [time[name] for name in ("min", "p50", "p90", "p99", "max")]
        self.assertEqual(order, sorted(order))
        self.assertGreater(time["min"], 0)

    def test_allgather_by_both_algorithms(self):
        for algorithm in ("multicast", "ring"):
            report, table = self.run_bench("allgather", "-b", "100", "-e", "10000", "-f", "10",
                                           "--algorithm", algorithm)
            self.assertEqual(report["schema"], "tutti.bench/1")
            self.assertEqual(report["settings"]["algorithm"], algorithm)
            self.assertEqual([row["send_bytes"] for row in report["rows"]], [100, 1000, 10000])
            rows = [line for line in table.splitlines() if re.match(r" *\d", line)]
            self.assertEqual(len(rows), 3)
            for row, line in zip(report["rows"], rows):
                self.assertEqual(row["size_bytes"], 3 * row["send_bytes"])
                self.check_result(row["in_place"])
                self.check_result(row["out_of_place"])
                self.assertEqual(line.split()[:3], [str(row["size_bytes"]), str(row["send_bytes"]),
                                                    "uint8"])
                sent = row["in_place"]["counters"].get("device_multicast_bytes_sent", 0)
                if algorithm == "multicast":
                    self.assertGreaterEqual(sent, row["size_bytes"])
                else:
                    self.assertEqual(sent, 0)

    def test_gather_that_checks_some_repetitions_checks_the_same_at_all_ranks(self):
        # The root receives so much that not every repetition is checked; the other ranks receive nothing.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bench.json")
            done = job(5, "bench", "gather", "-b", "8M", "-e", "8M", "-n", "40", "-w", "1", "-J", path)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(path, encoding="utf-8") as file:
                row = json.load(file)["rows"][0]
        for result in filter(None, (row["out_of_place"], row["in_place"])):
            self.assertEqual(result["wrong_bytes"], 0)
            self.assertGreater(result["checked_repetitions"], 0)
            self.assertLess(result["checked_repetitions"], 41)

    def test_broadcast_from_root_other_than_0_is_reported(self):
        report, _ = self.run_bench("broadcast", "-b", "5K", "-e", "5K", "--root", "2",
                                   "--algorithm", "multicast")
        row = report["rows"][0]
        self.assertEqual(row["size_bytes"], 5 * 1024)
        self.assertIsNone(row["out_of_place"])
        self.check_result(row["in_place"])
        sent = row["in_place"]["sent_bytes_by_rank"]
        self.assertGreaterEqual(sent[2], 5 * 1024)
        self.assertLess(max(sent[:2]), 5 * 1024)

    def test_broadcast_up_to_the_retained_size_has_no_handshake(self):
        # The option had the name --keep-bytes before it was renamed to --retain-bytes.
        for option, keep, kept in (("--retain-bytes", "5120", True), ("--keep-bytes", "5119", False)):
            report, _ = self.run_bench("broadcast", "-b", "5K", "-e", "5K", "--algorithm", "multicast",
                                       "--device", "ip", option, keep)
            counters = report["rows"][0]["in_place"]["counters"]
            self.assertEqual(counters.get("blocks_retained", 0) > 0, kept)
            self.assertEqual(report["settings"]["retain_bytes"], int(keep))

    def test_link_bytes_of_a_shared_interface_are_reported(self):
        report, table = self.run_bench("broadcast", "-b", "64K", "-e", "64K", "--link-bytes",
                                       "--device", "ip")
        link = report["rows"][0]["in_place"]["link"]
        self.assertGreaterEqual(link["max_sent_bytes"], 64 * 1024)
        self.assertIsNone(link["ideal_total_bytes"])
        self.assertIn("link bytes per operation", table)

    def test_allgather_by_uc_has_chunks_of_several_datagrams(self):
        report, table = self.run_bench("allgather", "-b", "256K", "-e", "256K", "--algorithm", "multicast",
                                       "--multicast", "uc", "--segment-bytes", "1408")
        self.check_result(report["rows"][0]["in_place"])
        self.assertIn("UC multicast", table)
        self.assertIn("chunks of 63360 bytes", table)

    def test_barrier_is_timed_without_bytes(self):
        report, _ = self.run_bench("barrier")
        self.assertEqual([row["size_bytes"] for row in report["rows"]], [0])
        self.assertEqual(len(report["rows"][0]["in_place"]["times_ns"]), 4)

    def test_unchecked_run_reports_no_wrong_bytes(self):
        report, table = self.run_bench("broadcast", "-b", "1K", "-e", "1K", "-c", "0")
        self.assertIsNone(report["wrong_bytes"])
        self.assertIsNone(report["rows"][0]["in_place"]["wrong_bytes"])
        self.assertIn("not checked", table)

    def test_host_name_need_not_be_utf8(self):
        def rename():
            libc = ctypes.CDLL(None)
            namespaces = CLONE_NEWUTS if os.geteuid() == 0 else CLONE_NEWUTS | CLONE_NEWUSER
            if libc.unshare(namespaces) != 0 or libc.sethostname(b"h\xff", 2) != 0:
                os._exit(requirements.NOTHING_RAN)
        done = subprocess.run([TUTTI, "run", "-n", "2", "--no-prefix", "--", TUTTI, "bench", "barrier", "-n", "2", "-w", "0"],
                              capture_output=True, text=True, timeout=PATIENCE_S, preexec_fn=rename, check=False)
        if done.returncode == requirements.NOTHING_RAN:
            requirements.skip_without("lab", "no UTS namespace, in which a test may set the host name")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rank 0 on h\ufffd", done.stdout)

    def test_unwritable_report_is_named(self):
        done = job(2, "bench", "barrier", "-n", "4", "-w", "0", "-J", "/nonexistent/x.json")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nonexistent/x.json", done.stderr)


class Contend(unittest.TestCase):
    def test_output_follows_the_contender_protocol(self):
        done = job(3, "contend", "--operations", "none,broadcast,allgather", "--sizes",
                   "1000,65536", "--iterations", "3", "--warmup", "1", "--name", "tutti/x")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(line["operation"], line["size_bytes"]) for line in lines],
                         [("none", 0), ("broadcast", 1000), ("broadcast", 65536),
                          ("allgather", 1000), ("allgather", 65536)])
        for line in lines:
            self.assertEqual(line["schema"], "tutti.bench.contender/1")
            self.assertEqual((line["contender"], line["ranks"], line["wrong_bytes"]),
                             ("tutti/x", 3, 0))

    def test_loops_report_the_mean_of_a_call(self):
        done = job(2, "contend", "--operations", "loop_barrier,loop_broadcast,loop_allgather", "--sizes", "100",
                   "--iterations", "2", "--warmup", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.assertEqual([(line["operation"], line["size_bytes"]) for line in lines],
                         [("loop_barrier", 0), ("loop_broadcast", 100), ("loop_allgather", 100)])
        for line in lines:
            self.assertEqual((line["wrong_bytes"], len(line["times_ns"])), (0, 2))
            self.assertTrue(all(time > 0 for time in line["times_ns"]))

    def test_ranks_without_a_launcher_find_each_other(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen([TUTTI, "contend", "--operations", "broadcast", "--sizes",
                                       "1000", "--iterations", "1", "--rank", str(rank), "--ranks",
                                       "2", "--rendezvous", folder], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      env={**os.environ, "TUTTI_RUN_ID": "contend-test"})
                     for rank in range(2)]
            outputs = [rank.communicate(timeout=PATIENCE_S) for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [0, 0], outputs)
            self.assertEqual(json.loads(outputs[0][0])["wrong_bytes"], 0)

    def test_rank_without_ranks_is_refused(self):
        done = tutti("contend", "--rank", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--ranks", done.stderr)


class Keys(unittest.TestCase):
    """Two ranks that a user starts by hand, so that no launcher gives them a key."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.key = os.path.join(self.folder, "job.key")

    def make_key(self, path):
        done = tutti("key", "new", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def start_ranks(self, meeting, *variables_of_ranks):
        """Starts a rank with each of the given environments; returns [(exit status, errors)]."""
        size = len(variables_of_ranks)
        clean = {name: value for name, value in os.environ.items()
                 if name not in ("TUTTI_JOB_KEY", "TUTTI_JOB_KEY_FILE", "TUTTI_REQUIRE_KEY")}
        address = f"file://{os.path.join(self.folder, meeting)}"
        ranks = [subprocess.Popen([TUTTI, "bench", "barrier", "-n", "2"], text=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  env={**clean, "TUTTI_BOOTSTRAP": address, "TUTTI_RUN_ID": "keys",
                                       "RANK": str(rank), "WORLD_SIZE": str(size), **variables})
                 for rank, variables in enumerate(variables_of_ranks)]
        errors = [rank.communicate(timeout=PATIENCE_S)[1] for rank in ranks]
        return [(rank.returncode, error) for rank, error in zip(ranks, errors)]

    def test_new_key_is_written_once_for_its_owner_only(self):
        self.assertIn("TUTTI_JOB_KEY_FILE", self.make_key(self.key).stdout)
        self.assertEqual(os.stat(self.key).st_mode & 0o7777, 0o600)
        with open(self.key, encoding="ascii") as file:
            key = file.read()
        self.assertRegex(key, r"^[0-9a-f]{64}\n$")
        again = tutti("key", "new", self.key)
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("exists already", again.stderr)
        with open(self.key, encoding="ascii") as file:
            self.assertEqual(file.read(), key)

    def test_job_with_a_key_runs_without_a_word(self):
        self.make_key(self.key)
        keyed = {"TUTTI_JOB_KEY_FILE": self.key, "TUTTI_REQUIRE_KEY": "1"}
        for status, error in self.start_ranks("keyed", keyed, keyed):
            self.assertEqual(status, 0, error)
            self.assertNotIn("authenticated", error)
        under_run = job(2, "bench", "barrier", "-n", "2")
        self.assertEqual(under_run.returncode, 0, under_run.stderr)
        self.assertNotIn("authenticated", under_run.stderr)

    def test_job_without_a_key_says_so_once(self):
        ends = self.start_ranks("keyless", {}, {})
        self.assertEqual([status for status, _ in ends], [0, 0], ends)
        self.assertEqual([error.count("this job is not authenticated") for _, error in ends], [1, 0],
                         ends)

    def test_required_key_is_missing_and_ends_the_job(self):
        required = {"TUTTI_REQUIRE_KEY": "1"}
        for status, error in self.start_ranks("required", required, required):
            self.assertNotEqual(status, 0)
            self.assertIn("this job has no key but TUTTI_REQUIRE_KEY is set", error)

    def test_rank_with_another_key_is_named(self):
        other = os.path.join(self.folder, "other.key")
        self.make_key(self.key)
        self.make_key(other)
        ends = self.start_ranks("mixed", {"TUTTI_JOB_KEY_FILE": self.key},
                                {"TUTTI_JOB_KEY_FILE": other})
        self.assertNotIn(0, [status for status, _ in ends], ends)
        self.assertIn("the job key of rank 1 differs from that of rank 0", ends[0][1])
        self.assertIn("the job key of rank 0 differs from that of rank 1", ends[1][1])


class Arguments(unittest.TestCase):
    def check_refused(self, name, *arguments):
        done = tutti(*arguments)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn(name, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def test_each_wrong_argument_is_named(self):
        self.check_refused("--iters", "bench", "allgather", "-n", "many")
        self.check_refused("--minbytes", "bench", "allgather", "-b", "4Q")
        self.check_refused("--minbytes", "bench", "allgather", "-b", "2K", "-e", "1K")
        self.check_refused("--algorithm", "bench", "broadcast", "--algorithm", "smoke")
        self.check_refused("--root", "bench", "broadcast", "--root", "1")
        self.check_refused("--frequency", "bench", "barrier", "--frequency", "7")
        self.check_refused("--operations", "contend", "--operations", "gather")
        self.check_refused("--ranks", "explain", "allgather", "--bytes", "1K")
        self.check_refused("--bytes", "explain", "allgather", "--ranks", "4", "--bytes", "some")
        self.check_refused("-n", "run", "-n", "0", "--", "true")
        self.check_refused("subcommand", "bench")
        self.check_refused("frobnicate", "frobnicate")
        self.check_refused("frobnicate", "bench", "frobnicate")

    def test_help_and_version_are_printed(self):
        self.assertRegex(tutti("--version").stdout, r"^tutti \d+\.\d+\.\d+\n$")
        for arguments in ([], ["bench", "allgather"], ["explain", "broadcast"], ["info"], ["demo"]):
            done = tutti(*arguments, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("[OPTIONS]", done.stdout)

    def test_unknown_interface_is_refused(self):
        done = tutti("bench", "barrier", "--interface", "nosuch0")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nosuch0", done.stderr)


class Info(unittest.TestCase):
    def test_report_is_json(self):
        done = tutti("info", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        info = json.loads(done.stdout)
        self.assertEqual(info["schema"], "tutti.info/1")
        self.assertTrue(info["self_test"]["ok"])
        self.assertGreater(info["self_test"]["multicast_datagrams"], 0)
        self.assertIn("lo", [one["name"] for one in info["interfaces"]])
        self.assertIn("multicast_ud", info["devices"][0]["capabilities"])
        self.assertIn("multicast_uc", info["devices"][0]["capabilities"])
        self.assertGreater(info["devices"][0]["max_uc_message_bytes"], 32)
        self.assertGreater(info["limits"]["granted_receive_buffer_bytes"], 0)
        for finding in info["findings"]:
            self.assertIn(finding["severity"], ("note", "slow", "failing"))
            self.assertTrue(finding["text"] and finding["command"])

    def test_text_has_the_findings_of_the_json(self):
        text = tutti("info").stdout
        self.assertIn("self-test passed", text)
        for finding in json.loads(tutti("info", "--json").stdout)["findings"]:
            self.assertIn(finding["command"], text)


class Explain(unittest.TestCase):
    def test_explain_on_a_network_without_multicast_names_a_task_list(self):
        text = self.explain("broadcast", "--ranks", "8", "--bytes", "1M", "--multicast", "none")
        self.assertIn("scatter_allgather\nwhy: no multicast on this network", text)
        self.assertEqual(self.explain("broadcast", "--ranks", "8", "--bytes", "1M", multicast="none"), text)

    def explain(self, *arguments, multicast=""):
        done = tutti("explain", *arguments, environment={"TUTTI_MULTICAST": multicast})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_allgather_has_its_plan(self):
        text = self.explain("allgather", "--ranks", "8", "--bytes", "1440000", "--mtu", "1500",
                            "--rate", "1gbit")
        self.assertIn("8000 of up to 1440 bytes; 1000 a block", text)
        self.assertIn("multicast   <- runs", text)
        self.assertIn("sends at most 1514000 bytes and receives at most 10598000", text)
        self.assertIn("At 1000 Mbit/s", text)

    def test_broadcast_has_its_plan(self):
        text = self.explain("broadcast", "--ranks", "8", "--bytes", "1440", "--mtu", "1500")
        self.assertIn("1 of up to 1440 bytes; 1 a block", text)
        self.assertIn("sends at most 1514 bytes and receives at most 1514; all links together "
                      "12112", text)

    def test_plan_by_uc_has_messages_of_several_datagrams(self):
        asked = ["allgather", "--ranks", "8", "--bytes", "1440000", "--mtu", "1500", "--window", "1M"]
        text = self.explain(*asked, "--multicast", "uc")
        self.assertEqual(self.explain(*asked, multicast="uc"), text)
        self.assertIn("184 of up to 63360 bytes; 23 a block", text)
        self.assertIn("1023 a block: a chunk is a message of up to 45, of up to 1408 bytes", text)
        self.assertIn("sends at most 1523886 bytes and receives at most 10667202", text)
        done = tutti("explain", "allgather", "--ranks", "2", "--bytes", "1K", "--multicast", "uc",
                     "--device", "host")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no UC multicast", done.stderr)

    def test_plan_at_the_limits_is_empty_or_refused(self):
        self.assertIn("Nothing crosses a link",
                      self.explain("allgather", "--ranks", "1", "--bytes", "1M"))
        self.assertIn("Nothing crosses a link",
                      self.explain("broadcast", "--ranks", "4", "--bytes", "0"))
        done = tutti("explain", "allgather", "--ranks", "100", "--bytes", "8192G")
        self.assertEqual(done.returncode, 2)
        self.assertIn("at most 4294967295", done.stderr)


class Demo(unittest.TestCase):
    def test_demo_without_a_lab_compares_all_algorithms(self):
        done = tutti("demo", "--no-lab")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = re.findall(r"^ +(allgather|broadcast) .*?(multicast|ring|chain) .* right, \d+ "
                          r"checked$", done.stdout, re.MULTILINE)
        self.assertEqual(rows, [("allgather", "multicast"), ("allgather", "ring"),
                                ("broadcast", "multicast"), ("broadcast", "chain")])


if __name__ == "__main__":
    TUTTI = os.path.abspath(sys.argv.pop(1))
    requirements.main()
