#!/usr/bin/env python3
"""One rank of acceptance/torch/split. It uses numpy and the Python package.

  split_job.py mix | splits NUMBER | idle NUMBER

The command mix runs overlapping parts of the job at once, messages, and collectives with blocks of
different sizes, and checks each result. splits makes NUMBER splits one after another and reports the
resources of the process after a tenth of them and after all. idle times an Allreduce with and
without NUMBER idle communicators. Rank 0 prints "result {JSON}".
"""

import json
import os
import statistics
import sys
import time

import numpy
from tutti_collectives import Communicator, wait_all

LIMIT_S = 60
BLOCK_ELEMENTS = [0, 1, 3, 1001, 20011]
MESSAGE_BYTES = [0, 1, 7, 1471, 65537, 300001]
IDLE_ROUNDS = 11
IDLE_CALLS = 10_000  # after a rest the processor alternates between two speeds for some 20 ms at a time
REST_S = 0.5  # a communicator that has just been used is not idle yet


class Mix:
    def __init__(self, comm):
        self.comm, self.rank, self.size = comm, comm.rank, comm.size
        self.checks = 0

    def same(self, found, expected):
        if not numpy.array_equal(found, expected):
            raise AssertionError(f"rank {self.rank}: check {self.checks}: {found} instead of {expected}")
        self.checks += 1

    def members(self):
        """Lists of ranks that overlap: the first ones, the last ones, every second one in reverse."""
        half = self.size // 2
        lists = [list(range(half + 1)), list(range(half, self.size)), list(range(0, self.size, 2))[::-1]]
        return [one for one in lists if one]

    def parts_at_once(self):
        parts = [(ranks, self.comm.subset(ranks)) for ranks in self.members()]
        color = self.comm.split(self.rank % 3, -self.rank)
        parts.append(([rank for rank in reversed(range(self.size)) if rank % 3 == self.rank % 3], color))
        mine = [(ranks, part) for ranks, part in parts if part is not None]
        for elements in BLOCK_ELEMENTS:
            requests, checks = [], []
            # Ranks that belong to two parts may start the parts in different orders.
            for ranks, part in mine if self.rank % 2 else mine[::-1]:
                self.same(part.rank, ranks.index(self.rank))
                total = numpy.zeros(elements)
                requests.append(part.start.allreduce(numpy.full(elements, float(self.rank + 1)), total))
                checks.append((total, numpy.full(elements, float(sum(rank + 1 for rank in ranks)))))
                everything = numpy.zeros((len(ranks), elements), numpy.int32)
                requests.append(part.start.allgather(numpy.full(elements, self.rank, numpy.int32), everything))
                checks.append((everything, numpy.repeat(numpy.array(ranks, numpy.int32)[:, None], elements, axis=1)))
            wait_all(requests, LIMIT_S)
            for found, expected in checks:
                self.same(found, expected)
        for _, part in mine:
            part.close()

    def messages(self):
        to, source = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        for number, count in enumerate(MESSAGE_BYTES):
            received = numpy.zeros(count, numpy.uint8)
            requests = [self.comm.start.recv(received, source, number),
                        self.comm.start.send(numpy.full(count, self.rank, numpy.uint8), to, number)]
            wait_all(requests, LIMIT_S)
            self.same(received, numpy.full(count, source, numpy.uint8))
        # Rank 0 receives one message of each rank, from any source, and compares only the upper
        # half of the tag.
        tag = 7 << 32
        request = self.comm.start.send(numpy.array([self.rank]), 0, tag | self.rank)
        if self.rank == 0:
            buffers = [numpy.zeros(1, numpy.int64) for _ in range(self.size)]
            receives = [self.comm.start.recv(one, None, tag, tag_mask=0xFFFFFFFF << 32) for one in buffers]
            wait_all(receives, LIMIT_S)
            self.same(sorted(int(one[0]) for one in buffers), list(range(self.size)))
            for receive, buffer in zip(receives, buffers):
                self.same(receive.message.source, int(buffer[0]))
        request.wait(LIMIT_S)

    def uneven_blocks(self):
        for scale in (1, 777):
            counts = [(rank * scale) % (5 * scale) for rank in range(self.size)]
            blocks = [numpy.full(count, float(rank)) for rank, count in enumerate(counts)]
            whole = numpy.concatenate(blocks)
            everything = numpy.zeros(len(whole))
            self.comm.allgatherv(blocks[self.rank], everything, counts, timeout=LIMIT_S)
            self.same(everything, whole)
            root = self.size - 1
            gathered = numpy.zeros(len(whole)) if self.rank == root else None
            self.comm.gatherv(blocks[self.rank], gathered, counts, root=root, timeout=LIMIT_S)
            if gathered is not None:
                self.same(gathered, whole)
            part = numpy.zeros(counts[self.rank])
            self.comm.scatterv(whole if self.rank == root else None, part, counts, root=root, timeout=LIMIT_S)
            self.same(part, blocks[self.rank])
            combined = numpy.zeros(counts[self.rank])
            self.comm.reduce_scatterv(whole, combined, counts, timeout=LIMIT_S)
            self.same(combined, blocks[self.rank] * self.size)
            self.exchange(scale)

    def exchange(self, scale):
        def count(sender, receiver):
            return (2 * sender + 3 * receiver) % 5 * scale

        sent = [count(self.rank, other) for other in range(self.size)]
        expected = [count(other, self.rank) for other in range(self.size)]
        send = numpy.concatenate([numpy.full(one, 100.0 * self.rank + other) for other, one in enumerate(sent)])
        receive = numpy.zeros(sum(expected))
        self.comm.alltoallv(send, receive, sent, expected, timeout=LIMIT_S)
        self.same(receive, numpy.concatenate([numpy.full(one, 100.0 * other + self.rank) for other, one in enumerate(expected)]))

    def run(self):
        self.parts_at_once()
        self.messages()
        self.uneven_blocks()
        self.parts_at_once()
        counters = self.comm.counters()
        repaired = numpy.array([counters.get("chunks_fetched", 0) + counters.get("device_reliable_frames_resent", 0)])
        at_all_ranks = numpy.zeros_like(repaired)
        self.comm.allreduce(repaired, at_all_ranks, timeout=LIMIT_S)
        return {"checks": self.checks, "device": self.comm.device, "repaired": int(at_all_ranks[0])}


