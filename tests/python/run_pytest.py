#!/usr/bin/env python3
"""Runs one file of tests by pytest. Without numpy or pytest the file is skipped, as tests/requirements.py says."""

import importlib.util
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402

FILE = ""
TIMEOUT_S = 280  # below the one of CTest, so that pytest's output is shown


class Pytest(unittest.TestCase):
    def test_every_test_of_the_file_passes(self):
        for module in ("numpy", "pytest"):
            if importlib.util.find_spec(module) is None:
                requirements.skip_without("python", f"{os.path.basename(FILE)} needs the module {module}")
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", FILE], check=False,
                              timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    FILE = sys.argv.pop(1)
    requirements.main()
