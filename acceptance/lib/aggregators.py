"""An aggregator in a lab, for acceptance programs that build the lab themselves."""

import contextlib
import os
import secrets
import subprocess
import sys

import common

AGGREGATOR = "10.77.0.251:7600"


@contextlib.contextmanager
def aggregator(lab):
    """`tutti aggregator` at its own port of the lab's switch."""
    key = os.environ["TUTTI_AGGREGATOR_KEY"] = secrets.token_hex(16)
    command = ["ip", "netns", "exec", f"tutti-{lab}-a0", common.TUTTI, "aggregator", "--listen", AGGREGATOR,
               "--interface", "eth0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TUTTI_AGGREGATOR_KEY": key})
    try:
        said = process.stdout.readline()
        if "listening" not in said:
            sys.exit(f"the aggregator did not start: {said}")
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)
