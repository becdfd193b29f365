#!/usr/bin/env python3
"""Tests training by DistributedDataParallel, FSDP and HSDP against one process, tensors and checkpoints."""

import ranks
import requirements


class Training(ranks.Job):
    def test_training_on_two_ranks_equals_one_process(self):
        self.run_job("training.py", 2)

    def test_hybrid_sharding_on_four_ranks_equals_one_process(self):
        self.run_job("training.py", 4)


if __name__ == "__main__":
    requirements.main()
