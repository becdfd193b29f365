#!/usr/bin/env python3
"""Tests that an allocation which fails ends in success or a named error: in the life of a communicator, over datagrams, with a
receive worker and over shared memory.

    allocation_test.py PROGRAM [STEP]

Every STEP-th allocation fails in turn (default: every one), each in a process of its own."""

import re
import subprocess
import sys
import unittest
import os

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402

PROGRAM = ""
STEP = 1
PARALLEL = 12  # processes at a time, which mostly wait
RESULT = re.compile(r"^(\d+) allocations failed: (\d+) without effect, (\d+) with a named error, (\d+) with a fault; the last life "
                    r"succeeded with fewer than (\d+)$", re.M)
# Lives differ in their number of allocations, because threads take turns differently. A share that ends below this part of the
# highest number has skipped allocations.
SHORTEST_LIFE = 0.9


class Allocations(unittest.TestCase):
    def check(self, device):
        processes = [subprocess.Popen([PROGRAM, device, str(1 + share * STEP), str(PARALLEL * STEP)], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                     for share in range(PARALLEL)]
        failed = without_effect = 0
        faults, ends = [], []
        for process in processes:
            text, _ = process.communicate()
            result = RESULT.search(text)
            if result is None or process.returncode != 0:
                faults.append(text)
                continue
            failed += int(result[1])
            without_effect += int(result[2])
            ends.append(int(result[5]))
        self.assertEqual(faults, [])
        self.assertGreater(min(ends), 1000)
        self.assertGreater(min(ends) + PARALLEL * STEP, SHORTEST_LIFE * max(ends))
        print(f"[ figures  ] {device}: {failed} allocations failed, one in each life of a communicator: {without_effect} "
              f"without effect, {failed - without_effect} with a named error; lives had at most {min(ends)} to {max(ends)}")

    def test_eachAllocation_overDatagrams_endsInSuccessOrANamedError(self):
        self.check("ip")

    def test_eachAllocation_withAReceiveWorker_endsInSuccessOrANamedError(self):
        self.check("workers")

    def test_eachAllocation_overSharedMemory_endsInSuccessOrANamedError(self):
        self.check("host")


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    if len(sys.argv) > 2:
        STEP = int(sys.argv[2])
    requirements.main(argv=sys.argv[:1])
