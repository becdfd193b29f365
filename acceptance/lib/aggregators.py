"""Aggregators in a lab, for acceptance programs that build the lab themselves."""

import contextlib
import json
import os
import re
import secrets
import subprocess
import sys
import time

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


def port_bytes(lab, ranks):
    """(to the host, from the host) of each host's port of the switch."""
    counts = []
    for rank in range(ranks):
        text = common.output_of(["ip", "-n", f"tutti-{lab}-h{rank}", "-s", "-j", "link", "show", "dev", "eth0"])[1]
        stats = json.loads(text)[0]["stats64"]
        counts.append((stats["rx"]["bytes"], stats["tx"]["bytes"]))
    return counts


def pair_bytes(lab, ranks, size, flags, program=common.TUTTI):
    """{"uplink": bytes, "downlink": bytes} of the busiest link in one Allgather beside a Reduce-Scatter, from a job with at
    least twelve such pairs and one with at least two; None if a job fails."""
    def run(iterations):
        before = port_bytes(lab, ranks)
        programs = [subprocess.Popen(
            [*in_namespace(lab, f"h{rank}"), program, "contend", "--operations", "pair", "--sizes", str(size), "--warmup", "0",
             "--iterations", str(iterations), "--rank", str(rank), "--ranks", str(ranks), "--master", "10.77.0.1",
             *flags.split()], stdout=subprocess.PIPE, text=True) for rank in range(ranks)]
        outputs = [one.communicate(timeout=120)[0] for one in programs]
        time.sleep(0.1)  # for the last acknowledgements
        after = port_bytes(lab, ranks)
        pairs = re.search(r'"attempts":(\d+)', outputs[0])  # late starts are pairs, too
        worked = pairs is not None and not any(one.returncode for one in programs)
        return int(pairs.group(1)) if worked else None, [(b[0] - a[0], b[1] - a[1]) for a, b in zip(before, after)]

    (few_pairs, few), (many_pairs, many) = run(2), run(12)
    if few_pairs is None or many_pairs is None or many_pairs <= few_pairs:
        return None
    return {name: max(b[direction] - a[direction] for a, b in zip(few, many)) / (many_pairs - few_pairs)
            for name, direction in (("uplink", 1), ("downlink", 0))}
