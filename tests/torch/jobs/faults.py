"""Ranks that die, are late or never come. JOB_CASES names the cases of one job."""

import atexit
import ctypes
import gc
import os
import re
import signal
import threading
import time
import weakref
from datetime import timedelta

import torch
import torch.distributed as dist
from job import RANK, SIZE, await_ranks, begin, raises, run, tell

LAST = SIZE - 1
OTHERS = range(LAST)
SHORT = timedelta(seconds=2)
LONG_S = 60  # limit of a call that must end long before it
kept = []  # objects that live until the interpreter ends


def meet(name):
    """A barrier that has ended at all ranks, because a failure would end it where it is in flight."""
    dist.barrier()
    tell(name)
    await_ranks(name, range(SIZE))


def begin_together(name):
    """Begins a group whose limit becomes SHORT only once all ranks use it, however long they took to start."""
    begin(name, timeout_s=LONG_S)
    meet(name)
    dist.group.WORLD.set_timeout(SHORT)


def before_the_limit(began):
    taken = time.monotonic() - began
    assert taken < LONG_S, taken


def killed_rank_is_named():
    begin("killed_rank_is_named", timeout_s=2 * LONG_S)
    dist.all_reduce(torch.ones(10))
    if RANK == LAST:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    raises(dist.DistBackendError, [f"rank {LAST}"], lambda: [dist.all_reduce(torch.ones(10)) for _ in range(1000)])
    before_the_limit(began)
    raises(dist.DistBackendError, [], dist.barrier)
    future_of_a_failed_group()


def future_of_a_failed_group():
    try:
        dist.all_reduce(torch.ones(10), async_op=True).get_future().wait()
    except (RuntimeError, dist.DistBackendError):
        return
    raise AssertionError("a future of a failed group succeeded")


def killed_rank_fails_futures():
    begin("killed_rank_fails_futures", timeout_s=2 * LONG_S)
    dist.all_reduce(torch.ones(10))
    if RANK == LAST:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    work = dist.all_reduce(torch.ones(10), async_op=True)
    raises(RuntimeError, [f"rank {LAST}"], work.get_future().wait)
    assert not work.is_success() and work.is_completed()
    before_the_limit(began)


class SlowCallback:
    """A callback of a future, which gives up the interpreter's lock and takes it again until Python has begun to end."""

    def __init__(self):
        self.thread = None
        self.began = threading.Event()
        self.ending = threading.Event()
        atexit.register(self.ending.set)

    def __call__(self, future):
        self.thread = threading.current_thread()
        self.began.set()
        while not self.ending.is_set():
            time.sleep(0.001)
        for _ in range(200):
            time.sleep(0.001)


def end_while_a_callback_runs():
    begin("end_while_a_callback_runs")
    dist.barrier()
    callback = SlowCallback()
    if RANK == LAST:
        await_ranks("callback", OTHERS)  # the callbacks of the others are there before their operation ends
    work = dist.all_reduce(torch.ones(10), async_op=True)
    future = work.get_future()
    if RANK != LAST:
        future = future.then(callback)
        tell("callback")
        assert callback.began.wait(LONG_S)
        assert callback.thread is not threading.main_thread() and not future.done()
    kept.append((work, future))
    work.wait()


def end_while_the_group_meets():
    begin("end_while_the_group_meets", timeout_s=20)
    if RANK == LAST:
        await_ranks("gone", OTHERS)  # it does not come to the meeting before the others have left it
        return
    callback = SlowCallback()
    work = dist.all_reduce(torch.ones(10), async_op=True)
    future = work.get_future().then(callback)
    kept.append((work, future))
    assert not future.done() and callback.thread is None
    atexit.register(tell, "gone")


def set_stack_of_threads(size):
    """Sets the default stack size of threads, and returns the earlier one. No thread starts with one of 2**47 bytes."""
    libc = ctypes.CDLL(None)
    attributes, before = ctypes.create_string_buffer(256), ctypes.c_size_t()
    assert libc.pthread_getattr_default_np(attributes) == 0
    assert libc.pthread_attr_getstacksize(attributes, ctypes.byref(before)) == 0
    assert libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(size)) == 0
    assert libc.pthread_setattr_default_np(attributes) == 0
    return before.value


def drop_a_work():
    """Starts a call and drops its Work and its tensor; returns a weak reference to the tensor."""
    tensor = torch.ones(10)
    dist.all_reduce(tensor, async_op=True)
    return weakref.ref(tensor)


def dropped_work_without_a_thread_keeps_its_tensor():
    begin("dropped_work_without_a_thread")
    dist.barrier()
    if RANK == 0:
        size = set_stack_of_threads(2**47)
        raises(RuntimeError, ["can't start new thread"], threading.Thread(target=print).start)
        alive = drop_a_work()
        set_stack_of_threads(size)
        gc.collect()
        assert alive() is not None
        tell("dropped")
    else:
        await_ranks("dropped", [0])
        dist.all_reduce(torch.ones(10))
    dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()  # adds a thread, which ends both calls
    while RANK == 0 and alive() is not None:
        time.sleep(0.01)
    dist.destroy_process_group()


