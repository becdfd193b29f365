#!/usr/bin/env python3
"""Tests compare.py with contenders that misbehave on purpose. The tests need no peer library, no privilege and no
network."""

import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import compare  # noqa: E402
import contenders  # noqa: E402
import fabric as fabrics  # noqa: E402
import pace as paces  # noqa: E402
import report  # noqa: E402
import runner  # noqa: E402

# A contender of one process, which passes the gate and prints one line for each operation. argv:
# operations, size, gate, wrong bytes.
OBEDIENT = r"""
import json, socket, sys
operations, size, gate, wrong = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
link = socket.socket(socket.AF_UNIX); link.connect(gate)
for operation in operations:
    bytes_ = 0 if operation == "none" else size
    for word in ("begin %s %d\n", "end %s %d 4\n"):
        link.sendall((word % (operation, bytes_)).encode()); link.recv(1)
    print(json.dumps({"schema": "tutti.bench.contender/1", "operation": operation, "size_bytes": bytes_,
                      "wrong_bytes": wrong, "times_ns": [3000, 1000, 2000, 9000]}))
"""


class CountedFabric:
    """A loopback without interfaces, on which 400 bytes pass in the first window and 8000 in the second."""

    kind = "loopback"
    ranks = 2
    ranks_per_host = 1
    rate_bits = 8e9  # one byte a nanosecond
    burst_bytes = 100
    data_interface = "lo"
    hosts = ["localhost"] * 2
    addresses = ["127.0.0.1/8"] * 2

    def __init__(self):
        self.readings = iter([0, 400, 1000, 9000])

    def link_bytes(self):
        return next(self.readings)

    drops = fabrics.Loopback.drops
    environment = fabrics.Loopback.environment
    subnet = fabrics.Loopback.subnet
    received_bytes = fabrics.Loopback.received_bytes
    limit_ns = fabrics.Lab.limit_ns
    limit_after_burst_ns = fabrics.Lab.limit_after_burst_ns
    ideal_link_bytes = fabrics.Lab.ideal_link_bytes


def launch(script, *words, expired=None):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "contender.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        contender = contenders.Template("tutti", " ".join([sys.executable, path, *words]))
        job = contenders.Job("broadcast", 500, 4, 1, "", "")
        outcome = runner.run(contender, CountedFabric(), job, 60, os.path.join(folder, "lock"), None, expired)
        return contender, outcome


