#!/usr/bin/env python3
"""Tests that errors name the ranks that have died, are late or never come."""

import os
import pathlib
import subprocess
import tempfile

import ranks
import requirements


class Faults(ranks.Job):
    def test_killed_rank_is_named(self):
        self.run_job("faults.py", 3, ended_badly=[2], JOB_CASES="killed_rank_is_named")

    def test_killed_rank_fails_futures(self):
        self.run_job("faults.py", 2, ended_badly=[1], JOB_CASES="killed_rank_fails_futures")

    def test_process_that_ends_while_a_callback_runs_ends_well(self):
        self.run_job("faults.py", 2, JOB_CASES="end_while_a_callback_runs")

    def test_process_that_ends_while_its_group_meets_ends_well(self):
        self.run_job("faults.py", 2, JOB_CASES="end_while_the_group_meets")

    def test_dropped_work_without_a_thread_keeps_its_tensor(self):
        self.run_job("faults.py", 2, JOB_CASES="dropped_work_without_a_thread_keeps_its_tensor")

    def test_calls_that_fail_end_the_group(self):
        with tempfile.TemporaryDirectory() as folder:
            library = pathlib.Path(folder) / "failing_calls.so"
            subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-shared", "-fPIC", "-o", library, "-I",
                            ranks.ROOT / "include", ranks.HERE / "failing_calls.cpp"], check=True)
            for case in ("dropped_work_without_callbacks_ends_the_group", "start_that_fails_in_part_ends_the_group"):
                self.run_job("faults.py", 2, JOB_CASES=case, LD_PRELOAD=str(library))

    def test_late_and_absent_ranks(self):
        self.run_job("faults.py", 3, JOB_CASES="late_rank_times_out late_rank_fails_a_future "
                     "late_rank_fails_a_future_of_a_sparse_call wait_with_a_timeout_of_its_own absent_rank_is_named_by_the_creation "
                     "monitored_barrier_names_absent_ranks")


if __name__ == "__main__":
    requirements.main()
