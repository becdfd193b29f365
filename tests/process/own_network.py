"""A network namespace for the tests of this folder that watch or disturb a job's packets."""

import ctypes
import os
import subprocess

import requirements

CLONE_NEWNET = 0x4000_0000


def enter_own_network():
    """Moves this process into a network namespace with a loopback interface; skips the test where that is not allowed."""
    if os.geteuid() != 0:
        requirements.skip_without("root", "a network namespace and a packet socket")
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        requirements.skip_without("lab", os.strerror(ctypes.get_errno()))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
