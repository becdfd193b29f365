"""The part of a job that all jobs share: a group of backend tutti that meets in a file."""

import os
import pathlib
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
import tutti_collectives.torch as tutti

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])
FOLDER = os.environ["JOB_FOLDER"]
tutti.register()


def begin(name="store", timeout_s=60, **options):
    dist.init_process_group("tutti", store=dist.FileStore(f"{FOLDER}/{name}.store", SIZE), rank=RANK, world_size=SIZE,
                            timeout=timedelta(seconds=timeout_s), **options)


def tell(name):
    """Tells the other ranks that this rank has reached the point `name`."""
    pathlib.Path(f"{FOLDER}/{name}.{RANK}").touch()


def await_ranks(name, ranks):
    """Waits until these ranks have reached the point `name`; the time limit of the job ends a wait without end."""
    while not all(pathlib.Path(f"{FOLDER}/{name}.{rank}").exists() for rank in ranks):
        time.sleep(0.01)


def run(cases):
    """Runs functions in turn, and ends with an error if one fails."""
    for case in cases:
        try:
            case()
        except SystemExit:
            raise  # in a child of fork()
        except BaseException:
            print(f"case {case.__name__} failed", flush=True)
            traceback.print_exc()
            os._exit(1)  # the other ranks then see the loss of this one


def raises(kind, words, function, *arguments, **options):
    """Asserts that a call fails with an error that contains all words; returns its text."""
    try:
        function(*arguments, **options)
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in: {error}"
        return str(error)
    raise AssertionError(f"no error; expected one with {words}")


def same(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape, (found.dtype, found.shape)
    left, right = found.contiguous(), expected.contiguous()
    if left.dtype.is_floating_point and left.element_size() == 1:
        left, right = left.view(torch.uint8), right.view(torch.uint8)
    assert torch.equal(left, right), (left, right)
