#!/usr/bin/env python3
"""Tests every operation of the backend on 2, 3 and 4 ranks."""

import ranks
import requirements


class Operations(ranks.Job):
    def test_every_operation_on_two_ranks(self):
        self.run_job("operations.py", 2)

    def test_every_operation_on_three_ranks(self):
        self.run_job("operations.py", 3)

    def test_every_operation_on_four_ranks(self):
        self.run_job("operations.py", 4)

    def test_operations_under_the_debug_level_detail(self):
        self.run_job("operations.py", 2, TORCH_DISTRIBUTED_DEBUG="DETAIL")


if __name__ == "__main__":
    requirements.main()
