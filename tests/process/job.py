"""Jobs of real processes on loopback, for the tests of this folder."""

import os
import socket
import subprocess
import tempfile
import time

PATIENCE_S = 100


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Rank:
    """One process of a job and its output. `environment` overrides the variables that this class sets."""

    def __init__(self, command, rank, size, port, environment):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdout=self.log, stderr=subprocess.STDOUT,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": str(port), **environment})

    def text(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read()

    def runs(self):
        """Waits until the process has completed its first calls."""
        deadline = time.monotonic() + PATIENCE_S
        while "running" not in self.text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("the rank does not complete its first calls: " + self.text())
            time.sleep(0.01)

    def end(self):
        self.process.wait(timeout=PATIENCE_S)
        return self.text()

    def remove(self):
        """Ends the process if it runs, and drops its output."""
        kill(self.process)
        self.log.close()


def kill(process):
    if process.poll() is None:
        process.kill()
        process.wait()
