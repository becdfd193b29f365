"""One rank of acceptance/torch/priority. It runs by turns an Allgather alone, a bulk Reduce-Scatter alone, and both together.

  priority_job.py FOLDER GATHER_BYTES SCATTER_BYTES ROUNDS [PRIORITY]

GATHER_BYTES is the length of the whole result, SCATTER_BYTES that of a rank's vector. PRIORITY is
the priority of all calls; without it the backend's rule applies. The rank writes the seconds of
each call, and its counters, to FOLDER/RANK.json.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
import tutti_collectives.torch

# Time in s from the start of the Reduce-Scatter to that of the Allgather; the Reduce-Scatter fills
# its window in less.
LEAD_S = 0.03
CASES = ["gather", "scatter", "pair", "gather again"]


class Calls:
    def __init__(self, gather_bytes, scatter_bytes):
        ranks, me = dist.get_world_size(), dist.get_rank()
        self.own = torch.full((gather_bytes // 4 // ranks,), float(me))
        self.everything = torch.empty(len(self.own) * ranks)
        self.gradients = torch.full((scatter_bytes // 4 // ranks * ranks,), float(me + 1))
        self.mine = torch.empty(len(self.gradients) // ranks)

    def start(self, case):
        """{name: (instant of the start, work)}; the Reduce-Scatter starts first."""
        started = {}
        if case in ("scatter", "pair"):
            started["scatter"] = time.perf_counter(), dist.reduce_scatter_tensor(self.mine, self.gradients, async_op=True)
        if case == "pair":
            time.sleep(LEAD_S)
        if case != "scatter":
            started["gather"] = time.perf_counter(), dist.all_gather_into_tensor(self.everything, self.own, async_op=True)
        return started

    def check(self):
        ranks = dist.get_world_size()
        assert self.everything.view(ranks, -1).eq(torch.arange(ranks).view(-1, 1)).all()
        assert self.mine.eq(ranks * (ranks + 1) / 2).all()


def main():
    folder, gather_bytes, scatter_bytes, rounds = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(1)
    priority = sys.argv[5] if len(sys.argv) > 5 else None
    dist.init_process_group("tutti", pg_options=tutti_collectives.torch.Options(priority=priority))
    calls = Calls(gather_bytes, scatter_bytes)
    seconds = {case: [] for case in CASES}
    for number in range(rounds + 1):
        for case in CASES if number % 2 else reversed(CASES):
            dist.barrier()
            started = calls.start(case)
            times = {}
            for name in sorted(started):  # waits for the Allgather first
                begun, work = started[name]
                work.wait()
                times[name] = time.perf_counter() - begun
            if number > 0:
                seconds[case].append(times)
        calls.check()
    counters = tutti_collectives.torch.counters()
    with open(os.path.join(folder, f"{dist.get_rank()}.json"), "w", encoding="utf-8") as file:
        json.dump({"seconds": seconds, "counters": counters}, file)
    dist.destroy_process_group()


main()
