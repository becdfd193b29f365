"""Groups that come and go, and stores that still hold the keys of an earlier attempt."""

import os
import subprocess
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import tutti_collectives.torch as tutti
from job import FOLDER, RANK, SIZE, await_ranks, begin, raises, run, same, tell

TIMES = 20
kept = []  # objects that live until the interpreter ends


def resources():
    """The numbers of descriptors and threads of this process."""
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def settled(limit):
    """The resources, once the threads that are about to end have ended, or after a while."""
    for _ in range(100):
        found = resources()
        if found[0] <= limit[0] and found[1] <= limit[1]:
            break
        time.sleep(0.05)
    return found


def groups_that_come_and_go_leave_nothing_behind():
    first = None
    for number in range(TIMES):
        begin(f"again{number}")
        tensor = torch.ones(1000)
        dist.all_reduce(tensor)
        part = dist.new_group(list(range(SIZE)))
        dist.all_reduce(tensor, group=part, async_op=True).get_future().wait()
        same(tensor, torch.full((1000,), float(SIZE * SIZE)))
        dist.destroy_process_group()
        if number == 2:
            first = settled(resources())
    last = settled(first)
    assert last[0] <= first[0] and last[1] <= first[1], (first, last)


def reduce_by(backend):
    options = dist.AllreduceOptions()
    tensor = torch.full((10,), float(RANK))
    backend.allreduce([tensor], options).wait()
    same(tensor, torch.full((10,), SIZE * (SIZE - 1) / 2))


def keys_of_an_earlier_attempt_do_no_harm():
    store = dist.PrefixStore("same", dist.FileStore(f"{FOLDER}/stale.store", SIZE))
    for attempt in range(3):
        if attempt == 1 and RANK == 0:
            time.sleep(0.3)  # the others meet the keys of the last attempt first
        backend = tutti.create_backend(store, RANK, SIZE, timedelta(seconds=30), key_prefix="0")
        reduce_by(backend)
        backend.shutdown()
    if RANK == 0:  # the greeting of a process that has died before it met the others
        store.set("tutti/1/hello/1", "0" * 32)
        store.set("tutti/1/roster", "0" * 32 * (SIZE + 1))
    tell("stale_keys")
    await_ranks("stale_keys", range(SIZE))
    if RANK == 1:
        time.sleep(0.3)  # rank 0 reads the stale greeting first
    backend = tutti.create_backend(store, RANK, SIZE, timedelta(seconds=30), key_prefix="1")
    reduce_by(backend)
    backend.shutdown()


def aborted_group_ends_and_a_new_one_works():
    begin("aborted")
    dist.barrier()
    tell("met")
    if RANK == 0:
        await_ranks("met", range(SIZE))  # an abort ends a barrier that is still in flight at another rank
        dist.distributed_c10d._abort_process_group()
    else:
        raises(dist.DistBackendError, ["rank 0"], dist.barrier)
        dist.destroy_process_group()
    begin("after")
    dist.barrier()
    dist.destroy_process_group()


def child_of_fork_cannot_use_the_group_and_ends_at_once():
    begin("fork")
    dist.barrier()
    child = os.fork()
    if child == 0:
        try:
            dist.barrier()
        except ValueError as error:
            os._exit(0 if "after fork" in str(error) else 3)
        os._exit(4)
    assert os.waitpid(child, 0)[1] == 0
    child = os.fork()
    if child == 0:
        sys.exit(0)  # runs the destructors of the group
    begin_wait = time.monotonic()
    assert os.waitpid(child, 0)[1] == 0
    assert time.monotonic() - begin_wait < 20
    dist.barrier()
    dist.destroy_process_group()


def child_of_fork_ends_its_own_groups():
    begin("parent")
    child = os.fork()
    if child == 0:
        store = dist.FileStore(f"{FOLDER}/child{RANK}.store", 1)
        backend = tutti.create_backend(store, 0, 1, timedelta(seconds=60), key_prefix="child")
        future = backend.recv([torch.zeros(1)], 0, 0).get_future().then(lambda _: tell("ended_in_child"))
        assert not future.done()
        kept.append((backend, future))
        sys.exit(0)  # ends the receive, before the interpreter ends
    assert os.waitpid(child, 0)[1] == 0
    assert os.path.exists(f"{FOLDER}/ended_in_child.{RANK}")
    dist.destroy_process_group()


def options_reach_the_library():
    raises(TypeError, ["Options"], begin, "wrong", pg_options={"device": "host"})
    if dist.is_initialized():
        dist.destroy_process_group()
    begin("options", pg_options=tutti.Options(device="host", multicast="none", peer_timeout=timedelta(seconds=2)))
    tensor = torch.ones(100000)
    dist.all_reduce(tensor)
    found = tutti.counters()
    assert found["device_multicast_datagrams_sent"] == 0
    dist.destroy_process_group()
    for retained, given in ((1, {}), (0, {"retain_bytes": 0}), (0, {"retain_bytes": 0, "authenticate": False})):
        begin(f"given_{len(given)}", pg_options=tutti.Options(device="ip", **given))
        dist.broadcast(torch.ones(16384), 0)
        assert tutti.counters()["blocks_retained"] == (retained if RANK == 0 else 0), tutti.counters()
        dist.destroy_process_group()
    for name, option, word in (("devices", {"device": ("ip", "host")[RANK % 2]}, "disagree on the device"),
                               ("tags", {"device": "ip", "authenticate": RANK % 2 == 0}, "disagree on authenticate")):
        begin(name, pg_options=tutti.Options(**option))
        raises(dist.DistBackendError, [word], dist.barrier)
        dist.destroy_process_group()
    begin("refused", pg_options=tutti.Options(device="nothing"))
    raises(dist.DistBackendError, ["nothing"], dist.barrier)
    dist.destroy_process_group()


def registration_loads_nothing():
    script = ("import sys, tutti_collectives.torch as t; t.register(); t.register(); import torch;"
              "assert 'tutti' in torch.distributed.Backend.backend_list;"
              "assert 'libtutti' not in open('/proc/self/maps').read()")
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120,
                   env={**os.environ, "TUTTI_LIBRARY": "/nowhere"})


CASES = [registration_loads_nothing, groups_that_come_and_go_leave_nothing_behind, keys_of_an_earlier_attempt_do_no_harm,
         aborted_group_ends_and_a_new_one_works, child_of_fork_cannot_use_the_group_and_ends_at_once,
         child_of_fork_ends_its_own_groups, options_reach_the_library]

if __name__ == "__main__":
    run(CASES if RANK == 0 else CASES[1:])
