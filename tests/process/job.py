"""Jobs of real processes on loopback, for the tests of this folder."""

import os
import socket
import subprocess
import tempfile
import time

PATIENCE_S = 100


_reserved = []  # sockets that keep ports from other programs


def free_port():
    """A port at which rank 0 can listen and which, while this process runs, no other program gets by asking for a free one."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", 0))
    _reserved.append(one)
    return one.getsockname()[1]


class Rank:
    """One process of a job and its output. `environment` overrides the variables that this class sets."""

    def __init__(self, command, rank, size, port, environment):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command, stdout=self.log, stderr=subprocess.STDOUT,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": str(port), **environment})

    def text(self):
        # The process writes at the position that it shares with this file object, so that `seek` would move its output.
        number = self.log.fileno()
        return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")

    def runs(self):
        """Waits until the process has completed its first calls."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            # Asked before the text is read, because the process may print and end in between.
            over = self.process.poll() is not None or time.monotonic() > deadline
            if "running" in self.text():
                return
            if over:
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
