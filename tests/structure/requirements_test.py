#!/usr/bin/env python3
"""Tests that skipped tests are visible, name the capability that they lack, and fail if it is required."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
import requirements  # noqa: E402

TWO_TESTS = """
    import sys, unittest
    sys.path.insert(0, {tests!r})
    import requirements
    class Two(unittest.TestCase):
        def test_first(self):
            {first}
        def test_second(self):
            {second}
    requirements.main()
    """
LACKS_LAB = 'requirements.skip_without("lab", "no namespaces")'


class Runner(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_tests(self, first, second, required=""):
        program = self.folder / "two.py"
        program.write_text(textwrap.dedent(TWO_TESTS).format(tests=str(TESTS), first=first, second=second))
        done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "TUTTI_REQUIRE": required, "TUTTI_SKIP_LOG": str(self.folder / "log")})
        log = self.folder / "log"
        return done.returncode, log.read_text().splitlines() if log.exists() else [], done.stdout + done.stderr

    def test_run_with_one_of_two_tests_skipped_passes_and_lists_it(self):
        status, log, text = self.run_tests(LACKS_LAB, "pass")
        self.assertEqual(status, 0, text)
        self.assertEqual(log, ["Two.test_first lacks lab: no namespaces"])
        self.assertIn("SKIPPED Two.test_first", text)

    def test_run_with_all_tests_skipped_ends_with_the_skip_status(self):
        status, log, text = self.run_tests(LACKS_LAB, LACKS_LAB)
        self.assertEqual(status, requirements.NOTHING_RAN, text)
        self.assertEqual(len(log), 2)

    def test_skip_for_a_required_capability_fails(self):
        status, log, text = self.run_tests(LACKS_LAB, "pass", required="mpi,lab")
        self.assertEqual((status, log), (1, []), text)
        self.assertIn("lacks lab: no namespaces (TUTTI_REQUIRE)", text)

    def test_skip_for_another_capability_than_the_required_one_passes(self):
        self.assertEqual(self.run_tests(LACKS_LAB, "pass", required="mpi")[0], 0)

    def test_skip_without_a_capability_fails(self):
        self.assertEqual(self.run_tests('self.skipTest("no time")', "pass")[0], 1)
        self.assertEqual(self.run_tests('requirements.skip_without("luck", "none")', "pass")[0], 1)

    def test_run_with_a_failed_test_fails(self):
        self.assertEqual(self.run_tests("self.fail()", LACKS_LAB)[0], 1)


class Names(unittest.TestCase):
    def test_misspelt_requirement_is_refused(self):
        done = subprocess.run([sys.executable, TESTS / "requirements.py"], capture_output=True, text=True, timeout=60,
                              check=False, env={**os.environ, "TUTTI_REQUIRE": "lab,mpy"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("TUTTI_REQUIRE lists mpy", done.stderr)

    def test_cpp_and_python_know_the_same_capabilities(self):
        text = (TESTS / "requirements.hpp").read_text()
        in_cpp = re.findall(r'"(\w+)"', text[text.index("kCapabilities"):text.index("};")])
        self.assertEqual(set(in_cpp) | {"fuzz", "python", "torch"}, set(requirements.CAPABILITIES))

    def test_no_test_skips_on_its_own(self):
        own = re.compile(r"GTEST_SKIP\(|\.skipTest\(|unittest\.skip|SkipTest\(|DISABLED_"
                         r"|pytest\.(?:skip|importorskip|xfail)\b|mark\.(?:skip|xfail)")
        allowed = {TESTS / "requirements.cpp", TESTS / "requirements.py", pathlib.Path(__file__).resolve()}
        found = [str(path) for ending in ("cpp", "hpp", "py") for path in TESTS.rglob(f"*.{ending}")
                 if path.resolve() not in allowed and own.search(path.read_text())]
        self.assertEqual(found, [])


if __name__ == "__main__":
    requirements.main()
