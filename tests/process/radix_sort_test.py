#!/usr/bin/env python3
"""Tests `radix_sort` from outside: real processes on loopback, in which the program checks the keys after every sort,
and proof that this check finds errors."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402

TUTTI = ""
PROGRAM = ""
PATIENCE_S = 100


def alone(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def job(ranks, *arguments):
    return subprocess.run([TUTTI, "run", "-n", str(ranks), "--no-prefix", "--", PROGRAM, *arguments],
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)


class Sorts(unittest.TestCase):
    def sort(self, ranks, *arguments, expect=0):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sort.json")
            done = job(ranks, "-n", "2", "-w", "1", "--json", path, *arguments)
            self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
            with open(path, encoding="utf-8") as file:
                return json.load(file), done.stdout

    def check_rows(self, report, radices, keys):
        self.assertEqual(report["schema"], "tutti.radix_sort/1")
        self.assertEqual([(row["keys_per_rank"], row["radix"]) for row in report["rows"]],
                         [(count, radix) for count in keys for radix in radices])
        for row in report["rows"]:
            self.assertEqual(row["wrong"], "")
            self.assertEqual(row["sorts_checked"], 2 * (2 + 1))
            bits = report["settings"]["key_bits"]
            self.assertGreaterEqual(row["radix"] ** row["passes"], 2 ** bits)
            self.assertLess(row["radix"] ** (row["passes"] - 1), 2 ** bits)
            self.assertGreaterEqual(row["carried_bytes"], row["moved_bytes"])
            for variant in ("blocking", "overlapped"):
                self.assertEqual(len(row[variant]["times_ns"]), 2)
                self.assertGreater(row[variant]["p50_ns"], 0)
                self.assertGreater(row[variant]["phases_p50_ns"]["allgather"], 0)
                self.assertGreater(row[variant]["allgather_least_p50_ns"], 0)

    def test_sort_with_any_number_of_ranks_and_odd_counts_is_right(self):
        for ranks in (1, 2, 3, 5, 8):
            with self.subTest(ranks=ranks):
                report, _ = self.sort(ranks, "--radix", "2^8", "--keys", "1,1000,4097")
                self.assertEqual(report["ranks"], ranks)
                self.check_rows(report, [256], [1, 1000, 4097])

    def test_sort_with_every_radix_and_key_width_is_right(self):
        radices = [2, 3, 4, 10, 14, 16, 1000, 65536]
        for bits in (32, 64):
            with self.subTest(bits=bits):
                report, _ = self.sort(3, "--key-bits", str(bits), "--keys", "777", "--radix",
                                      ",".join(map(str, radices)))
                self.check_rows(report, radices, [777])

    def test_sort_with_empty_ranks_and_few_values_is_right(self):
        for distribution in ("uniform", "few", "equal"):
            with self.subTest(distribution=distribution):
                report, _ = self.sort(4, "--taper", "--distribution", distribution, "--keys", "0,2,1003",
                                      "--radix", "2,2^8")
                self.check_rows(report, [2, 256], [0, 2, 1003])

    def test_key_that_stays_on_its_rank_is_not_sent(self):
        report, _ = self.sort(4, "--distribution", "equal", "--keys", "5000", "--radix", "16")
        self.assertEqual(report["rows"][0]["carried_bytes"], 0)
        # With digits of one bit each rank sends uniform keys to two ranks, so at least half of the keys must move.
        report, _ = self.sort(4, "--keys", "5000", "--radix", "2")
        self.assertGreater(report["rows"][0]["moved_bytes"], 32 * 4 * 5000 * 4 // 2)

    def test_sort_with_pieces_smaller_than_parts_is_right(self):
        for piece in ("8", "100", "4096"):
            with self.subTest(piece=piece):
                report, _ = self.sort(3, "--key-bits", "64", "--piece-bytes", piece, "--keys", "301", "--radix", "2^8")
                self.check_rows(report, [256], [301])

    def test_sort_uses_the_chosen_algorithms(self):
        for allgather in ("ring", "bruck", "recursive_doubling"):
            with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, TUTTI_TRACE=folder):
                report, _ = self.sort(4, "--allgather", allgather, "--alltoall", "linear", "--keys", "500")
                traces = [path.read_text(encoding="utf-8") for path in pathlib.Path(folder).glob("trace-*")]
            self.check_rows(report, [256], [500])
            self.assertEqual(report["settings"]["allgather"], allgather)
            self.assertEqual(len(traces), 4)
            for trace in traces:
                self.assertIn(f"allgather ({allgather})", trace)
                self.assertIn("alltoall (linear)", trace)

    def test_sort_with_either_progress_is_right(self):
        for progress in ("thread", "test"):
            report, _ = self.sort(3, "--progress", progress, "--keys", "100000", "--radix", "2^6")
            self.check_rows(report, [64], [100000])
            self.assertEqual(report["settings"]["progress"], progress)

    def test_table_has_a_line_for_each_row(self):
        report, table = self.sort(2, "--keys", "10,2^10", "--radix", "4,2^6")
        lines = [line.split() for line in table.splitlines() if re.match(r" +\d", line)]
        self.assertEqual([(line[0], line[1], line[2], line[-1]) for line in lines],
                         [("4", "16", "10", "OK"), ("2^6", "6", "10", "OK"),
                          ("4", "16", "1024", "OK"), ("2^6", "6", "1024", "OK")])
        for line, row in zip(lines, report["rows"]):
            self.assertAlmostEqual(float(line[5]), row["ratio"], places=3)
        self.assertIn("# 24 sorts checked, 0 rows wrong: OK", table)


class Check(unittest.TestCase):
    """Tests that the check finds a result that was damaged on purpose, and names the damage."""

    def complaint(self, damage):
        done = job(3, "-n", "1", "-w", "0", "--keys", "1000", "--damage", damage)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("1 rows wrong: FAILED", done.stdout)
        return re.search(r"# WRONG: (.*)", done.stdout).group(1)

    def test_swapped_keys_are_found(self):
        self.assertEqual(self.complaint("order"), "1 keys are less than their predecessor on the same rank")

    def test_swapped_ranks_are_found(self):
        self.assertEqual(self.complaint("ranks"), "2 ranks begin with a key less than one on a lower rank")

    def test_overwritten_key_is_found(self):
        self.assertEqual(self.complaint("key"), "the sort lost, added or changed keys")


class Arguments(unittest.TestCase):
    def refused(self, *arguments):
        done = alone(*arguments)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        errors = [line for line in done.stderr.splitlines() if "[info]" not in line]
        self.assertEqual(len(errors), 1, done.stderr)
        return done.stderr

    def test_unusable_argument_is_named(self):
        for name, values in {"--radix": ("1", "65537", "2^17", "ten", "-2", "2^"),
                             "--keys": ("many", "2^40", "2^", "1.5"),
                             "--key-bits": ("16",),
                             "--distribution": ("normal",),
                             "--iters": ("0",),
                             "--warmup_iters": ("-1",),
                             "--piece-bytes": ("7", "0"),
                             "--progress": ("hope",),
                             "--damage": ("all",),
                             "--sort": ("1",)}.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    self.assertIn(name, self.refused(f"{name}={value}"))

    def test_unknown_algorithm_is_refused_with_the_known_ones(self):
        self.assertIn("recursive_doubling", self.refused("--allgather", "teleport"))
        done = job(2, "--alltoall", "teleport", "--keys", "100")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("pairwise", done.stderr)

    def test_damage_of_ranks_with_different_sizes_is_refused(self):
        self.assertIn("--taper", self.refused("--damage", "ranks", "--taper"))

    def test_unwritable_report_is_named(self):
        done = alone("-n", "1", "-w", "0", "--keys", "10", "--json", "/nowhere/sort.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--json", done.stderr)

    def test_help_is_printed(self):
        done = alone("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--radix", done.stdout)


if __name__ == "__main__":
    TUTTI, PROGRAM = sys.argv[1:3]
    requirements.main(argv=sys.argv[:1] + sys.argv[3:])
