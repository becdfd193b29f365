#!/usr/bin/env python3
"""Checks what the compiler does not: who may include whom, banned calls, bounds, headers, format,
links, words. Every violation is one line, FILE:LINE: RULE: what is wrong. Exit status 1 where there is one.

    check_structure.py [--only RULE,... | --except RULE,...] [--counts] [--root DIR] [PATH ...]

With PATHs only the files whose names begin with one of them are reported. A part of a rule has a
name like words/headless.
"""

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from checks import bounds, calls, cycles, format as formatting, headers, layers, methods, texts, waits, words
from checks.tree import Tree

RULES = {
    "include": layers.check_includes,
    "cycle": cycles.check_cycles,
    "banned call": calls.check_calls,
    "clock": calls.check_clock,
    "wait": waits.check_waits,
    "header": headers.check_headers,
    "function length": bounds.check_functions,
    "file length": bounds.check_files,
    "folder": bounds.check_folders,
    "fields": bounds.check_fields,
    "methods": bounds.check_methods,
    "method file": methods.check_files,
    "one definition": methods.check_definitions,
    "format": formatting.check_format,
    "width": formatting.check_width,
    "path": texts.check_paths,
    "link": texts.check_links,
    "retry": texts.check_retries,
    "words": words.check_words,
}


# The rule "words" has parts that can be selected alone.
PARTS = {"words": [f"words/{kind}" for kind in words.KINDS]}
NAMES = [name for rule in RULES for name in [rule, *PARTS.get(rule, [])]]


def rule_names(text):
    """The rules, or parts of rules, that a comma-separated list names."""
    chosen = {name for name in text.split(",") if name}
    unknown = sorted(chosen - set(NAMES))
    if unknown or not chosen:
        raise argparse.ArgumentTypeError(f"no rule {', '.join(unknown) or 'given'}: use {', '.join(NAMES)}")
    return chosen


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2],
                        help="the tree to check (default: this one)")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--only", type=rule_names, metavar="RULE,...", help=f"check these: {', '.join(NAMES)}")
    chosen.add_argument("--except", type=rule_names, metavar="RULE,...", default=set(), dest="without",
                        help="check all but these")
    parser.add_argument("--no-format", action="store_true", help="leave out clang-format")
    parser.add_argument("--counts", action="store_true", help="print only how many violations each rule has")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="report files that begin with one of these")
    return parser.parse_args()


def chosen_names(arguments):
    """The names of the rules and parts to check; a rule with parts is included if one of its parts is."""
    chosen = []
    for rule in RULES:
        parts = PARTS.get(rule, [rule])
        if arguments.only and rule not in arguments.only:
            parts = [part for part in parts if part in arguments.only]
        if rule not in arguments.without and not (rule == "format" and arguments.no_format):
            chosen += [part for part in parts if part not in arguments.without]
    return chosen


def main():
    arguments = read_arguments()
    tree = Tree(arguments.root.resolve())
    names = chosen_names(arguments)
    for rule, check in RULES.items():
        if any(name.partition("/")[0] == rule for name in names):
            check(tree)
    paths = tuple(path.removeprefix("./") for path in arguments.paths)
    violations = sorted((one for one in tree.violations
                         if one.name in names and (not paths or one.file.startswith(paths))),
                        key=lambda one: (names.index(one.name), one.file, one.line))
    for skipped in tree.skipped:
        print(f"SKIPPED: {skipped}")
    if "TUTTI_SKIP_LOG" in os.environ:
        with open(os.environ["TUTTI_SKIP_LOG"], "a", encoding="utf-8") as log:
            log.writelines(f"check_structure {skipped}\n" for skipped in tree.skipped)
    counts = Counter(one.name for one in violations)
    for name in names:
        if arguments.counts or counts[name]:
            print(f"{counts[name]:6} {name}")
    if not arguments.counts:
        for violation in violations:
            print(violation)
    print(f"{len(tree.texts)} source files, {len(violations)} violations")
    return 1 if violations and not arguments.counts else 0


if __name__ == "__main__":
    sys.exit(main())
