"""Finds, builds and loads the adapter between torch's C++ interface of backends and libtutti."""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

VARIABLE = "TUTTI_TORCH_ADAPTER"
CACHE_VARIABLE = "TUTTI_TORCH_CACHE"
_HERE = Path(__file__).resolve().parent
# A build of the adapter that takes longer than this has hung.
_BUILD_TIMEOUT_S = 600
# Time for callbacks of futures that run when Python ends.
_CALLBACK_END_MS = 10_000
_FLAGS = ["-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,now,--no-as-needed"]
# The libraries to which an adapter is linked, by name only: the process loads all of them earlier.
NEEDED = ["libtutti.so.0", "libc10.so", "libtorch_cpu.so"]
# The versions that an adapter of the wheel serves: releases only, because the interface of a
# development version differs from that of its release.
_RELEASE = re.compile(r"\d+\.\d+\.\d+(\+(cpu|cu\d+))?")
# The text in registration.cpp that marks an adapter with the version of torch that it is made for.
_MADE_FOR = re.compile(rb"tutti adapter for torch (\d+\.\d+)\.")

_lock = threading.Lock()
_loaded: str | None = None


class AdapterError(ImportError):
    """No adapter for this torch; the text says why, and the fix."""


def torch_minor() -> str:
    """The version of torch that an adapter is built for, such as "2.13"."""
    import torch

    return ".".join(torch.__version__.split(".")[:2])


def source_folder() -> Path:
    """The folder with the adapter's sources: in the package, or in the tree of the project."""
    for folder in (_HERE / "adapter", _HERE.parents[2] / "torch"):
        if (folder / "registration.cpp").is_file():
            return folder
    raise AdapterError(f"the sources of the adapter are not in the package ({_HERE / 'adapter'}): "
                       "install the wheel of tutti-collectives again")


def include_folder(sources: Path) -> Path:
    """The folder with tutti/tutti.h."""
    for folder in (sources / "include", sources.parents[1] / "include"):
        if (folder / "tutti" / "tutti.h").is_file():
            return folder
    raise AdapterError("tutti/tutti.h is not in the package: install the wheel of tutti-collectives again")


def stem(minor: str) -> str:
    """The name of an adapter's file without its ending; tools/wheel.py writes such files into the wheel."""
    return f"tutti_c10d_{minor.replace('.', '_')}"


def _prebuilt() -> Path | None:
    import torch

    path = _HERE / f"{stem(torch_minor())}.so"
    return path if _RELEASE.fullmatch(torch.__version__) and path.is_file() else None


def _refuse_other_minor(path: Path) -> None:
    """Refuses an adapter for another minor version, which would end the process by SIGSEGV.

    Error: AdapterError.
    """
    found = _MADE_FOR.search(path.read_bytes())
    minor = found.group(1).decode() if found else "an unknown version"
    if minor != torch_minor():
        raise AdapterError(f"the adapter {path} is for torch {minor} and not for {torch_minor()}: unset {VARIABLE}, or "
                           "install the wheel again")


def _cache_folder() -> Path:
    """A folder that only this user can write. Error: AdapterError."""
    named = os.environ.get(CACHE_VARIABLE)
    base = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tutti"
    folder = base / "torch"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise AdapterError(f"the folder {folder} for builds cannot be made: {error}: "
                           f"set {CACHE_VARIABLE} to a folder that only you can write") from error
    state = folder.stat()
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise AdapterError(f"the folder {folder} can be written by other users: "
                           f"remove it, or set {CACHE_VARIABLE} to a folder that only you can write")
    return folder


def _fingerprint(sources: list[Path], header_folder: Path) -> str:
    """A hash of everything that determines the adapter's code."""
    import torch

    digest = hashlib.sha256(f"{torch.__version__} {torch._C._GLIBCXX_USE_CXX11_ABI} {_FLAGS} {NEEDED}".encode())
    for path in sorted([*sources, *(header_folder / "tutti").rglob("*.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(minor: str, command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AdapterError(f"the adapter for torch {minor} cannot be built: {error}: install g++ 12 or later, or set "
                           "CXX to a compiler for C++20") from error
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line][:5] or [done.stderr[-500:]]
        raise AdapterError(f"the adapter for torch {minor} cannot be built: {' | '.join(errors)}: install g++ 12 or "
                           "later, or set CXX to a compiler for C++20")


def build(target: Path, minor: str, compiler: str, includes: list[str]) -> None:
    """Compiles the adapter into `target`. `includes` are the folders of torch's headers.

    The build needs nothing else of torch. Error: AdapterError with the errors of the compiler.
    """
    sources = source_folder()
    units = sorted(sources.glob("*.cpp"))
    with tempfile.TemporaryDirectory(prefix="build_", dir=target.parent) as folder:
        unit = Path(folder) / "adapter.cpp"
        # One unit for all sources, because torch's headers take most of the time.
        unit.write_text("".join(f'#include "{path}"\n' for path in units))
        made = Path(folder) / target.name
        command = [compiler, *_FLAGS, "-I", str(sources), "-I", str(include_folder(sources))]
        command += [word for path in includes for word in ("-isystem", path)]
        command += [str(unit)]
        for name in NEEDED:  # empty libraries with these names suffice for the linker
            stub = Path(folder) / name
            _compile(minor, [compiler, "-shared", f"-Wl,-soname,{name}", "-o", str(stub), "-x", "c++", os.devnull])
            command.append(str(stub))
        _compile(minor, [*command, "-o", str(made)])
        os.replace(made, target)


def _built() -> Path:
    """The adapter from the cache; the first process of the user that needs it builds it, and others wait."""
    sources = source_folder()
    folder = _cache_folder()
    name = _fingerprint([*sources.glob("*.cpp"), *sources.glob("*.hpp")], include_folder(sources))
    path = folder / f"{stem(torch_minor())}_{name}.so"
    if path.is_file():
        return path
    with open(folder / "build.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            for left in folder.glob("build_*"):  # left by a process that was killed during its build
                shutil.rmtree(left, ignore_errors=True)
            from torch.utils import cpp_extension

            build(path, torch_minor(), cpp_extension.get_cxx_compiler(), cpp_extension.include_paths())
    return path


def find() -> Path:
    """The file of the adapter: named by TUTTI_TORCH_ADAPTER ("none": no adapter), in the package, or built.

    Error: AdapterError.
    """
    named = os.environ.get(VARIABLE)
    if named == "none":
        raise AdapterError(f"{VARIABLE} is none: unset it")
    if named:
        if Path(named).is_file():
            return Path(named)
        raise AdapterError(f"{VARIABLE}={named} is not a file: set it to the path of an adapter, or unset it")
    return _prebuilt() or _built()


def load() -> str:
    """Loads libtutti and the adapter once; returns the adapter's path.

    Error: AdapterError, or LibraryNotFoundError of libtutti.
    """
    global _loaded
    with _lock:
        if _loaded is not None:
            return _loaded
        import torch

        from .._library import library

        # The adapter finds libtutti by its name. The symbols of libtutti stay local, because a
        # wheel has an OpenSSL of its own.
        library()
        path = find()
        _refuse_other_minor(path)
        try:
            torch.ops.load_library(str(path))
        except OSError as error:
            raise AdapterError(f"the adapter {path.name} cannot be loaded into torch {torch.__version__}: {error}: "
                               f"unset {VARIABLE}, or install the wheel again") from error
        # Ends groups and callbacks before the interpreter ends, because the callbacks need it.
        atexit.register(torch.ops.tutti_collectives.end_process, _CALLBACK_END_MS)
        _loaded = str(path)
        return _loaded