class Launches(unittest.TestCase):
    def test_obedient_contender_is_measured_without_the_bytes_of_the_protocol(self):
        _, outcome = launch(OBEDIENT, "{operations}", "{sizes}", "{gate}", "0")
        self.assertEqual(outcome.status, "ok", outcome.detail)
        self.assertEqual(outcome.line["times_ns"], [3000, 1000, 2000, 9000])
        self.assertEqual(outcome.link_bytes, 8000 / 4 - 400 / 4)

    def test_launch_with_wrong_data_gives_no_result(self):
        contender, outcome = launch(OBEDIENT, "{operations}", "{sizes}", "{gate}", "7")
        self.assertEqual(outcome.status, "wrong data")
        row = report.summarise(contender, CountedFabric(), "broadcast", 500, [outcome])
        self.assertEqual(row["status"], "wrong data")
        self.assertNotIn("p50_ns", row)

    def test_failed_launch_keeps_its_last_error_line(self):
        _, outcome = launch("import sys; sys.exit('no such interface: eth7')")
        self.assertEqual(outcome.status, "failed")
        self.assertIn("no such interface: eth7", outcome.detail)

    def test_hung_contender_is_ended_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            note = os.path.join(folder, "pid")
            script = ("import os, time\n"
                      "if os.fork() == 0:\n"
                      "    os.setsid()\n"
                      f"    open({note!r} + '.new', 'w').write(str(os.getpid()))\n"
                      f"    os.rename({note!r} + '.new', {note!r})\n"
                      "    time.sleep(600)\n"
                      "time.sleep(600)\n")
            _, outcome = launch(script, expired=lambda: os.path.exists(note))
            self.assertEqual(outcome.status, "hung")
            with open(note, encoding="utf-8") as file:
                self.assertFalse(os.path.exists(f"/proc/{file.read()}"))

    def test_launch_that_hangs_after_its_result_counts_with_a_note(self):
        with tempfile.TemporaryDirectory() as folder:
            note = os.path.join(folder, "printed")
            script = OBEDIENT + f"\nsys.stdout.flush()\nopen({note!r}, 'w').close()\nimport time; time.sleep(600)"
            contender, outcome = launch(script, "{operations}", "{sizes}", "{gate}", "0",
                                        expired=lambda: os.path.exists(note))
        row = report.summarise(contender, CountedFabric(), "broadcast", 500, [outcome])
        self.assertEqual(row["status"], "ok")
        self.assertIn("hung at exit in 1 of 1, after the result", row["notes"])

    def test_row_with_a_hung_and_a_good_round_reports_both(self):
        contender, good = launch(OBEDIENT, "{operations}", "{sizes}", "{gate}", "0")
        row = report.summarise(contender, CountedFabric(), "broadcast", 500, [good, runner.Launch("hung", "no result")])
        self.assertEqual(row["status"], "hung in 1 of 2")
        self.assertEqual(row["p50_ns"], 2000)

    def test_peer_with_a_failed_round_stays_in_the_summary(self):
        contender, good = launch(OBEDIENT, "{operations}", "{sizes}", "{gate}", "0")
        row = report.summarise(contender, CountedFabric(), "broadcast", 500, [good, runner.Launch("failed", "exit 1")])
        slower = {**row, "variant": "slower", "status": "ok", "p50_ns": 9000}
        self.assertEqual(report._cell([row, slower], "best"), "0.002 [failed in 1 of 2]")


class Overlap(unittest.TestCase):
    def row(self, *rounds):
        contender = contenders.Template("tutti", "true")
        launches = [runner.Launch("ok", "", {"times_ns": [both], "alone_ns": 1000, "compute_ns": 1000,
                                             "work_ns": 1000, "work_overlapped_ns": work}) for both, work in rounds]
        return report.summarise(contender, CountedFabric(), "overlap_broadcast", 500, launches)

    def test_overlap_is_computed_from_the_time_of_the_work_alone(self):
        row = self.row((1250, 1100))
        self.assertAlmostEqual(row["overlap"], 0.75)
        self.assertAlmostEqual(row["overlap_raw"], 0.75)
        self.assertAlmostEqual(row["lost_work"], 0.1)

    def test_overlap_of_serial_execution_is_zero(self):
        self.assertAlmostEqual(self.row((2000, 1000))["overlap"], 0)

    def test_overlap_above_one_is_limited_and_its_raw_value_reported(self):
        row = self.row((700, 1000))
        self.assertEqual(row["overlap"], 1)
        self.assertAlmostEqual(row["overlap_raw"], 1.3)
        self.assertEqual(report._overlap_text(row), ["overlap 100.0% (raw 130.0%), work +0.0% longer"])

    def test_row_of_several_rounds_has_their_median(self):
        self.assertAlmostEqual(self.row((1100, 1000), (1500, 1000), (1200, 1000))["overlap"], 0.8)


class MachinePace(unittest.TestCase):
    @staticmethod
    def of(*calls_ns, patience_s):
        readings = iter(calls_ns)
        return paces.Pace("", patience_s, lambda: {"system_call_ns": next(readings), "copy_ns_per_kib": 100.0},
                          sleep=lambda _: None)

    def test_launch_waits_until_the_pace_is_as_good_as_before(self):
        pace = self.of(170.0, 230.0, 229.0, 175.0, patience_s=100)
        self.assertEqual(pace.before_launch()["system_call_ns"], 170.0)
        self.assertEqual(pace.before_launch()["system_call_ns"], 175.0)
        self.assertEqual(pace.waited_s, 2 * paces.BETWEEN_READINGS_S)
        self.assertEqual(pace.facts()["worst"]["system_call_ns"], 230.0)

    def test_launch_begins_when_patience_ends_and_reports_the_slowness(self):
        pace = self.of(170.0, *[340.0] * 100, patience_s=10)
        pace.before_launch()
        for _ in range(3):
            self.assertEqual(pace.slowness(pace.before_launch())["system_call_ns"], 2.0)
        self.assertEqual(pace.waited_s, 10)

    def test_pace_without_its_program_is_not_read(self):
        pace = paces.Pace(None, 10)
        self.assertIsNone(pace.before_launch())
        self.assertIsNone(pace.facts())


