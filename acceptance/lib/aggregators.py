"""Aggregators in a lab, for acceptance programs that build the lab themselves."""

import contextlib
import os
import secrets
import subprocess
import sys

import common

PORT = 7600
AGGREGATOR = f"10.77.0.251:{PORT}"  # the first one's


def at_place(lab, place):
    """What a command is put behind that runs at a place of the lab, h0 or a0, on its share of the cores."""
    name = f"tutti-{lab}-{place}"
    status, said, complaint = common.output_of([common.TUTTI, "lab", "cores", "--name", lab])
    shares = dict(line.split("=") for line in said.split())
    if status != 0 or name not in shares:
        sys.exit(f"no share of the cores for {name}: {said}{complaint}")
    return ["taskset", "--cpu-list", shares[name], "ip", "netns", "exec", name]


class Aggregator:
    """`tutti aggregator`, number `number` of the lab, at its own port of the switch."""

    def __init__(self, lab, number, options):
        self.address = f"10.77.0.{251 + number}:{PORT}"
        os.environ.setdefault("TUTTI_AGGREGATOR_KEY", secrets.token_hex(16))
        command = [*at_place(lab, f"a{number}"), common.TUTTI, "aggregator", "--listen", self.address, "--interface", "eth0",
                   *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        said = self.process.stdout.readline()
        if "listening" not in said:
            sys.exit(f"the aggregator did not start: {said}")

    def end(self):
        """Ends it; returns what it said."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.communicate(timeout=10)[0]


@contextlib.contextmanager
def aggregator(lab, number=0, *options):
    one = Aggregator(lab, number, options)
    try:
        yield one
    finally:
        if not one.process.stdout.closed:
            one.end()
