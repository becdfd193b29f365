#!/usr/bin/env python3
"""Sums an array over all ranks while the event loop goes on with other work. Run it on one host:

    tutti run -n 2 -- python3 examples/python/overlap_asyncio.py
"""

import asyncio

import numpy
from tutti_collectives import Communicator


async def main(comm):
    gradients = numpy.full(1_000_000, comm.rank + 1, numpy.float32)
    total = comm.start.allreduce(gradients)  # returns at once; gradients belongs to the call

    greeting = bytearray(16)
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    received = comm.start.recv(greeting, source=left)
    await comm.start.send(f"rank {comm.rank}".encode(), to=right)
    await asyncio.gather(total, received)
    text = greeting[:received.message.nbytes].decode()
    print(f"rank {comm.rank}: sum {gradients[0]:g}, greeted by {text}")


with Communicator() as comm:
    asyncio.run(main(comm))