def dropped_work_without_callbacks_ends_the_group():
    """Runs with the functions of failing_calls.cpp."""
    begin("dropped_work_without_callbacks")
    dist.barrier()
    if RANK == 0:
        assert drop_a_work()() is None
        raises(dist.DistBackendError, ["all_reduce number 2", "was freed before its end"], dist.barrier)
        tell("dropped")
    else:
        await_ranks("dropped", [0])
        raises(dist.DistBackendError, ["rank 0"], dist.all_reduce, torch.ones(10))


def start_that_fails_in_part_ends_the_group():
    """Runs with the functions of failing_calls.cpp."""
    begin("start_that_fails_in_part", timeout_s=LONG_S)
    dist.barrier()
    tensors = [torch.ones(10), torch.ones(10)]
    if RANK == 0:
        raises(Exception, ["bad_alloc"], dist.all_reduce_coalesced, tensors)
        raises(Exception, ["bad_alloc"], dist.barrier)
        tell("failed")
    else:
        await_ranks("failed", [0])
        raises(dist.DistBackendError, ["rank 0"], lambda: [dist.all_reduce(one) for one in tensors])


def late_rank_times_out():
    begin_together("late_rank_times_out")
    if RANK == LAST:
        await_ranks("timed_out", OTHERS)
        # The others have given up, and have told this rank so.
        raises(dist.DistBackendError, ["rank 0" if SIZE == 2 else "rank"], dist.barrier)
    else:
        began = time.monotonic()
        text = raises(dist.DistBackendError, ["barrier number 2"], dist.barrier)
        # The rank that times out first tells the others, which may have waited a moment less.
        assert ("Timed out" in text and (f"rank {LAST}" in text or "aborted" in text)) or "gave up" in text, text
        before_the_limit(began)
        text = raises(dist.DistBackendError, [], dist.barrier)
        assert "aborted" in text or "gave up" in text, text
        tell("timed_out")
    dist.destroy_process_group()
    begin("next")
    dist.barrier()
    dist.destroy_process_group()


def late_rank_fails_a_future():
    begin_together("late_rank_fails_a_future")
    if RANK == LAST:
        await_ranks("future_failed", OTHERS)
    else:
        # The rank that times out first tells the others.
        text = raises(RuntimeError, [], dist.all_reduce(torch.ones(4), async_op=True).get_future().wait)
        assert "Timed out" in text or "gave up" in text, text
        tell("future_failed")
    dist.destroy_process_group()


def late_rank_fails_a_future_of_a_sparse_call():
    """A sparse call runs in steps in a thread of the adapter, so libtutti never hands it to the completion pool."""
    begin_together("late_rank_fails_a_future_of_a_sparse_call")
    if RANK == LAST:
        await_ranks("sparse_future_failed", OTHERS)
    else:
        sparse = torch.sparse_coo_tensor([[RANK]], [1.0], (SIZE,), check_invariants=True)
        text = raises(RuntimeError, [], dist.all_reduce(sparse, async_op=True).get_future().wait)
        # The rank that times out first tells the others.
        assert "Timed out" in text or "gave up" in text, text
        tell("sparse_future_failed")
    dist.destroy_process_group()


def wait_with_a_timeout_of_its_own():
    begin("wait_with_a_timeout_of_its_own", timeout_s=2 * LONG_S)
    meet("wait_with_a_timeout_of_its_own")
    if RANK == 0:
        began = time.monotonic()
        work = dist.irecv(torch.zeros(1), LAST)
        raises(dist.DistBackendError, ["Timed out waiting 500ms", f"recv number 1 from rank {LAST}"], work.wait,
               timedelta(seconds=0.5))
        before_the_limit(began)
    else:
        raises(dist.DistBackendError, ["rank 0"], dist.barrier)
    dist.destroy_process_group()


def absent_rank_is_named_by_the_creation():
    begin("absent_rank_is_named_by_the_creation", timeout_s=SHORT.total_seconds())
    if RANK == LAST:
        await_ranks("creation_failed", OTHERS)
    else:
        text = raises(dist.DistBackendError, ["Timed out"], dist.barrier)
        # Another rank may be late, too.
        assert RANK > 0 or re.search(rf"ranks? [^:]*\b{LAST} (has|have) not called", text), text
        tell("creation_failed")
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
        tell("barriers_failed")
    else:
        await_ranks("barriers_failed", [0])
    dist.barrier()  # the group is still usable
    dist.destroy_process_group()


if __name__ == "__main__":
    run([globals()[name] for name in os.environ["JOB_CASES"].split()])
