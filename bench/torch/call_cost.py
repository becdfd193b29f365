#!/usr/bin/env python3
"""The time of one call of a backend of torch.distributed: Allgather and Allreduce of float32, as medians over many calls.

    torchrun --nproc-per-node 2 bench/torch/call_cost.py --backend tutti --bytes 1024 1048576

Each call is waited for before the next one. Rank 0 prints one line of JSON: the median microseconds by call and size,
where the size is that of a rank's own tensor.
"""

import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist

WARM_UP_CALLS = 30


def allgather(count):
    own, everything = torch.ones(count), torch.empty(count * dist.get_world_size())
    return lambda: dist.all_gather_into_tensor(everything, own)


def allreduce(count):
    tensor = torch.zeros(count)
    return lambda: dist.all_reduce(tensor)


CALLS = {"allgather": allgather, "allreduce": allreduce}


def median_us(call, calls):
    for _ in range(WARM_UP_CALLS):
        call()
    times = []
    for _ in range(calls):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--bytes", type=int, nargs="+", default=[1024, 1 << 20])
    parser.add_argument("--only", choices=CALLS, nargs="+")
    parser.add_argument("--calls", type=int, default=300)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(options.backend)
    result = {}
    for name in options.only or CALLS:
        for size_bytes in options.bytes:
            dist.barrier()
            result[f"{name} {size_bytes}"] = median_us(CALLS[name](size_bytes // 4), options.calls)
    if dist.get_rank() == 0:
        print(json.dumps(result), flush=True)
    dist.destroy_process_group()


main()
