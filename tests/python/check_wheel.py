#!/usr/bin/env python3
"""check_wheel.py [--tree DIR] [--keep DIR] [--torch VERSION ...]: builds the wheel from a clean clone and runs it from a
fresh virtual environment.

The steps, each of which must succeed: clone HEAD of the tree; `tools/wheel.py --torch ...`, which calls `pip wheel` and
`auditwheel repair`; the wheel's tag and files; `mypy --strict` on the installed package; the numpy example on two ranks,
without TUTTI_LIBRARY. The build takes ten minutes on two cores; CMAKE_BUILD_PARALLEL_LEVEL limits its jobs.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import venv
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "process"))
from job import Rank, free_port  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUST_HAVE = ["__init__.py", "py.typed", "_library.py", "libtutti.so", "torch/__init__.py", "torch/adapter/backend.cpp",
             "torch/adapter/include/tutti/tutti.h", "torch/adapter/include/tutti/c/communicator.h"]
ENTRY_POINTS = ["[torch.backends]", "[torch.distributed.backends]", "tutti = tutti_collectives.torch:register"]


def run(*command, **options):
    """Runs a command and returns its output; the check ends if it fails."""
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}")
    return done.stdout


def require(condition, text):
    print(("holds  " if condition else "FAILS  ") + text, flush=True)
    if not condition:
        sys.exit(1)


def environment_in(folder, *packages):
    """A new virtual environment with packages; its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", *packages)
    return python


def check_files(wheel, versions):
    require(re.fullmatch(r"tutti_collectives-[\d.]+-py3-none-manylinux[\w.]*_(x86_64|aarch64)\.whl", wheel.name) is not None,
            f"one wheel for every version of Python: {wheel.name}, {wheel.stat().st_size} bytes")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entries = archive.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
    wanted = MUST_HAVE + ["torch/tutti_c10d_{}_{}.so".format(*version.split(".")) for version in versions]
    missing = [name for name in wanted if f"tutti_collectives/{name}" not in names]
    require(not missing, f"it has {', '.join(wanted)}; missing: {missing}")
    others = [name for name in names if not re.match(r"tutti_collectives(-[\d.]+\.dist-info|\.libs)?/", name)]
    require(not others, f"it has files of the package only; others: {others}")
    require(all(line in entries for line in ENTRY_POINTS), "it declares the entry points of PyTorch")


def check_run(python, example):
    """Runs the example on two ranks with the installed package."""
    port = free_port()
    ranks = [Rank([str(python), str(example)], rank, 2, port, {"TUTTI_LIBRARY": "", "PYTHONPATH": ""})
             for rank in range(2)]
    try:
        for number, rank in enumerate(ranks):
            text = rank.end()
            require(rank.process.returncode == 0 and f"rank {number}: 100 101" in text.splitlines(),
                    f"{example.name} on rank {number}: {text.splitlines()[-1] if text else ''}")
    finally:
        for rank in ranks:
            rank.remove()


def check(tree, place, versions):
    clone = place / "clone"
    run("git", "clone", "-q", tree, clone)
    run(sys.executable, clone / "tools" / "wheel.py", "--out", place / "wheels", "--torch", *versions)
    wheel, = (place / "wheels").glob("*.whl")
    check_files(wheel, versions)

    python = environment_in(place / "fresh", "numpy", "mypy", wheel)
    bare = {name: value for name, value in os.environ.items() if name not in ("TUTTI_LIBRARY", "PYTHONPATH")}
    path = run(python, "-c", "import tutti_collectives as t; print(t.library_path())", env=bare, cwd=place).strip()
    require(path.startswith(str(place / "fresh")), f"the library is the one of the package: {os.path.basename(path)}")
    found = run(python, "-m", "mypy", "--strict", "-p", "tutti_collectives", "--exclude", "/torch/", env=bare, cwd=place)
    require("Success" in found, f"mypy --strict: {found.strip()}")
    check_run(python, clone / "examples" / "python" / "allgather_numpy.py")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT, help="the repository to clone (default: this one)")
    parser.add_argument("--torch", nargs="*", default=[], metavar="VERSION", help="the wheel must have adapters for these")
    parser.add_argument("--keep", type=pathlib.Path, help="work in this folder and keep it")
    arguments = parser.parse_args()
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        return check(arguments.tree, arguments.keep.resolve(), arguments.torch)
    with tempfile.TemporaryDirectory() as folder:
        return check(arguments.tree, pathlib.Path(folder).resolve(), arguments.torch)


if __name__ == "__main__":
    main()