def resources():
    with open("/proc/self/status", encoding="utf-8") as file:
        resident_kib = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    return {"descriptors": len(os.listdir("/proc/self/fd")), "threads": len(os.listdir("/proc/self/task")),
            "resident_kib": resident_kib}


def splits(comm, number):
    before = None
    for count in range(number):
        part = comm.split(comm.rank % 2, comm.rank)
        total = numpy.zeros(3)
        part.allreduce(numpy.ones(3), total, timeout=LIMIT_S)
        if total[0] != part.size:
            raise AssertionError(f"split {count}: {total[0]} instead of {part.size}")
        part.close()
        if count == number // 10:
            before = resources()
    comm.barrier(timeout=LIMIT_S)
    time.sleep(1)  # time in which the threads of closed communicators end
    return {"before": before, "after": resources()}


def time_of_calls(comm):
    tensor = numpy.ones(256, numpy.float32)
    result = numpy.empty_like(tensor)
    prepared = comm.prepare.allreduce(tensor, result)
    times = []
    time.sleep(REST_S)
    comm.barrier(timeout=LIMIT_S)
    for _ in range(IDLE_CALLS):
        begun = time.perf_counter()
        prepared.start().wait(LIMIT_S)
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


def idle(comm, number):
    times = {"none": [], "idle": [], "none_again": []}
    for _ in range(IDLE_ROUNDS):
        times["none"].append(time_of_calls(comm))
        others = [comm.duplicate() for _ in range(number)]
        for one in others:
            one.barrier(timeout=LIMIT_S)
        times["idle"].append(time_of_calls(comm))
        for one in others:
            one.close()
        comm.barrier(timeout=LIMIT_S)
        times["none_again"].append(time_of_calls(comm))
    return {name: statistics.median(one) for name, one in times.items()}


def main():
    with Communicator() as comm:
        kind = sys.argv[1]
        result = Mix(comm).run() if kind == "mix" else {"splits": splits, "idle": idle}[kind](comm, int(sys.argv[2]))
        if comm.rank == 0:
            print("result " + json.dumps(result), flush=True)


main()
