"""What the acceptance programs share: a built tree, the machine's lock, labs, and a verdict that is printed last."""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# TUTTI_BUILD names another folder that is configured already.
BUILD = os.path.abspath(os.environ.get("TUTTI_BUILD") or os.path.join(ROOT, "build", "release"))
# What is measured on one host is the network unless a line says otherwise.
os.environ.setdefault("TUTTI_DEVICE", "ip")
TUTTI = os.path.join(BUILD, "apps", "tutti", "tutti")


class Verdict:
    """Collects figures against their bars; `finish` prints them, after everything else, and exits."""

    def __init__(self, title):
        self.title = title
        self.lines = []
        self.held = True
        self.begun = time.monotonic()

    def figure(self, text):
        self.lines.append(("     ", text))

    def bar(self, text, holds):
        """One thing that must hold, with its figure in the text."""
        self.lines.append(("held " if holds else "MISS ", text))
        self.held = self.held and bool(holds)
        return holds

    def finish(self):
        took = time.monotonic() - self.begun
        sys.stderr.flush()
        print(f"\n{self.title} ({took:.0f} s)")
        for mark, text in self.lines:
            print(f"  {mark} {text}")
        held = self.held and any(mark == "held " for mark, _ in self.lines)
        print(f"{os.path.basename(sys.argv[0])}: {'holds' if held else 'DOES NOT HOLD'}", flush=True)
        sys.exit(0 if held else 1)


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
    except subprocess.TimeoutExpired as late:
        return 124, _text(late.stdout), _text(late.stderr)
    return done.returncode, done.stdout, done.stderr


def _text(captured):
    return captured.decode(errors="replace") if isinstance(captured, bytes) else captured or ""


def need_root():
    if os.geteuid() != 0:
        sys.exit("this needs root: it builds labs that stay between several programs")


def build(*targets, definitions=()):
    """Configures and builds what is absent or old: build/release by its preset, unless TUTTI_BUILD names another."""
    command = ["cmake", "-B", BUILD] if os.environ.get("TUTTI_BUILD") else ["cmake", "--preset", "release"]
    if shutil.which("ccache"):
        command.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    configured = os.path.exists(os.path.join(BUILD, "build.ninja"))
    if (not configured or definitions) and call([*command, *definitions], stdout=subprocess.DEVNULL) != 0:
        sys.exit("the tree cannot be configured: tools/setup.sh installs what it needs")
    if call(["cmake", "--build", BUILD, "--target", *targets], timeout=3600) != 0:
        sys.exit("the tree does not build")


@contextlib.contextmanager
def machine():
    """Holds the machine for a measurement, among everything that takes build/bench.lock."""
    os.makedirs(os.path.join(ROOT, "build"), exist_ok=True)
    with open(os.path.join(ROOT, "build", "bench.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def lab(name, hosts, **options):
    """A lab that other programs find by name; taken down at the end."""
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in options.items() if value is not None]
    with contextlib.suppress(Exception):
        subprocess.run([TUTTI, "lab", "down", "--name", name], capture_output=True, check=False)
    command = [TUTTI, "lab", "up", "--name", name, "--hosts", str(hosts), *arguments]
    status, said, complaint = output_of(command)
    if status != 0:
        sys.exit(f"the lab cannot be built: {said}{complaint}")
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


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def gtest(binary, *arguments, timeout=900):
    """Runs a GoogleTest program; returns (all passed, passed, failed names, skipped, seconds, output)."""
    with folder() as place:
        report = os.path.join(place, "report.json")
        status, said, complaint = output_of([binary, f"--gtest_output=json:{report}", *arguments], timeout=timeout)
        print(said + complaint)
        if not os.path.exists(report):
            return False, 0, [f"{os.path.basename(binary)} ended with {status} before its report"], 0, 0.0, said
        suites = read_json(report)["testsuites"]
    tests = [test for suite in suites for test in suite["testsuite"] if test["status"] == "RUN"]
    failed = [f"{test['classname']}.{test['name']}" for test in tests if "failures" in test]
    skipped = sum(1 for test in tests if test["result"] == "SKIPPED")
    seconds = sum(float(test["time"].rstrip("s")) for test in tests)
    passed = len(tests) - len(failed) - skipped
    return status == 0 and passed > 0, passed, failed, skipped, seconds, said
