"""PyTorch for the acceptance programs: an interpreter that has it, and ranks that run a script."""

import functools
import json
import os
import re
import socket
import subprocess
import sys

import common

WHERE = "build/torch/bin/python3"
# An installed wheel registers the backend by its entry points. The package in the tree has none, so
# this code registers it.
REGISTERED = ("import runpy, sys, tutti_collectives.torch; tutti_collectives.torch.register(); sys.argv.pop(0); "
              "runpy.run_path(sys.argv[0], run_name='__main__')")


@functools.cache
def python():
    """The interpreter that TUTTI_TORCH_PYTHON names, else that of `tools/setup.sh --torch`; it must import torch."""
    path = os.environ.get("TUTTI_TORCH_PYTHON") or os.path.join(common.ROOT, WHERE)
    done = subprocess.run([path, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                          check=False) if os.path.exists(path) else None
    if done is None or done.returncode != 0:
        sys.exit(f"{path} cannot import torch: run tools/setup.sh --torch, or name an interpreter in TUTTI_TORCH_PYTHON")
    return path


def environment(**variables):
    """The environment of a rank that uses this tree's package and built library (target
    tutti_shared) without installation."""
    package = os.path.join(common.ROOT, "bindings", "python")
    paths = [package, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), "OMP_NUM_THREADS": "1",
            "TUTTI_LIBRARY": os.path.join(common.BUILD, "bindings", "c", "libtutti.so"), "PYTHONWARNINGS": "ignore",
            **variables}


def older(build):
    """The environment in which a rank uses the package and the library of an older build of Tutti."""
    return {"TUTTI_LIBRARY": os.path.join(build, "bindings", "c", "libtutti.so"),
            "PYTHONPATH": os.path.join(os.path.dirname(os.path.dirname(build)), "bindings", "python")}


def result_of(launcher, script, *arguments, program=common.TUTTI, timeout=900, **variables):
    """The JSON after the word "result" that rank 0 of a job of acceptance/lib/SCRIPT prints, or None if the job fails. `launcher`
    is the subcommand of `program` that starts the ranks."""
    command = [program, *launcher, "--", python(), os.path.join(common.ROOT, "acceptance", "lib", script), *map(str, arguments)]
    status, output, errors = common.output_of(command, env=environment(**variables), timeout=timeout)
    found = re.search(r"result (\{.*\})", output)
    if status != 0 or not found:
        print(output[-3000:] + errors[-3000:], flush=True)
        return None
    return json.loads(found.group(1))


def run_test_job(name, hosts, *options, timeout=200, **variables):
    """Runs tests/torch/jobs/NAME on the hosts of a lab with options; returns (exit status, output, errors)."""
    tests = os.path.join(common.ROOT, "tests", "torch")
    shared = environment(**variables)
    shared["PYTHONPATH"] += os.pathsep + tests
    return common.output_of([common.TUTTI, "lab", "run", "--hosts", str(hosts), *options, "--", python(),
                             os.path.join(tests, "jobs", name)], env=shared, timeout=timeout)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(script, ranks, *arguments, timeout=600, **variables):
    """Runs a script on ranks of this host in the way of torchrun; returns rank 0's output. Ends the program on an error."""
    shared = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(ranks), **variables)
    command = [python(), "-c", REGISTERED, os.path.join(common.ROOT, script), *arguments]
    print(f"+ {ranks} x {script} {' '.join(arguments)}", flush=True)
    started = [subprocess.Popen(command, env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}, text=True,
                                stdout=subprocess.PIPE if rank == 0 else None) for rank in range(ranks)]
    try:
        output, _ = started[0].communicate(timeout=timeout)
        statuses = [one.wait(timeout) for one in started]
    finally:
        for one in started:
            one.kill()
    if any(statuses):
        sys.exit(f"{script} failed: the ranks' exit statuses are {statuses}")
    return output
