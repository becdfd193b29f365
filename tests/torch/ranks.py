"""Runs a job, a Python file, as real ranks on this host and reports the output of those that fail."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
import requirements  # noqa: E402

BUILD_S = 900  # the first process compiles the adapter, perhaps on a busy machine


def library():
    """The libtutti.so that CTest names, else the one of the environment."""
    return os.environ.get("TUTTI_LIBRARY", "")


class Job(unittest.TestCase):
    """A test whose cases run jobs."""

    @classmethod
    def setUpClass(cls):
        found = importlib.util.find_spec("torch")
        if found is None or found.origin is None:  # without origin: a folder of that name
            requirements.skip_without("torch", "the module torch cannot be imported")
        load = "import tutti_collectives.torch._adapter as a; a.load()"
        done = subprocess.run([sys.executable, "-c", load], env=environment(), capture_output=True, text=True,
                              timeout=BUILD_S, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)

    def run_job(self, name, size, *, ended_badly=(), timeout=150, **variables):
        """Runs jobs/NAME on `size` ranks, all of which must succeed except those in `ended_badly`."""
        with tempfile.TemporaryDirectory() as folder:
            files = [open(f"{folder}/{rank}", "w+", encoding="utf-8") for rank in range(size)]
            ranks = [subprocess.Popen([sys.executable, HERE / "jobs" / name], stdout=files[rank], stderr=files[rank],
                                      env={**environment(), "RANK": str(rank), "WORLD_SIZE": str(size),
                                           "JOB_FOLDER": folder, **variables})
                     for rank in range(size)]
            end = time.monotonic() + timeout
            try:
                statuses = [one.wait(max(0.1, end - time.monotonic())) for one in ranks]
            except subprocess.TimeoutExpired:
                statuses = [one.poll() for one in ranks]
            finally:
                for one in ranks:
                    one.kill()
                    one.wait()
            texts = []
            for rank, file in enumerate(files):
                file.seek(0)
                texts.append(f"---- rank {rank}: status {statuses[rank]}\n{file.read()[-6000:]}")
                file.close()
            bad = [rank for rank in range(size) if statuses[rank] != 0 and rank not in ended_badly]
            self.assertEqual(bad, [], "\n".join(texts))


def environment():
    path = [str(ROOT / "bindings" / "python"), str(HERE), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in path if one), "OMP_NUM_THREADS": "1",
            "TUTTI_LIBRARY": library(), "PYTHONWARNINGS": "ignore"}
