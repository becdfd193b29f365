"""Shared parts of the acceptance programs: the built tree, the machine lock, labs, and the verdict."""

import contextlib
import datetime
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# TUTTI_BUILD names another build folder, already configured.
BUILD = os.path.abspath(os.environ.get("TUTTI_BUILD") or os.path.join(ROOT, "build", "release"))
# Without this, ranks of one host would use shared memory instead of the network.
os.environ.setdefault("TUTTI_DEVICE", "ip")
TUTTI = os.path.join(BUILD, "apps", "tutti", "tutti")
SCHEMA = "tutti.acceptance/1"


def shown(value, unit=""):
    """A measured value as text."""
    if value is None:
        return "not measured"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"{text} {unit}".rstrip()


class Verdict:
    """Collects bars and figures. `finish` prints them, writes them to the file that TUTTI_ACCEPTANCE_JSON names, and
    exits: with 0 if there is a bar and every bar held."""

    def __init__(self, title):
        self.title = title
        self.bars = []
        self.figures = []
        self.lines = []
        self.parts = parts_done()
        self.start = time.monotonic()

    def part(self, name, measure):
        """Adds the bars and figures of `measure()`. If an interrupted run of the same commit under
        `acceptance/run` finished this part, its bars and figures are kept and the part does not run."""
        kept = self.parts.get(name)
        if kept is None:
            begun = time.monotonic()
            counts = len(self.bars), len(self.figures), len(self.lines)
            measure()
            kept = {"bars": self.bars[counts[0]:], "figures": self.figures[counts[1]:], "lines": self.lines[counts[2]:],
                    "seconds": time.monotonic() - begun}
            self.parts[name] = kept
            write_record({"parts": self.parts})
            return
        print(f"{name}: measured earlier on this commit", flush=True)
        self.bars += kept["bars"]
        self.figures += kept["figures"]
        self.lines += map(tuple, kept["lines"])
        self.start -= kept["seconds"]

    def figure(self, text):
        """A measurement that no bar depends on."""
        self.figures.append(text)
        self.lines.append(("     ", text))

    def bar(self, text, held, value=None, bound="", unit=""):
        """A condition that must hold, with the measured value and the bound it was compared with."""
        held = bool(held)
        self.bars.append({"text": text, "value": value, "unit": unit, "bound": bound, "held": held})
        measured = f": {shown(value, unit)}" if value is not None else ""
        self.lines.append(("held " if held else "MISS ", f"{text}{measured}{f' ({bound})' if bound else ''}"))
        return held

    def at_most(self, text, value, bound, unit=""):
        """A bar: the value is measured and is `bound` or less."""
        return self.bar(text, value is not None and value <= bound, value, f"at most {shown(bound, unit)}", unit)

    def at_least(self, text, value, bound, unit=""):
        """A bar: the value is measured and is `bound` or more."""
        return self.bar(text, value is not None and value >= bound, value, f"at least {shown(bound, unit)}", unit)

    def equal(self, text, value, wanted, unit=""):
        """A bar: the value is exactly `wanted`."""
        return self.bar(text, value == wanted, value, f"exactly {shown(wanted, unit)}", unit)

    def tests(self, text, result):
        """Bars for one GoogleTest program: it ran, no test failed, and none was skipped."""
        for name in result.failed:
            self.bar(f"failed: {name}", False)
        self.bar(f"{text}: {result.passed} passed in {result.seconds:.1f} s, {len(result.failed)} failed, "
                 f"{result.skipped} skipped", result.ok and result.skipped == 0, result.passed,
                 "all pass, none is skipped", "tests")

    def finish(self):
        wall_seconds = time.monotonic() - self.start
        held = bool(self.bars) and all(bar["held"] for bar in self.bars)
        sys.stderr.flush()
        print(f"\n{self.title} ({wall_seconds:.0f} s)")
        for mark, text in self.lines:
            print(f"  {mark} {text}")
        print(f"{program_name()}: {'holds' if held else 'DOES NOT HOLD'}", flush=True)
        write_record({"title": self.title, "held": held, "bars": self.bars, "figures": self.figures,
                      "exit_status": 0 if held else 1, "wall_seconds": round(wall_seconds, 1), "arguments": sys.argv[1:]})
        sys.exit(0 if held else 1)


