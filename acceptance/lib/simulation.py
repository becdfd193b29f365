"""What the simulator's acceptance programs share: `tutti sim` as a function, and the closed forms.

The closed forms are those of tests/simulator/oracle/link_traffic.py, which derives them by routing arithmetic alone:
it knows no packets, no queues and no time.
"""

import json
import os
import statistics
import sys

import common

sys.path.insert(0, os.path.join(common.ROOT, "tests", "simulator", "oracle"))
import link_traffic  # noqa: E402

# A peer's rank takes as long from a message to the next as one of our own: 600 ns from the link to its
# completion, 500 ns for a poll and 150 ns for a message.
PEER_OVERHEAD_NS = 1250
RULES = {"LINK": "every directed link once, host links included",
         "RXTX": "received and transmitted at all switch ports",
         "TX": "transmitted by switch ports: host to leaf is not seen",
         "RX": "received by switch ports: leaf to host is not seen",
         "FAB": "links between switches only"}


def sim(*arguments, timeout=1800):
    """The JSON of one `tutti sim` command."""
    status, said, complaint = common.output_of([common.TUTTI, "sim", *map(str, arguments), "--json"], timeout=timeout)
    if status != 0:
        sys.exit(f"tutti sim {' '.join(map(str, arguments))} ended with {status}: {said}{complaint}")
    return json.loads(said)


def traffic(algorithm, ranks, size, *options, timeout=1800):
    return sim("traffic", algorithm, "-p", ranks, "--bytes", size, *options, timeout=timeout)


def protocol(collective, ranks, size, *options, timeout=1800):
    return sim("run", collective, "-p", ranks, "--bytes", size, *options, timeout=timeout)


def payload(run):
    """Payload bytes by link class, and by counting rule where the run has them."""
    found = {name: one["payload_bytes"] for name, one in run["link_classes"].items()}
    return {**found, **{name: one["payload_bytes"] for name, one in run.get("counting_rules", {}).items()}}


def by_rules(classes):
    """The counting rules out of link classes."""
    up, down = classes.get("host_up", 0), classes.get("host_down", 0)
    inner = sum(classes.values()) - up - down
    return {"LINK": up + down + inner, "RXTX": up + down + 2 * inner, "TX": down + inner, "RX": up + inner,
            "FAB": inner}


def mean_us(run):
    return statistics.fmean(run["times_us"])


def variation(values):
    """Standard deviation over mean."""
    return statistics.pstdev(values) / statistics.fmean(values)


def rank_times_us(run, root=None):
    """What each rank measures, its call to its end; without the root, where there is one."""
    return [time for rank, time in enumerate(run["finish_us"]) if rank != root]
