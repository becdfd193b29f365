#!/usr/bin/env python3
"""One rank of acceptance/transport/connections or of acceptance/transport/in_use. It uses numpy and the Python package.

  connections_job.py resources DUPLICATES | alltoall CALLS | defaults CALLS | time COLLECTIVE CALLS BYTES [ALGORITHM]

The command resources makes DUPLICATES duplicates of the job's communicator, runs an Allgather and an Alltoall in each and
reports the largest counts of any rank. alltoall runs CALLS Alltoalls, checks their results, and reports the connections.
defaults runs every collective and messages CALLS times in the job's communicator and in a duplicate, and reports all counters
of the device and of messages. time makes CALLS calls of barrier or alltoall, with blocks of BYTES, one after the other, and
reports the time of a call in us at the slowest rank. Rank 0 prints "result {JSON}".
"""

import json
import os
import sys
import time

import numpy
from tutti_collectives import CallOptions, Communicator, Operation, wait_all

LIMIT_S = 120
ELEMENTS = 300


def held(communicators):
    """Sockets, descriptors, threads, KiB and connections of this rank."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass  # the descriptor of the listing itself
    with open("/proc/self/status", encoding="utf-8") as file:
        resident_kib = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    return {"sockets": sum(link.startswith("socket:") for link in links), "descriptors": len(links),
            "threads": len(os.listdir("/proc/self/task")), "resident_kib": resident_kib,
            **connections(communicators)}


def connections(communicators):
    """The open connections, where the library counts them."""
    counts = [one.counters().get("device_connections_open") for one in communicators]
    return {} if None in counts else {"connections": sum(counts)}


def most(comm, counts):
    """The largest of each count over the ranks."""
    mine = numpy.array(list(counts.values()), dtype=numpy.float64)
    largest = numpy.zeros_like(mine)
    comm.allreduce(mine, largest, op=Operation.MAX, timeout=LIMIT_S)
    return dict(zip(counts, map(int, largest)))


def exchange(comm, scale=1):
    sent = numpy.repeat(numpy.arange(comm.size) * 1000 + comm.rank, ELEMENTS).astype(numpy.int32) * scale
    received = numpy.zeros_like(sent)
    comm.alltoall(sent, received, timeout=LIMIT_S)
    expected = numpy.repeat(comm.rank * 1000 + numpy.arange(comm.size), ELEMENTS).astype(numpy.int32) * scale
    if not numpy.array_equal(received, expected):
        raise AssertionError(f"rank {comm.rank}: wrong Alltoall")


def resources(comm, duplicates):
    communicators = [comm] + [comm.duplicate() for _ in range(duplicates)]
    for one in communicators:
        everything = numpy.zeros(one.size * ELEMENTS, numpy.int32)
        one.allgather(numpy.full(ELEMENTS, one.rank, numpy.int32), everything, timeout=LIMIT_S)
        exchange(one)
    comm.barrier(timeout=LIMIT_S)
    result = most(comm, held(communicators))
    for one in communicators[1:]:
        one.close()
    return result


def alltoall(comm, calls):
    for call in range(calls):
        exchange(comm, call + 1)
    counters = comm.counters()
    names = ("high_water", "made", "closed")
    counts = {name: counters[f"device_connections_{name}"] for name in names}
    counts["resent"] = counters["device_reliable_frames_resent"]
    return most(comm, counts)


def run_all(comm):
    """Every collective, and a message to the right neighbour."""
    block, all_blocks = numpy.full(ELEMENTS, comm.rank, numpy.int32), numpy.zeros(ELEMENTS * comm.size, numpy.int32)
    comm.barrier(timeout=LIMIT_S)
    comm.broadcast(block.copy(), root=0, timeout=LIMIT_S)
    comm.allgather(block, all_blocks, timeout=LIMIT_S)
    comm.gather(block, all_blocks if comm.rank == 0 else None, root=0, timeout=LIMIT_S)
    comm.scatter(all_blocks if comm.rank == 0 else None, block.copy(), root=0, timeout=LIMIT_S)
    exchange(comm)
    comm.reduce(block, block.copy() if comm.rank == 0 else None, root=0, timeout=LIMIT_S)
    comm.reduce_scatter(all_blocks, block.copy(), timeout=LIMIT_S)
    comm.allreduce(block, block.copy(), timeout=LIMIT_S)
    for elements in (1, ELEMENTS * 100):
        received = numpy.zeros(elements, numpy.int32)
        wait_all([comm.start.recv(received, (comm.rank - 1) % comm.size, 1),
                  comm.start.send(numpy.full(elements, comm.rank, numpy.int32), (comm.rank + 1) % comm.size, 1)], LIMIT_S)


def defaults(comm, calls):
    with comm.duplicate() as other:
        for _ in range(calls):
            run_all(comm)
            run_all(other)
        names = [name for name in comm.counters() if name.startswith(("device_", "tagged_", "messages_"))]
        return most(comm, {name: comm.counters()[name] + other.counters()[name] for name in names})


def time_of(comm, collective, calls, size_bytes=0, algorithm=None):
    sent = numpy.full(comm.size * size_bytes, comm.rank, numpy.uint8)
    received = numpy.zeros_like(sent)
    buffers = (sent, received) if collective == "alltoall" else ()
    options = CallOptions(algorithm=algorithm) if algorithm else None
    call = getattr(comm, collective)
    for _ in range(calls // 10):
        call(*buffers, timeout=LIMIT_S, options=options)
    comm.barrier(timeout=LIMIT_S)
    begun = time.monotonic()
    for _ in range(calls):
        call(*buffers, timeout=LIMIT_S, options=options)
    call_ns = (time.monotonic() - begun) / calls * 1e9
    if not numpy.array_equal(received, numpy.repeat(numpy.arange(comm.size), size_bytes)) and buffers:
        raise AssertionError(f"rank {comm.rank}: wrong Alltoall")
    result = most(comm, {"call_ns": call_ns, "atomics": comm.counters().get("device_atomics_served", 0)})
    return {"call_us": result["call_ns"] / 1e3, "atomics": result["atomics"]}


def main():
    modes = {"resources": resources, "alltoall": alltoall, "defaults": defaults, "time": time_of}
    with Communicator() as comm:
        result = modes[sys.argv[1]](comm, *[int(word) if word.isdigit() else word for word in sys.argv[2:]])
        if comm.rank == 0:
            print("result " + json.dumps(result), flush=True)


main()
