#!/usr/bin/env python3
"""Tests `tutti tune` from outside: a real job measures and writes a table. Later jobs and `tutti explain` apply the
table if it matches the job, and report a table that does not match."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402

TUTTI = ""
PATIENCE_S = 100
RANKS = 4
LARGEST = 64 * 1024


def tutti(*arguments, **environment):
    return subprocess.run([TUTTI, *[str(one) for one in arguments]], capture_output=True, text=True, timeout=PATIENCE_S,
                          env={**os.environ, "TUTTI_DEVICE": "ip", **environment}, check=False)


def job(*arguments, ranks=RANKS, **environment):
    return tutti("run", "-n", ranks, "--no-prefix", "--", TUTTI, *arguments, **environment)


class Table:
    """The rules of an algorithm table, parsed as the manual describes them."""

    def __init__(self, text):
        lines = [line.split("#")[0].strip() for line in text.splitlines()]
        lines = [line for line in lines if line]
        self.place = lines[0]
        self.rules = [re.fullmatch(r"(\w+)(?:\[(\d+)\])?=(\w+)((?::\w+=\d+)*)", line).groups() for line in lines[1:]]

    def of(self, collective, size):
        """The algorithm that the table names for a call; None if the defaults decide."""
        for name, bound, algorithm, _ in self.rules:
            if name == collective and (bound is None or size <= int(bound)):
                return None if algorithm == "automatic" else algorithm
        return None


class Tune(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.table = self.folder / "choices.txt"

    def runs(self, collective, size, ranks=RANKS, **environment):
        """The algorithm that a job uses, and the job's other output."""
        report = self.folder / "bench.json"
        sizes = () if collective == "barrier" else ("-b", size, "-e", size)
        done = job("bench", collective, *sizes, "-n", "2", "-w", "1", "-J", report, ranks=ranks, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(report, encoding="utf-8") as file:
            row = json.load(file)["rows"][0]
        return row["in_place"], done.stderr

    def explains(self, collective, size, *options, **environment):
        sizes = () if collective == "barrier" else ("-b", size)
        done = tutti("explain", collective, "-p", RANKS, "--hosts", "1", *sizes, *options, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.match(r".*: (\w+)", done.stdout.splitlines()[0]).group(1)

    def test_measured_table_decides_in_the_next_job(self):
        collectives = ("barrier", "broadcast", "allgather", "allreduce")
        for device in ("ip", "host"):
            with self.subTest(device=device):
                done = job("tune", *collectives, "-o", self.table, "-b", "1K", "-e", LARGEST, "-f", "64", "-n", "5", "-w", "2",
                           "--margin", "0", TUTTI_DEVICE=device)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                table = Table(self.table.read_text())
                self.assertEqual(table.place, f"when:ranks={RANKS}:hosts=1:device={device}")
                for collective in collectives:
                    for size in (0,) if collective == "barrier" else (1024, LARGEST):
                        self.check_row(done.stdout, table, collective, size, device)

    def check_row(self, text, table, collective, size, device):
        usual = self.explains(collective, size, "--device", device)
        expected = table.of(collective, size) or usual
        used, complaints = self.runs(collective, size, TUTTI_DEVICE=device, TUTTI_ALGORITHM_FILE=str(self.table))
        self.assertEqual(used["algorithm"], expected)
        self.assertEqual(complaints, "")
        self.assertEqual(self.explains(collective, size, "--device", device, TUTTI_ALGORITHM_FILE=str(self.table)), expected)
        label = f"{size // 1024}K" if size else "0"
        rows = [line for line in text.splitlines() if line.startswith(collective) and line.split()[1] == label]
        self.assertEqual(len(rows), 1, text)
        fields = re.fullmatch(r"\S+\s+\S+  (as usual|\S+)\s+([\d.]+)  (\S+)\s+([\d.]+)\s+([\d.]+)", rows[0])
        self.assertIsNotNone(fields, rows[0])
        chosen, chosen_us, named_usual, usual_us, gain = fields.groups()
        self.assertEqual(chosen.split(":")[0], table.of(collective, size) or "as usual")
        self.assertEqual(named_usual, usual)
        self.assertGreater(float(chosen_us), 0)
        self.assertAlmostEqual(float(gain), float(usual_us) / float(chosen_us), delta=0.02 * float(gain) + 0.006)
        if chosen != "as usual":
            self.assertGreater(float(usual_us), float(chosen_us) - 0.11)

    def test_table_applies_only_to_its_ranks_device_and_sizes(self):
        self.table.write_text(
            f"# by hand\nwhen:ranks={RANKS}:hosts=1:device=ip\nallgather[2000] = ring # short ones\n"
            "allgather[8192]=automatic\nallgather[65536]=bruck:ports=2\nwhen:ranks=3\nallgather=linear\n")
        table = {"TUTTI_ALGORITHM_FILE": str(self.table)}
        for size, expected in ((1024, "ring"), (4096, "linear"), (16384, "bruck"), (131072, "multicast")):
            used, complaints = self.runs("allgather", size, **table)
            self.assertEqual(used["algorithm"], expected)
            self.assertEqual(complaints, "")
            self.assertEqual(self.explains("allgather", size, **table), expected)
            multicast = used["counters"].get("device_multicast_bytes_sent", 0)
            self.assertEqual(multicast > 0, expected == "multicast")
        used, complaints = self.runs("allgather", 1024, ranks=3, **table)
        self.assertEqual((used["algorithm"], complaints), ("linear", ""))
        # A job with another number of ranks or another device reports the table once and does not use it.
        used, complaints = self.runs("allgather", 32768, ranks=2, **table)
        self.assertEqual(used["algorithm"], "multicast")
        self.assertEqual(complaints.count(f"when:ranks={RANKS}:hosts=1:device=ip, when:ranks=3"), 1, complaints)
        self.assertIn("2 ranks on 1 host(s) and device ip", complaints)
        used, complaints = self.runs("allgather", 64, TUTTI_DEVICE="host", **table)
        self.assertEqual(used["algorithm"], "linear")
        self.assertIn("4 ranks on 1 host(s) and device host", complaints)

    def test_table_is_appended_to_an_existing_file(self):
        for ranks in (2, 3):
            done = job("tune", "barrier", "-o", self.table, "--append", "-n", "2", "-w", "1", ranks=ranks)
            self.assertEqual(done.returncode, 0, done.stderr)
        text = self.table.read_text()
        self.assertIn("when:ranks=2:hosts=1:device=ip\n", text)
        self.assertIn("when:ranks=3:hosts=1:device=ip\n", text)
        for ranks in (2, 3):
            _, complaints = self.runs("barrier", 0, ranks=ranks, TUTTI_ALGORITHM_FILE=str(self.table))
            self.assertEqual(complaints, "")

    def test_untunable_collectives_are_named(self):
        for expected, arguments, environment in (
                ("TUTTI_ALGORITHMS is set", (), {"TUTTI_ALGORITHMS": "barrier=dissemination"}),
                ("--algorithm ring", ("--algorithm", "ring"), {}),
                ("'sorting' cannot be tuned: use one of barrier", ("sorting",), {}),
                ("multiple of 4", ("-b", "3"), {}),
                ("cannot write --output file", ("barrier", "-n", "1", "-o", "/nowhere/choices.txt"), {})):
            done = job("tune", *arguments, ranks=1, **environment)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(expected, done.stderr)

    def test_wrong_table_is_refused(self):
        for text, expected in (("when:ranks=four", "ranks is 'four'"), ("when:device=tin", "use one of ip, host"),
                               ("when:moon=full", "ranks, hosts or device"), ("allgather=best", "ring")):
            self.table.write_text(text + "\n")
            done = job("bench", "barrier", "-n", "1", ranks=1, TUTTI_ALGORITHM_FILE=str(self.table))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("TUTTI_ALGORITHM_FILE", done.stderr)
            self.assertIn(expected, done.stderr)


if __name__ == "__main__":
    TUTTI = sys.argv.pop(1)
    requirements.main()
