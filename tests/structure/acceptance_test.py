#!/usr/bin/env python3
"""Tests acceptance/run on a repository with small programs, and checks the docstrings of the real programs."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "acceptance", "lib"))

import common  # noqa: E402
import peers  # noqa: E402
import results  # noqa: E402

PROGRAM = '''#!/usr/bin/env python3
"""{shows}

Bar: {bar}

Old number: test.1
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import common

verdict = common.Verdict("{shows}")
{body}
verdict.finish()
'''
HOLDS = 'verdict.at_least("speed | of all", 3.25, 2, "GB/s")\nverdict.figure("a figure")'
MISSES = 'verdict.at_most("time", 9, 5, "s")\nverdict.at_most("other time", None, 5, "s")'
STOPS = 'verdict.bar("never seen", True)\nsys.exit("no lab on this machine")'
PARTS = '''
def measure(name):
    open("{count}", "a").write(name)
    verdict.equal(name, 1, 1)
verdict.part("a", lambda: measure("a"))
if os.path.exists("{stop}"):
    sys.exit("interrupted")
verdict.part("b", lambda: measure("b"))'''
HANGS = 'import time\ntime.sleep(600)'


class Repository(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.join(folder.name, "repository")
        shutil.copytree(os.path.join(ROOT, "acceptance", "lib"), os.path.join(self.root, "acceptance", "lib"),
                        ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(os.path.join(ROOT, "acceptance", "run"), os.path.join(self.root, "acceptance", "run"))
        for name in ("README.md", "acceptance/README.md"):
            self.write(name, f"before\n{results.BEGIN}\n{results.END}\nafter\n")
        self.write(".gitignore", "/build/\n__pycache__/\n")
        self.git("init", "--quiet")

    def write(self, name, text, executable=False):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        if executable:
            os.chmod(path, 0o755)

    def read(self, name):
        with open(os.path.join(self.root, name), encoding="utf-8") as file:
            return file.read()

    def program(self, name, body, shows="It works."):
        self.write(f"acceptance/{name}", PROGRAM.format(shows=shows, bar="2 GB/s", body=body), executable=True)

    def git(self, *arguments):
        return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", self.root, *arguments],
                              check=True, capture_output=True, text=True).stdout.strip()

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "test")
        return self.git("rev-parse", "HEAD")

    def run_acceptance(self, *arguments):
        environment = {**os.environ, "TUTTI_BUILD": ""}
        environment.pop("TUTTI_TORCH_PYTHON", None)
        return subprocess.run([os.path.join(self.root, "acceptance", "run"), *arguments], capture_output=True, text=True,
                              check=False, env=environment)

    def result(self, commit, name):
        return json.loads(self.read(f"build/acceptance/{commit}/results/{name}.json"))


class Runner(Repository):
    def test_whole_run_writes_every_table(self):
        self.program("one/holds", HOLDS)
        self.program("two/misses", MISSES)
        commit = self.commit()
        done = self.run_acceptance()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        record = self.result(commit, "one/holds")
        self.assertEqual(record["commit"], commit)
        self.assertEqual(record["bars"], [{"text": "speed | of all", "value": 3.25, "unit": "GB/s",
                                           "bound": "at least 2 GB/s", "held": True}])
        self.assertEqual(record["figures"], ["a figure"])
        self.assertEqual(record["machine"]["cores"], os.cpu_count())
        report = self.read("docs/results/acceptance.md")
        self.assertIn("| one/holds | speed \\| of all | 3.25 GB/s | at least 2 GB/s | held |", report)
        self.assertIn("| two/misses | time | 9 s | at most 5 s | **missed** |", report)
        self.assertIn("| two/misses | other time | - | at most 5 s | **missed** |", report)
        self.assertIn(f"Acceptance at {commit[:12]}: 2 of 2 programs run, 1 of 3 bars held.", report)
        self.assertIn("| [two/misses](two/misses) | It works. | 2 GB/s | - | 2 of 2 bars missed | test.1 |",
                      self.read("acceptance/README.md"))
        self.assertEqual(self.run_acceptance("--check").returncode, 0)

    def test_table_edited_by_hand_is_reported(self):
        self.program("one/holds", HOLDS)
        self.commit()
        self.run_acceptance()
        self.write("docs/results/acceptance.md", self.read("docs/results/acceptance.md").replace("3.25", "9.25"))
        done = self.run_acceptance("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("docs/results/acceptance.md differs", done.stdout)
        self.assertEqual(self.run_acceptance("--tables").returncode, 0)
        self.assertEqual(self.run_acceptance("--check").returncode, 0)

    def test_index_without_results_lists_programs_as_not_run(self):
        self.program("one/holds", HOLDS)
        self.assertEqual(self.run_acceptance("--tables").returncode, 0)
        self.assertIn("| [one/holds](one/holds) | It works. | 2 GB/s | - | not run | test.1 |", self.read("acceptance/README.md"))
        self.assertEqual(self.read("README.md"), f"before\n{results.BEGIN}\n{results.END}\nafter\n")

    def test_readme_shows_the_headline_bars(self):
        self.program("multicast/traffic", 'verdict.at_most("P = 8 allgather: ring / multicast", 1.7, 2)\n' + HOLDS)
        self.commit()
        self.run_acceptance()
        readme = self.read("README.md")
        self.assertIn("1 of 1 programs run, 2 of 2 bars held.", readme)
        self.assertIn("| P = 8 allgather: ring / multicast | 1.7 | at most 2 | held |", readme)
        self.assertTrue(readme.startswith("before\n") and readme.endswith("after\n"))
        self.assertNotIn("speed", readme)

    def test_dirty_tree_is_refused(self):
        self.program("one/holds", HOLDS)
        commit = self.commit()
        self.program("one/holds", MISSES)
        done = self.run_acceptance("one")
        self.assertEqual(done.returncode, 1)
        self.assertIn("files differ from HEAD", done.stderr)
        # With this option the runner uses the commit, not the changed files.
        self.assertEqual(self.run_acceptance("one", "--allow-dirty").returncode, 0)
        self.assertTrue(self.result(commit, "one/holds")["held"])

    def test_program_without_a_verdict_counts_as_not_run(self):
        self.program("one/holds", HOLDS)
        self.program("one/stops", STOPS)
        commit = self.commit()
        done = self.run_acceptance()
        self.assertEqual(done.returncode, 1)
        record = self.result(commit, "one/stops")
        self.assertNotIn("bars", record)
        self.assertEqual(record["reason"], "exit status 1, no lab on this machine")
        self.assertIn("| one/stops | not run: exit status 1, no lab on this machine | | | **not run** |",
                      self.read("docs/results/acceptance.md"))

    def test_program_that_hangs_is_ended_and_not_run(self):
        self.program("one/hangs", HANGS)
        commit = self.commit()
        self.assertEqual(self.run_acceptance("one", "--timeout-hours", "0.0003").returncode, 1)
        self.assertIn("no verdict after", self.result(commit, "one/hangs")["reason"])

    def test_second_call_runs_only_the_remaining_programs(self):
        self.program("one/counts", f'open("{self.root}/../count", "a").write("x")\n{HOLDS}')
        self.program("one/stops", STOPS)
        self.commit()
        count = os.path.join(self.root, "..", "count")
        for options, runs in ((["one/counts"], "x"), (["one"], "x"), (["--again", "one/counts"], "xx")):
            self.run_acceptance(*options)
            with open(count, encoding="utf-8") as file:
                self.assertEqual(file.read(), runs)

    def test_interrupted_program_keeps_its_parts_also_in_another_clone(self):
        count, stop = os.path.join(self.root, "..", "count"), os.path.join(self.root, "..", "stop")
        self.program("one/parts", PARTS.format(count=count, stop=stop))
        commit = self.commit()
        with open(stop, "w", encoding="utf-8"):
            pass
        self.assertEqual(self.run_acceptance("one").returncode, 1)
        self.assertEqual(self.run_acceptance("--report").returncode, 1)
        self.assertIn("not run, 1 parts done: exit status 1, interrupted", self.read("docs/results/acceptance.md"))
        self.commit()
        os.remove(stop)
        shutil.rmtree(os.path.join(self.root, "build"))
        done = self.run_acceptance("--commit", commit, "one")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([bar["text"] for bar in self.result(commit, "one/parts")["bars"]], ["a", "b"])
        with open(count, encoding="utf-8") as file:
            self.assertEqual(file.read(), "ab")
        self.run_acceptance("--commit", commit, "--again", "one")
        with open(count, encoding="utf-8") as file:
            self.assertEqual(file.read(), "abab")

    def test_run_of_some_programs_leaves_the_tables_unchanged(self):
        self.program("one/holds", HOLDS)
        self.program("two/holds", HOLDS)
        commit = self.commit()
        self.assertEqual(self.run_acceptance("one").returncode, 0)
        self.assertFalse(os.path.exists(os.path.join(self.root, "docs/results/acceptance.md")))
        self.assertIn("two/holds | not run", self.read(f"build/acceptance/{commit}/acceptance.md"))
        self.assertEqual(self.run_acceptance("--report").returncode, 1)  # fails because two/holds was not run
        self.assertIn("1 of 2 programs run", self.read("docs/results/acceptance.md"))
        self.assertEqual(self.read("README.md"), f"before\n{results.BEGIN}\n{results.END}\nafter\n")  # has no figures yet

    def test_program_not_run_on_a_newer_commit_keeps_its_result_with_the_older_commit(self):
        self.program("one/holds", HOLDS)
        self.program("two/holds", HOLDS)
        old = self.commit()
        self.assertEqual(self.run_acceptance().returncode, 0)
        self.program("two/holds", MISSES)
        new = self.commit()
        self.run_acceptance("two")
        self.run_acceptance("--report")
        report = self.read("docs/results/acceptance.md")
        self.assertIn(f"Acceptance at {old[:12]}, {new[:12]}: 2 of 2 programs run, 1 of 3 bars held.", report)
        self.assertIn(f"At {old[:12]}: one/holds.\nAt {new[:12]}: two/holds.\n", report)
        self.assertEqual(self.run_acceptance("--check").returncode, 0)

    def test_worktree_uses_the_pytorch_of_the_tree(self):
        self.program("one/torch", 'verdict.equal("interpreter", os.environ.get("TUTTI_TORCH_PYTHON"), '
                                  f'"{self.root}/build/torch/bin/python3")')
        commit = self.commit()
        self.write("build/torch/bin/python3", "", executable=True)
        self.run_acceptance("one")
        self.assertTrue(self.result(commit, "one/torch")["held"])

    def test_unknown_name_lists_the_programs(self):
        self.program("one/holds", HOLDS)
        self.commit()
        done = self.run_acceptance("three")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no acceptance program or group three: use one/holds", done.stderr)

    def test_commit_selects_an_older_state(self):
        self.program("one/holds", HOLDS)
        old = self.commit()
        self.program("one/holds", MISSES)
        self.commit()
        self.run_acceptance("--commit", old, "one")
        self.assertTrue(self.result(old, "one/holds")["held"])


class Verdicts(unittest.TestCase):
    def bars(self, report):
        verdict = common.Verdict("test")
        report(verdict)
        return [bar["held"] for bar in verdict.bars]

    def test_bounds_are_inclusive_and_a_missing_value_misses(self):
        self.assertEqual(self.bars(lambda v: (v.at_most("a", 5, 5), v.at_most("a", 5.1, 5), v.at_most("a", None, 5))),
                         [True, False, False])
        self.assertEqual(self.bars(lambda v: (v.at_least("a", 5, 5), v.at_least("a", 4.9, 5), v.at_least("a", None, 5))),
                         [True, False, False])

    def test_not_a_number_misses(self):
        self.assertEqual(self.bars(lambda v: (v.at_most("a", float("nan"), 5), v.at_least("a", float("nan"), 5))),
                         [False, False])

    def test_skipped_tests_miss(self):
        self.assertEqual(self.bars(lambda v: v.tests("a", common.GtestResult(True, 3, [], 1, 1.0, ""))), [False])
        self.assertEqual(self.bars(lambda v: v.tests("a", common.GtestResult(True, 3, [], 0, 1.0, ""))), [True])
        self.assertEqual(self.bars(lambda v: v.tests("a", common.GtestResult(False, 2, ["T.x"], 0, 1.0, ""))), [False, False])


class PeerBars(unittest.TestCase):
    @staticmethod
    def rows(*peer_rows):
        ours = {"contender": "tutti default", "peer": "tutti", "variant": "default", "size_bytes": 8, "status": "ok",
                "p50_ns": 1000}
        named = [{"contender": f"{peer} default", "peer": peer, "variant": "default", "size_bytes": 8, "status": status,
                  **({"p50_ns": time} if time else {})} for peer, status, time in peer_rows]
        return peers.Rows([ours, *named])

    def held(self, rows):
        verdict = common.Verdict("test")
        peers.bar_to_peers(verdict, rows, "here,", "broadcast", 8, 1.5)
        return verdict.bars[0]["held"], verdict.bars[0]["value"]

    def test_bar_uses_the_fastest_peer(self):
        self.assertEqual(self.held(self.rows(("mpich", "ok", 2000), ("gloo", "ok", 1600))), (True, 1.6))
        self.assertEqual(self.held(self.rows(("mpich", "ok", 2000), ("gloo", "ok", 1400))), (False, 1.4))

    def test_peer_that_failed_in_one_round_fails_the_bar(self):
        self.assertEqual(self.held(self.rows(("mpich", "ok", 2000), ("gloo", "hung in 1 of 3", 1900))), (False, 1.9))

    def test_absent_peer_fails_the_bar(self):
        self.assertEqual(self.held(self.rows(("mpich", "ok", 2000), ("gloo", "not built", None))), (False, 2.0))


class RealPrograms(unittest.TestCase):
    def test_every_program_states_its_claim_and_its_bar(self):
        names = results.programs(ROOT)
        self.assertGreater(len(names), 30)
        for name in names:
            about = results.description(ROOT, name)
            self.assertTrue(about["shows"].endswith("."), f"{name}: the first paragraph is no sentence")
            self.assertTrue(about["bar"], f"{name}: no paragraph 'Bar:'")

    def test_every_program_names_tests_that_exist(self):
        tests = os.path.join(ROOT, "tests")
        seen = 0
        for name in results.programs(ROOT):
            with open(os.path.join(ROOT, "acceptance", name), encoding="utf-8") as file:
                named = re.findall(r'"(\w+)/(\w+_test)"', file.read())
            seen += len(named)
            for suite, program in named:
                with open(os.path.join(tests, suite, "CMakeLists.txt"), encoding="utf-8") as file:
                    listed = re.search(rf"\b{program}\b", file.read())  # else a source found by its name
                source = os.path.join(tests, suite, f"{program}.cpp")
                self.assertTrue(listed or os.path.exists(source), f"acceptance/{name}: {suite}/{program}")
        self.assertGreater(seen, 10, "the programs name tests in another form than this test expects")

    def test_program_that_reads_the_results_of_the_others_is_last(self):
        self.assertEqual(results.programs(ROOT)[-1], results.EVERYTHING)

    def test_old_numbers_are_complete(self):
        numbers = {results.description(ROOT, name)["old"] for name in results.programs(ROOT)} - {""}
        groups = {"multicast": 8, "offload": 7, "schedules": 7, "simulator": 8}
        self.assertEqual(numbers, {f"{group}.{number}" for group, count in groups.items() for number in range(1, count + 1)})


if __name__ == "__main__":
    unittest.main()
