#!/usr/bin/env python3
"""Collects one number of every rank at every rank. Run it on one host:

    tutti run -n 2 -- python3 examples/python/allgather_numpy.py
"""

import numpy
from tutti_collectives import Communicator

with Communicator() as comm:  # ranks from torchrun, mpirun, srun or tutti run
    mine = numpy.array([100 + comm.rank])
    everything = numpy.empty(comm.size, mine.dtype)
    comm.allgather(mine, everything, timeout=30)
    print(f"rank {comm.rank}: {' '.join(map(str, everything))}")
