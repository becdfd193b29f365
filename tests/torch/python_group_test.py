#!/usr/bin/env python3
"""Tests the backend in Python, which serves a torch without an adapter."""

import ranks
import requirements


class PythonGroup(ranks.Job):
    def test_operations_and_training_on_two_ranks(self):
        self.run_job("python_group.py", 2, TUTTI_TORCH_ADAPTER="none")


if __name__ == "__main__":
    requirements.main()
