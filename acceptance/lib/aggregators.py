"""Aggregators in a lab, for acceptance programs that build the lab themselves."""

import contextlib
import os
import secrets
import subprocess
import sys

import common

PORT = 7600
AGGREGATOR = f"10.77.0.251:{PORT}"  # the first one's


def cores_of(lab, place):
    """A place's share of the cores, as 0,1."""
    status, said, complaint = common.output_of([common.TUTTI, "lab", "cores", "--name", lab])
    shares = dict(line.split("=") for line in said.split())
    if status != 0 or place not in shares:
        sys.exit(f"no share of the cores for {place}: {said}{complaint}")
    return shares[place]


class Aggregator:
    """`tutti aggregator`, number `number` of the lab, at its own port of the switch."""

    def __init__(self, lab, number, options):
        self.address = f"10.77.0.{251 + number}:{PORT}"
        os.environ.setdefault("TUTTI_AGGREGATOR_KEY", secrets.token_hex(16))
        place = f"tutti-{lab}-a{number}"
        command = ["taskset", "--cpu-list", cores_of(lab, place), "ip", "netns", "exec", place, common.TUTTI, "aggregator",
                   "--listen", self.address, "--interface", "eth0", *options]
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
