"""Ranks that die, are late or never come. JOB_CASES names the cases of one job."""

import atexit
import os
import pathlib
import re
import signal
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from job import FOLDER, RANK, SIZE, begin, raises, run

LAST = SIZE - 1
kept = []  # objects that live until the interpreter ends


def within(seconds, began):
    taken = time.monotonic() - began
    assert taken < seconds, taken


def killed_rank_is_named():
    begin("killed_rank_is_named")
    dist.all_reduce(torch.ones(10))
    if RANK == LAST:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    raises(dist.DistBackendError, [f"rank {LAST}"], lambda: [dist.all_reduce(torch.ones(10)) for _ in range(1000)])
    within(5, began)
    raises(dist.DistBackendError, [], dist.barrier)
    future_of_a_failed_group()


def future_of_a_failed_group():
    try:
        dist.all_reduce(torch.ones(10), async_op=True).get_future().wait()
    except (RuntimeError, dist.DistBackendError):
        return
    raise AssertionError("a future of a failed group succeeded")


def killed_rank_fails_futures():
    begin("killed_rank_fails_futures")
    dist.all_reduce(torch.ones(10))
    if RANK == LAST:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    work = dist.all_reduce(torch.ones(10), async_op=True)
    raises(RuntimeError, [f"rank {LAST}"], work.get_future().wait)
    assert not work.is_success() and work.is_completed()
    within(5, began)


class SlowCallback:
    """A callback of a future, which gives up the interpreter's lock and takes it again many times."""

    def __init__(self):
        self.thread = None
        self.began = threading.Event()

    def __call__(self, future):
        self.thread = threading.current_thread()
        self.began.set()
        for _ in range(200):
            time.sleep(0.001)


def end_while_a_callback_runs():
    begin("end_while_a_callback_runs")
    dist.barrier()
    if RANK == LAST:
        time.sleep(0.2)  # so that the callbacks of the others are there before their operation ends
    callback = SlowCallback()
    work = dist.all_reduce(torch.ones(10), async_op=True)
    future = work.get_future().then(callback)
    kept.append((work, future))
    assert callback.began.wait(30)
    assert RANK == LAST or (callback.thread is not threading.main_thread() and not future.done())


def end_while_the_group_meets():
    begin("end_while_the_group_meets", timeout_s=20)
    gone = pathlib.Path(FOLDER) / "gone"
    if RANK == LAST:  # it does not come to the meeting before the others have left it
        while not gone.exists():
            time.sleep(0.01)
        return
    callback = SlowCallback()
    work = dist.all_reduce(torch.ones(10), async_op=True)
    future = work.get_future().then(callback)
    kept.append((work, future))
    assert not future.done() and callback.thread is None
    atexit.register(gone.touch)


def late_rank_times_out():
    begin("late_rank_times_out", timeout_s=2)
    dist.barrier()
    if RANK == LAST:
        time.sleep(4)
        # The others have given up, and have told this rank so.
        raises(dist.DistBackendError, ["rank 0" if SIZE == 2 else "rank"], dist.barrier)
    else:
        began = time.monotonic()
        text = raises(dist.DistBackendError, ["barrier number 2"], dist.barrier)
        # The rank that times out first tells the others, which may have waited a moment less.
        assert ("Timed out" in text and (f"rank {LAST}" in text or "aborted" in text)) or "gave up" in text, text
        within(8, began)
        raises(dist.DistBackendError, ["aborted"], dist.barrier)
    dist.destroy_process_group()
    begin("next")
    dist.barrier()
    dist.destroy_process_group()


def late_rank_fails_a_future():
    begin("late_rank_fails_a_future", timeout_s=2)
    dist.barrier()
    if RANK == LAST:
        time.sleep(4)
    else:
        # The rank that times out first tells the others.
        text = raises(RuntimeError, [], dist.all_reduce(torch.ones(4), async_op=True).get_future().wait)
        assert "Timed out" in text or "gave up" in text, text
    dist.destroy_process_group()


def wait_with_a_timeout_of_its_own():
    begin("wait_with_a_timeout_of_its_own")
    dist.barrier()
    if RANK == 0:
        began = time.monotonic()
        work = dist.irecv(torch.zeros(1), LAST)
        raises(dist.DistBackendError, ["Timed out waiting 500ms", f"recv number 1 from rank {LAST}"], work.wait,
               timedelta(seconds=0.5))
        within(5, began)
    else:
        raises(dist.DistBackendError, ["rank 0"], dist.barrier)
    dist.destroy_process_group()


def absent_rank_is_named_by_the_creation():
    begin("absent_rank_is_named_by_the_creation", timeout_s=2)
    if RANK == LAST:
        time.sleep(4)
    else:
        text = raises(dist.DistBackendError, ["Timed out"], dist.barrier)
        # Another rank may be late, too.
        assert RANK > 0 or re.search(rf"ranks? [^:]*\b{LAST} (has|have) not called", text), text
    dist.destroy_process_group()


def monitored_barrier_names_absent_ranks():
    begin("monitored_barrier_names_absent_ranks")
    dist.barrier()
    group = dist.group.WORLD
    if RANK == 0:
        words = "Ranks " + ", ".join(str(rank) for rank in range(1, SIZE)) if SIZE > 2 else "Rank 1"
        raises(RuntimeError, [words + " failed to pass monitoredBarrier in 500 ms"], group.monitored_barrier,
               timedelta(seconds=0.5), True)
        raises(RuntimeError, ["Rank 1 failed to pass monitoredBarrier"], group.monitored_barrier,
               timedelta(seconds=0.5), False)
    else:
        time.sleep(2)
    dist.barrier()  # the group is still usable
    dist.destroy_process_group()


if __name__ == "__main__":
    run([globals()[name] for name in os.environ["JOB_CASES"].split()])
