#!/usr/bin/env python3
"""Tests the beginning and the end of groups, stale keys, fork, options and registration."""

import ranks
import requirements


class Life(ranks.Job):
    def test_groups_of_two_ranks(self):
        self.run_job("life.py", 2)


if __name__ == "__main__":
    requirements.main()
