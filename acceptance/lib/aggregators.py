"""Aggregators in a lab, for acceptance programs that build the lab themselves."""

import contextlib
import os
import secrets
import subprocess
import sys

import common

PORT = 7600
AGGREGATOR = f"10.77.0.251:{PORT}"  # address of the first aggregator


def in_namespace(lab, host):
    """The command prefix that runs a program on `host` of the lab (h0, a0, ...), on that host's share of the cores."""
    name = f"tutti-{lab}-{host}"
    status, output, errors = common.output_of([common.TUTTI, "lab", "cores", "--name", lab])
    shares = dict(line.split("=") for line in output.split())
    if status != 0 or name not in shares:
        sys.exit(f"tutti lab cores lists no share for {name}: {output}{errors}")
    return ["taskset", "--cpu-list", shares[name], "ip", "netns", "exec", name]


class Aggregator:
    """`tutti aggregator` on host `a<number>` of the lab, at its own port of the switch."""

    def __init__(self, lab, number, options, program):
        self.address = f"10.77.0.{251 + number}:{PORT}"
        os.environ.setdefault("TUTTI_AGGREGATOR_KEY", secrets.token_hex(16))
        command = [*in_namespace(lab, f"a{number}"), program, "aggregator", "--listen", self.address,
                   "--interface", "eth0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        output = self.process.stdout.readline()
        if "listening" not in output:
            sys.exit(f"the aggregator did not start: {output}")

    def stop(self):
        """Terminates the aggregator; returns its output."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.communicate(timeout=10)[0]


@contextlib.contextmanager
def aggregator(lab, number=0, *options, program=common.TUTTI):
    started = Aggregator(lab, number, options, program)
    try:
        yield started
    finally:
        if not started.process.stdout.closed:
            started.stop()
