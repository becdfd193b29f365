#!/usr/bin/env python3
"""Checks what the compiler does not: who may include whom, banned calls, lengths, headers, format,
links. Every violation is one line, FILE:LINE: RULE: what is wrong. Exit status 1 where there is one.

    check_structure.py [--root DIR] [--no-format] [--counts] [--only RULE,...] [--except RULE,...]
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import cpp_text
from structure.classes import Classes
from structure.shape import Shape
from structure.words import Words

MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 600
CODE_FOLDERS = ["include", "src", "bindings", "apps", "examples", "bench", "tests", "sim", "studies"]
SUFFIXES = {".hpp", ".cpp", ".h", ".c"}

# Headers that src/CMakeLists.txt does not list as a layer: the interface between engine and devices.
INTERFACES = {"device": {"base"}}
# Whoever uses a layer named here may include the interface too.
INTERFACE_USERS = {"engine", "runtime", "observe", "world", "sim", "studies"}
# Public headers that the layers below the runtime may include.
LOW_PUBLIC = {"tutti/units.hpp", "tutti/status.hpp", "tutti/reduction.hpp", "tutti/collective.hpp"}

SOCKETS = re.compile(r"<(sys/(socket|epoll|un|uio|ioctl|select)\.h|netinet/.*|arpa/.*|net/.*|poll\.h|"
                     r"netdb\.h|ifaddrs\.h|linux/.*|resolv\.h)>")
INPUT_OUTPUT = re.compile(r"<(unistd\.h|fcntl\.h|sys/.*|cstdio|stdio\.h|fstream|iostream|filesystem)>")
THREADS = re.compile(r"<(thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|"
                     r"stop_token|pthread\.h|sched\.h)>")
CLOCKS = re.compile(r"<(chrono|ctime|time\.h|sys/time\.h)>")
READS_CLOCK = re.compile(r"\b(steady_clock|system_clock|high_resolution_clock|clock_gettime|"
                         r"gettimeofday|__rdtsc)\b")
# Layers that are pure computation, and what each therefore does without.
PURE = {"base": [SOCKETS, INPUT_OUTPUT, THREADS], "wire": [SOCKETS, INPUT_OUTPUT, THREADS, CLOCKS],
        "protocol": [SOCKETS, INPUT_OUTPUT, THREADS, CLOCKS],
        "engine": [SOCKETS, INPUT_OUTPUT, THREADS, CLOCKS],
        "device": [SOCKETS, INPUT_OUTPUT, THREADS, CLOCKS]}
MAY_USE_SOCKETS = ("src/device/ip/", "src/runtime/", "apps/", "bench/", "tests/")

# A call, not a member of another object and not a declaration ("void abort(").
_CALL = r"(?:^|[;{{}}()=,?!&|]|(?<!:):(?!:)|\breturn\b|\belse\b)\s*(?:\(void\)\s*)?((?:std::|::)?(?:{})\s*\()"
BANNED = [
    (re.compile(_CALL.format("exit|_exit|_Exit|quick_exit|abort|terminate"), re.M),
     "a failure is a Status, not the end of the program"),
    (re.compile(_CALL.format("rand|srand|random|srandom|drand48"), re.M),
     "randomness comes from base/random.hpp, seeded"),
    (re.compile(_CALL.format("printf|fprintf|puts|putchar|vprintf"), re.M),
     "a library prints nothing"),
    (re.compile(r"(?<![\w.])(assert\s*\()"), "input is checked with a Status, invariants by tests"),
    (re.compile(r"\b(std::(?:cout|cerr|clog))\b"), "a library prints nothing"),
    (re.compile(r"\b((?:std::this_thread::)?sleep_(?:for|until)\s*\()"),
     "nothing sleeps: wait for an event, with a deadline"),
    (re.compile(_CALL.format("sleep|usleep|nanosleep|clock_nanosleep"), re.M),
     "nothing sleeps: wait for an event, with a deadline"),
]
# Exceptions to BANNED: (file, what is called, why).
ALLOWED = [
    ("src/runtime/bootstrap_file.cpp", "sleep_for", "another host's file raises no event here"),
    ("src/runtime/bootstrap_store.cpp", "sleep_for", "a store that is not up yet raises no event"),
]


class Checker(Words, Shape, Classes):
    def __init__(self, root):
        self.root = root
        self.violations = []
        self.counts = Counter()
        self.skipped = []
        self.only, self.without = set(), set()
        self.texts = {}
        for folder in CODE_FOLDERS:
            for path in sorted((root / folder).rglob("*")):
                if path.suffix in SUFFIXES and path.is_file():
                    self.texts[path.relative_to(root).as_posix()] = path.read_text()

    def report(self, name, line, rule, message):
        names = {rule}
        if rule == "words":
            names.add(f"words/{message.partition(':')[0]}")
        if (self.only and not names & self.only) or names & self.without:
            return
        self.counts[max(names, key=len)] += 1
        self.violations.append(f"{name}:{line}: {rule}: {message}")

    def sources(self, *prefixes):
        return [(name, text) for name, text in self.texts.items() if name.startswith(prefixes)]

    # ---- Includes --------------------------------------------------------------------------------

    def layers(self):
        """The layers and what each may include, from src/CMakeLists.txt."""
        text = ""
        for folder in ("src", "sim", "studies"):
            path = self.root / folder / "CMakeLists.txt"
            text += re.sub(r"#[^\n]*", "", path.read_text()) if path.exists() else ""
        uses = dict(INTERFACES)
        for match in re.finditer(r"tutti_layer\(\s*([\w/]+)(.*?)\)", text, re.S):
            name, rest = match.groups()
            used = re.search(r"\bUSES\b(.*?)(?:\bLINKS\b|\bSOURCES\b|$)", rest, re.S)
            uses[name] = set(used.group(1).split()) if used else set()
            if name.partition("/")[0] in INTERFACE_USERS or name.startswith("device/"):
                uses[name] |= set(INTERFACES)
        return uses

    @staticmethod
    def layer_of(path, layers):
        """The layer that a path below src/ belongs to: the longest that is its folder."""
        folder = path.rpartition("/")[0]
        while folder and folder not in layers:
            folder = folder.rpartition("/")[0]
        return folder or None

    @staticmethod
    def inner_path(name):
        """A path as its layer is named: from src/ on, or from the root in sim/ and studies/."""
        return name.removeprefix("src/")

    def check_includes(self):
        layers = self.layers()
        for name, text in self.texts.items():
            layered = name.startswith(("src/", "sim/", "studies/"))
            layer = self.layer_of(self.inner_path(name), layers) if layered else None
            if layered and layer is None:
                folder = name.partition("/")[0]
                self.report(name, 1, "layer", f"{folder}/CMakeLists.txt has no layer for this folder")
            for number, line in enumerate(text.splitlines(), 1):
                match = re.match(r'\s*#\s*include\s*(<[^>]+>|"[^"]+")', line)
                if match:
                    self.check_include(name, number, layer, match.group(1), layers)

    def check_include(self, name, number, layer, header, layers):
        if SOCKETS.fullmatch(header) and not name.startswith(MAY_USE_SOCKETS):
            self.report(name, number, "include", f"{header} belongs to src/device/ip, src/runtime, apps")
        elif layer in PURE and any(kind.fullmatch(header) for kind in PURE[layer]):
            self.report(name, number, "include", f"{header}: the layer {layer} is pure computation")
        if not name.startswith(("src/", "include/", "sim/", "studies/")) or header[0] != '"':
            return
        path = header.strip('"')
        if name.startswith("include/"):
            if not path.startswith("tutti/"):
                self.report(name, number, "include", f"a public header includes the inner {path}")
        elif path.startswith("tutti/"):
            if path not in LOW_PUBLIC and name.startswith("src/") \
                    and (layer or "").partition("/")[0] != "runtime":
                self.report(name, number, "include", f"{path} is above the layer {layer}")
        elif name.startswith("src/") and path.startswith(("sim/", "studies/")) \
                and (self.root / path).exists():
            self.report(name, number, "include", f"{path}: src may include neither sim nor studies")
        else:
            used = self.layer_of(path, layers)
            if used is None:
                self.report(name, number, "include", f"{path} is in no layer: include from src/ on")
            elif used != layer and used not in layers.get(layer, set()):
                self.report(name, number, "include",
                            f"the layer {layer} may not use {used} (USES in src/CMakeLists.txt)")

    # ---- Calls -----------------------------------------------------------------------------------

    def check_calls(self):
        for name, text in self.sources("src/", "include/", "bindings/"):
            code = cpp_text.code_only(text)
            for pattern, reason in BANNED:
                for match in pattern.finditer(code):
                    called = re.sub(r"^.*::|\s*\($", "", match.group(1))
                    if any(name == file and called == what for file, what, _ in ALLOWED):
                        continue
                    line = cpp_text.line_of(code, match.start(1))
                    self.report(name, line, "banned call", f"{called}: {reason}")
            if name.startswith(("src/protocol/", "src/engine/", "src/wire/")):
                for match in READS_CLOCK.finditer(code):
                    self.report(name, cpp_text.line_of(code, match.start()), "clock",
                                f"{match.group()}: the time is an argument here")

    # ---- Headers and lengths ---------------------------------------------------------------------

    def check_headers(self):
        for name, text in self.texts.items():
            if not name.endswith((".hpp", ".h")):
                continue
            if not text.startswith(("//", "/*")):
                self.report(name, 1, "header", "begins with a comment that says what it is for")
            if not re.search(r"^#pragma once$", text, re.M):
                self.report(name, 1, "header", "lacks #pragma once")
            code = cpp_text.code_only(text)
            for match in re.finditer(r"\busing\s+namespace\b", code):
                self.report(name, cpp_text.line_of(code, match.start()), "header",
                            "using namespace reaches whoever includes this")

    def check_lengths(self):
        for name, text in self.sources("src/", "include/", "bindings/", "apps/", "sim/", "studies/"):
            lines = text.count("\n")
            if lines > MAX_FILE_LINES:
                self.report(name, lines, "file length", f"{lines} lines; {MAX_FILE_LINES} at most")
        for name, text in self.texts.items():
            for function in cpp_text.outline(text)[0]:
                if function.lines > MAX_FUNCTION_LINES:
                    self.report(name, function.first_line, "function length",
                                f"{function.name} has {function.lines} lines; "
                                f"{MAX_FUNCTION_LINES} at most")

    def check_definitions(self):
        """Two types of one name break the one-definition rule where the linker merges their code."""
        seen = {}
        for name, text in self.sources("src/", "include/", "bindings/"):
            for kind in cpp_text.outline(text)[1]:
                place = f"{name}:{kind.line}"
                if kind.name in seen:
                    self.report(name, kind.line, "one definition",
                                f"{kind.name} is another type at {seen[kind.name]}")
                seen.setdefault(kind.name, place)

    # ---- Format, links, paths --------------------------------------------------------------------

    def check_format(self):
        """Whether the format could be checked."""
        program = shutil.which("clang-format-14")
        if program is None:
            return False
        names = list(self.texts)
        done = subprocess.run([program, "--dry-run", "-Werror", *names], cwd=self.root,
                              capture_output=True, text=True, check=False)
        first = {}
        for match in re.finditer(r"^(\S+?):(\d+):\d+: error:", done.stderr, re.M):
            first.setdefault(match.group(1), match.group(2))
        for name, line in first.items():
            self.report(name, line, "format", f"run clang-format-14 -i {name}")
        if done.returncode != 0 and not first:
            self.report(".clang-format", 1, "format", done.stderr.strip())
        return True

    def text_files(self):
        """Every text file that git knows or would add; outside git, every file but build/."""
        done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=self.root,
                              capture_output=True, text=True, check=False)
        if done.returncode == 0:
            names = done.stdout.splitlines()
        else:
            names = [path.relative_to(self.root).as_posix() for path in self.root.rglob("*")]
        for name in sorted(names):
            path = self.root / name
            if not path.is_file() or name.startswith("build/"):
                continue
            try:
                yield name, path.read_text()
            except UnicodeDecodeError:
                continue

    def check_texts(self):
        home = re.compile(r"(?<![\w./$}~-])/(?:home|root|work|Users)/[\w.-]+")
        for name, text in self.text_files():
            for number, line in enumerate(text.splitlines(), 1):
                match = home.search(line)
                if match:
                    self.report(name, number, "path", f"{match.group()} is of one machine only")
            if name.endswith(".md"):
                self.check_links(name, text)

    def check_links(self, name, text):
        prose = re.sub(r"^```.*?^```|`[^`\n]*`",
                       lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.M | re.S)
        for match in re.finditer(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)", prose):
            target = match.group(1).partition("#")[0]
            if not target or re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            if not (self.root / name).parent.joinpath(target).exists():
                self.report(name, cpp_text.line_of(prose, match.start()), "link",
                            f"{target} does not exist")


CHECKS = ["includes", "calls", "headers", "lengths", "definitions", "texts", "words", "cycles",
          "folders", "retries", "classes"]
RULES = ["layer", "include", "banned call", "clock", "header", "file length", "function length",
         "one definition", "format", "path", "link", "words", "cycle", "folder", "retry", "fields",
         "methods", "method file"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--no-format", action="store_true", help="leave out clang-format")
    parser.add_argument("--only", default="", metavar="RULE,...",
                        help="report these rules only, as words or words/headless")
    parser.add_argument("--except", default="", metavar="RULE,...", dest="without",
                        help="leave these rules out")
    parser.add_argument("--counts", action="store_true", help="print only the counts of each rule")
    arguments = parser.parse_args()
    checker = Checker(arguments.root)
    checker.only = set(filter(None, arguments.only.split(",")))
    checker.without = set(filter(None, arguments.without.split(",")))
    unknown = {name for name in checker.only | checker.without
               if name not in RULES and not name.startswith("words/")}
    if unknown:
        parser.error(f"unknown rules {', '.join(sorted(unknown))}; use {', '.join(RULES)}")
    for check in CHECKS:
        getattr(checker, "check_" + check)()
    if not arguments.no_format and not checker.check_format():
        checker.skipped.append("the format (clang-format-14 is not installed)")
    for skipped in checker.skipped:
        print(f"SKIPPED: {skipped}")
    for rule, count in sorted(checker.counts.items()):
        print(f"{count:6} {rule}")
    if arguments.counts:
        return 0
    print(*checker.violations, sep="\n")
    print(f"{len(checker.texts)} source files, {len(checker.violations)} violations")
    return 1 if checker.violations else 0


if __name__ == "__main__":
    sys.exit(main())