def write_record(content):
    """Writes the result of this program to the file that TUTTI_ACCEPTANCE_JSON names, if it names one."""
    path = os.environ.get("TUTTI_ACCEPTANCE_JSON")
    if not path:
        return
    record = {"schema": SCHEMA, "program": program_name(), **content, "machine": machine_facts(), "commit": commit(),
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
    os.replace(path + ".part", path)


def parts_done():
    """{name: part} of an interrupted run of this program on this commit."""
    path = os.environ.get("TUTTI_ACCEPTANCE_JSON")
    record = read_json(path) if path and os.path.exists(path) else {}
    return record["parts"] if "parts" in record and record["commit"] == commit() else {}


def program_name():
    """GROUP/NAME of the running acceptance program."""
    path = os.path.abspath(sys.argv[0])
    return f"{os.path.basename(os.path.dirname(path))}/{os.path.basename(path)}"


def commit():
    """The commit of the tree, marked if files differ from it; empty outside git."""
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--abbrev=40", "--match=", "--dirty"],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip()


def machine_facts():
    """Processor model, cores, memory and kernel of this machine."""
    def field(path, key):
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
            for line in file:
                if line.startswith(key):
                    return line.partition(":")[2].strip()
        return ""
    kib = field("/proc/meminfo", "MemTotal").split(" ")[0]
    return {"cpu": field("/proc/cpuinfo", "model name"), "cores": os.cpu_count(),
            "memory_gib": round(int(kib) / (1 << 20), 1) if kib else None, "kernel": os.uname().release}


def call(command, timeout=600, **options):
    """Runs a command; its output passes through. Returns the exit status; 124 after the timeout."""
    print("+ " + " ".join(command), flush=True)
    try:
        return subprocess.run(command, timeout=timeout, cwd=options.pop("cwd", ROOT), check=False, **options).returncode
    except subprocess.TimeoutExpired:
        return 124


def output_of(command, timeout=600, **options):
    """Runs a command; returns (exit status, standard output, standard error)."""
    print("+ " + " ".join(command), flush=True)
    try:
        done = subprocess.run(command, timeout=timeout, cwd=options.pop("cwd", ROOT), check=False, text=True,
                              errors="replace", capture_output=True, **options)
    except subprocess.TimeoutExpired as expired:
        return 124, text_of(expired.stdout), text_of(expired.stderr)
    return done.returncode, done.stdout, done.stderr


def text_of(captured):
    """The output of a command as text. After a time-out the output is bytes or None."""
    return captured.decode(errors="replace") if isinstance(captured, bytes) else captured or ""


BASELINE = "23731bf"  # the commit before the sources were split and reworded


def worktree(revision):
    """A checkout of another commit, in build/compare/REVISION; kept for the next run."""
    path = os.path.join(ROOT, "build", "compare", revision)
    if not os.path.exists(os.path.join(path, "CMakeLists.txt")):
        subprocess.run(["git", "-C", ROOT, "worktree", "prune"], check=False)
        status, _, errors = output_of(["git", "-C", ROOT, "worktree", "add", "--detach", "--force", path, revision])
        if status != 0:
            sys.exit(f"git cannot check out {revision}: {errors}")
    return path


def need_root():
    if os.geteuid() != 0:
        sys.exit("this program needs root: it keeps a lab of network namespaces across several commands")


def build(*targets, definitions=()):
    """Configures and builds the targets: in build/release by its preset, unless TUTTI_BUILD names another folder."""
    command = ["cmake", "-B", BUILD] if os.environ.get("TUTTI_BUILD") else ["cmake", "--preset", "release"]
    if shutil.which("ccache"):
        # For the tests' precompiled header, as in tools/test.sh.
        os.environ.setdefault("CCACHE_SLOPPINESS", "pch_defines,time_macros")
        os.environ.setdefault("CCACHE_DEPEND", "1")
        command.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    configured = os.path.exists(os.path.join(BUILD, "build.ninja"))
    if (not configured or definitions) and call([*command, *definitions], stdout=subprocess.DEVNULL) != 0:
        sys.exit("cmake cannot configure the tree: run tools/setup.sh --all")
    if call(["cmake", "--build", BUILD, "--target", *targets], timeout=7200) != 0:
        sys.exit("the tree does not build")


def earlier_build(*targets, revision=BASELINE):
    """The build folder of an earlier commit with these targets, by the compilers of this tree."""
    tree = worktree(revision)
    path = os.path.join(tree, "build", "release")
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        cache = re.findall(r"^(CMAKE_(?:C|CXX)_COMPILER(?:_LAUNCHER)?):\w+=(.*)$", file.read(), re.M)
    command = ["cmake", "--preset", "release", "-DTUTTI_BUILD_TESTS=OFF", "-DTUTTI_BUILD_BENCHMARKS=ON",
               *(f"-D{name}={value}" for name, value in cache)]
    if call(command, cwd=tree, stdout=subprocess.DEVNULL) != 0 or \
            call(["cmake", "--build", path, "--target", *targets], timeout=7200, cwd=tree) != 0:
        sys.exit(f"{revision} does not build with this compiler")
    return path


@contextlib.contextmanager
def machine():
    """Holds the machine lock during a measurement. TUTTI_BENCH_LOCK can name the lock file of another tree."""
    path = os.environ.get("TUTTI_BENCH_LOCK") or os.path.join(ROOT, "build", "bench.lock")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def lab(name, hosts, **options):
    """A lab that other programs find by its name. It is removed at the end."""
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in options.items() if value is not None]
    with contextlib.suppress(Exception):
        subprocess.run([TUTTI, "lab", "down", "--name", name], capture_output=True, check=False)
    command = [TUTTI, "lab", "up", "--name", name, "--hosts", str(hosts), *arguments]
    status, output, errors = output_of(command)
    if status != 0:
        sys.exit(f"tutti lab up failed: {output}{errors}")
    try:
        yield name
    finally:
        call([TUTTI, "lab", "down", "--name", name], stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def folder():
    path = tempfile.mkdtemp(prefix="tutti-acceptance-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def lines_of(path):
    """The lines of a file; none if there is no file."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class GtestResult:
    """Outcome of one GoogleTest program."""

    def __init__(self, ok, passed, failed, skipped, seconds, output):
        self.ok = ok  # whether the exit status is 0 and at least one test passed
        self.passed = passed
        self.failed = failed  # names of the failed tests
        self.skipped = skipped
        self.seconds = seconds
        self.output = output

    def figures(self):
        """The lines that the tests print as figures."""
        mark = "[ figures  ]"
        return [line[len(mark):].strip() for line in self.output.splitlines() if line.startswith(mark)]

    def numbers(self, pattern, kind=int):
        """The numbers that the figures have where the group of `pattern` stands."""
        return [kind(match.group(1)) for line in self.figures() for match in [re.search(pattern, line)] if match]


def gtest(binary, *arguments, timeout=900):
    """Runs a GoogleTest program."""
    with folder() as place:
        report = os.path.join(place, "report.json")
        status, output, errors = output_of([binary, f"--gtest_output=json:{report}", *arguments], timeout=timeout)
        print(output + errors)
        if not os.path.exists(report):
            missing = f"{os.path.basename(binary)} exited with {status} before it wrote its report"
            return GtestResult(False, 0, [missing], 0, 0.0, output)
        suites = read_json(report)["testsuites"]
    tests = [test for suite in suites for test in suite["testsuite"] if test["status"] == "RUN"]
    failed = [f"{test['classname']}.{test['name']}" for test in tests if "failures" in test]
    skipped = sum(1 for test in tests if test["result"] == "SKIPPED")
    seconds = sum(float(test["time"].rstrip("s")) for test in tests)
    passed = len(tests) - len(failed) - skipped
    return GtestResult(status == 0 and passed > 0, passed, failed, skipped, seconds, output)
