#!/usr/bin/env python3
"""Checks what the compiler does not: who may include whom, banned calls, lengths, headers, format,
links. Every violation is one line, FILE:LINE: RULE: what is wrong. Exit status 1 where there is one.

    check_structure.py [--root DIR] [--no-format] [--counts] [--only RULE,...] [--except RULE,...]
"""

import argparse
import subprocess
import sys
from collections import Counter
from pathlib import Path

from structure.calls import Calls
from structure.classes import Classes
from structure.includes import Includes
from structure.lengths import Lengths
from structure.shape import Shape
from structure.texts import Texts
from structure.words import Words

CODE_FOLDERS = ["include", "src", "bindings", "apps", "examples", "bench", "tests", "sim", "studies"]
SUFFIXES = {".hpp", ".cpp", ".h", ".c"}


class Checker(Includes, Calls, Lengths, Texts, Words, Shape, Classes):
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
