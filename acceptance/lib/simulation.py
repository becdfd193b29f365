"""`tutti sim` as a function, and the closed forms of link traffic.

The closed forms come from tests/simulator/oracle/link_traffic.py, which derives them from the routes alone,
without packets, queues or time.
"""

import json
import os
import statistics
import sys

import common

sys.path.insert(0, os.path.join(common.ROOT, "tests", "simulator", "oracle"))
import link_traffic  # noqa: E402

# Time in ns from one message to the next at a rank of a peer, as at a rank of Tutti: from the link
# to the completion, a poll, and the work for a message.
PEER_OVERHEAD_NS = 600 + 500 + 150
RULES = {"LINK": "every directed link once, host links included",
         "RXTX": "received and transmitted at all switch ports",
         "TX": "transmitted by switch ports: without host to leaf",
         "RX": "received by switch ports: without leaf to host",
         "FAB": "links between switches only"}


def sim(*arguments, timeout=1800):
    """The JSON of one `tutti sim` command."""
    status, output, errors = common.output_of([common.TUTTI, "sim", *map(str, arguments), "--json"], timeout=timeout)
    if status != 0:
        sys.exit(f"tutti sim {' '.join(map(str, arguments))} exited with {status}: {output}{errors}")
    return json.loads(output)


def traffic(algorithm, ranks, size, *options, timeout=1800):
    return sim("traffic", algorithm, "-p", ranks, "--bytes", size, *options, timeout=timeout)


def protocol(collective, ranks, size, *options, timeout=1800):
    return sim("run", collective, "-p", ranks, "--bytes", size, *options, timeout=timeout)


def payload(run):
    """Payload bytes by link class, and by counting rule if the run has them."""
    found = {name: one["payload_bytes"] for name, one in run["link_classes"].items()}
    return {**found, **{name: one["payload_bytes"] for name, one in run.get("counting_rules", {}).items()}}


def mean_us(run):
    return statistics.fmean(run["times_us"])


def variation(values):
    """The standard deviation divided by the mean."""
    return statistics.pstdev(values) / statistics.fmean(values)


def rank_times_us(run, root=None):
    """Time of each rank from its call to the end of the call. The root, if there is one, is left out."""
    return [time for rank, time in enumerate(run["finish_us"]) if rank != root]