class Tables(unittest.TestCase):
    def test_percentile_is_a_measured_value(self):
        self.assertEqual(report.percentile([5, 1, 3], 0.5), 3)
        self.assertEqual(report.percentile(list(range(1, 11)), 0.9), 9)
        self.assertEqual(report.percentile([7], 0.9), 7)

    def test_absent_peer_is_listed_with_its_remedy(self):
        peer = contenders.Peer("gloo", "default", "/nonexistent")
        self.assertRegex(peer.unavailable, "not installed: apt-get install libgloo-dev|not built: .*gloo_peer")
        row = report.summarise(peer, CountedFabric(), "broadcast", 500, [])
        rows = [row]
        report.relate(rows, CountedFabric(), None)
        facts = {"fabric": "none", "rounds": 1, "iterations": 1, "warmup": 0, "load_before": 0, "load_after": 0,
                 "cores": 1, "kernel": "k", "yield_shim": False, "burst_bytes": 0}
        self.assertIn(peer.unavailable, report.markdown({"rows": rows, "facts": facts, "reference": None}))

    def test_row_has_its_ratios_to_limit_burst_and_reference(self):
        contender, good = launch(OBEDIENT, "{operations}", "{sizes}", "{gate}", "0")
        row = report.summarise(contender, CountedFabric(), "broadcast", 500, [good])
        report.relate([row], CountedFabric(), "tutti default")
        self.assertEqual(row["limit_ns"], 500)
        self.assertEqual(row["limit_after_burst_ns"], 400)
        self.assertEqual(row["to_limit"], 4)
        self.assertEqual(row["to_reference"], 1)
        self.assertFalse(row["within_burst"])
        self.assertEqual(row["link_bytes_to_ideal"], 1900 / 1000)

    def test_ideal_and_received_bytes_of_an_allgather(self):
        fabric = CountedFabric()
        self.assertEqual(fabric.ideal_link_bytes("allgather", 10), 40)
        self.assertEqual(fabric.received_bytes("allgather", 10), 10)

    def test_size_arguments_are_parsed(self):
        self.assertEqual([compare.parse_size(text) for text in ("64K", "1m", "17")], [65536, 1 << 20, 17])


class Commands(unittest.TestCase):
    def test_every_variant_names_known_operations_and_makes_a_command(self):
        job = contenders.Job("broadcast", 500, 4, 1, "/gate", "/folder")
        for peer, variants in contenders.VARIANTS.items():
            for variant in variants:
                one = contenders.Peer(peer, variant, "/programs")
                self.assertLessEqual(set(one.operations), set(contenders.OPERATIONS))
                for words in one.commands(CountedFabric(), job):
                    self.assertTrue(all(isinstance(word, str) for word in words), words)
                    self.assertIn("none,broadcast", words)

    def test_template_with_a_rank_starts_one_process_a_rank(self):
        one = contenders.Template("tutti/chain", "true --rank {rank} of {ranks} at {address} for {operations}")
        words = one.commands(CountedFabric(), contenders.Job("allgather", 5, 4, 1, "g", "f"))
        self.assertEqual(words[1], "true --rank 1 of 2 at 127.0.0.1 for none,allgather".split())
        self.assertEqual(one.name, "tutti chain")


if __name__ == "__main__":
    runner.adopt_orphans()
    unittest.main()
