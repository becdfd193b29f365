#!/usr/bin/env python3
"""Tests that errors name the ranks that have died, are late or never come."""

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

    def test_late_and_absent_ranks(self):
        self.run_job("faults.py", 3, JOB_CASES="late_rank_times_out late_rank_fails_a_future "
                     "late_rank_fails_a_future_of_a_sparse_call wait_with_a_timeout_of_its_own absent_rank_is_named_by_the_creation "
                     "monitored_barrier_names_absent_ranks")


if __name__ == "__main__":
    requirements.main()
