#!/usr/bin/env python3
"""One rank of the backend-independent tests of the torch package, and of some calls that these do not test.

  torch_own_cases.py --backend NAME --folder FOLDER --first NUMBER

The rank runs the cases from NUMBER on, each in a process group of its own, and appends a line of
JSON to FOLDER/RANK.jsonl before and after each. If FOLDER/cases is not empty, only the cases that
it lists run. acceptance/torch/own_tests starts this program.
"""

import argparse
import contextlib
import json
import os
import pathlib
import traceback
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.testing._internal import common_distributed

CONTROL_TIMEOUT = timedelta(seconds=600)
CALL_TIMEOUT = timedelta(seconds=30)


def tests_of_torch(backend):
    """The module and class of torch's tests. The backend joins the lists of features first, because
    the module reads them when it is imported."""
    features = common_distributed.DistTestCases.backend_feature
    for feature in ("ddp", "subgroup", "plugin"):
        features[feature].add(backend)
    from torch.testing._internal.distributed import distributed_test

    class Cases(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        pass

    return distributed_test, Cases


def reduction(op, dtype):
    def call():
        expected = 3 if op == dist.ReduceOp.SUM else 1
        tensor = torch.full((10,), dist.get_rank() + 1).to(dtype)
        dist.all_reduce(tensor, op=op)
        assert tensor.tolist() == [expected] * 10, tensor
    return call


def premultiplied_sum():
    tensor = torch.full((10,), dist.get_rank() + 1.0)
    dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(2.0))
    assert tensor.tolist() == [6.0] * 10, tensor


def allgather_of(dtype):
    def call():
        tensors = [torch.zeros(10).to(dtype) for _ in range(2)]
        dist.all_gather(tensors, torch.full((10,), dist.get_rank() + 1).to(dtype))
        assert [one.float().tolist() for one in tensors] == [[1.0] * 10, [2.0] * 10], tensors
    return call


def gather_of_complex():
    tensors = [torch.zeros(10, dtype=torch.complex64) for _ in range(2)] if dist.get_rank() == 0 else None
    dist.gather(torch.full((10,), 1j * dist.get_rank()), tensors)
    assert tensors is None or tensors[1].tolist() == [1j] * 10, tensors


def coalescing_by_device():
    tensors = [torch.ones(10), torch.full((5,), 2.0)]
    with dist._coalescing_manager(device=torch.device("cpu")):
        for one in tensors:
            dist.all_reduce(one)
    assert [one.tolist() for one in tensors] == [[2.0] * 10, [4.0] * 5], tensors


# Calls between two ranks that the tests of the torch package do not cover.
CALLS = {
    "call: PREMUL_SUM": premultiplied_sum,
    "call: AVG of int32": reduction(dist.ReduceOp.AVG, torch.int32),
    "call: SUM of int16": reduction(dist.ReduceOp.SUM, torch.int16),
    "call: Allgather of float8_e4m3fn": allgather_of(torch.float8_e4m3fn),
    "call: Allgather of float8_e5m2": allgather_of(torch.float8_e5m2),
    "call: Allgather of int16": allgather_of(torch.int16),
    "call: Gather of complex64": gather_of_complex,
    "call: coalescing by device": coalescing_by_device,
}


class Rank:
    def __init__(self, backend, folder):
        self.backend, self.folder = backend, folder
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.module, self.tests = tests_of_torch(backend)
        names = sorted(name for name in dir(self.tests) if name.startswith("test_"))
        self.cases = [*names, *(CALLS if self.size == 2 else {})]
        only = (folder / "cases").read_text(encoding="utf-8").split("\n")
        self.wanted = set(self.cases if only == [""] else only)
        self.control = dist.FileStore(str(folder / "control"), self.size)
        self.met = 0

    def meet(self):
        """Waits for the other ranks by a file store, without the backend under test."""
        self.met += 1
        self.control.add(f"met/{self.met}", 1)
        self.control.set(f"here/{self.met}/{self.rank}", "1")
        self.control.wait([f"here/{self.met}/{rank}" for rank in range(self.size)], CONTROL_TIMEOUT)

    def say(self, **line):
        with open(self.folder / f"{self.rank}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def clear_barrier(self):
        """Resets the counter of the barrier of torch's tests, which a failed case leaves at
        different values on the ranks."""
        self.meet()
        if self.rank == 0:
            self.module.Barrier.init()
        self.module.Barrier.barrier_id = 0
        self.meet()

    def run(self, number, name):
        store = str(self.folder / f"case{number}")
        test = None
        if name not in CALLS:
            test = self.tests(name)
            test.rank, test.file_name = self.rank, store
        timeout = timedelta(seconds=self.module.CUSTOM_PG_TIMEOUT.get(name, self.module.default_pg_timeout))
        dist.init_process_group(self.backend, init_method=f"file://{store}", rank=self.rank, world_size=self.size,
                                timeout=timeout if test else CALL_TIMEOUT)
        common_distributed.common_utils.set_rng_seed()
        if test:
            test._barrier()
            getattr(test, name)()
            test._barrier()
        else:
            CALLS[name]()

    def outcome(self, number, name):
        try:
            self.run(number, name)
        except (SystemExit, unittest.SkipTest) as skip:
            return {"outcome": "skipped", "text": why_skipped(skip)}
        except BaseException:
            return {"outcome": "failed", "text": traceback.format_exc()[-1500:]}
        return {"outcome": "passed", "text": ""}


def why_skipped(skip):
    if isinstance(skip, unittest.SkipTest):
        return str(skip)
    for one in common_distributed.TEST_SKIPS.values():
        if one.exit_code == skip.code:
            return one.message
    raise RuntimeError(f"a case called sys.exit({skip.code}), which is no skip")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--first", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rank = Rank(options.backend, options.folder)
    for number, name in enumerate(rank.cases):
        if number < options.first or name not in rank.wanted:
            continue
        rank.clear_barrier()
        rank.say(number=number, case=name, outcome="begun")
        rank.say(number=number, case=name, **rank.outcome(number, name))
        with contextlib.suppress(Exception):
            if dist.is_initialized():
                dist.destroy_process_group()
    rank.say(number=len(rank.cases), case="", outcome="ended")


main()
