"""Comparisons of this commit with an earlier one, in one run on one machine."""

import os
import re
import shutil

import common
from peers import M, compare, name_of, report_failures, us

OLD, AGAIN = "tutti old", "tutti again"
ROUNDS = 20  # alternating starts of a row, by default and at least
DATAPATH = ("bench", "datapath", "receive_datapath_bench")


def tutti_of(build):
    return os.path.join(build, "apps", "tutti", "tutti")


def speed(verdict, where, lab, old, options, sizes=(M,), least=0.95, most=1.05, operations=("allgather", "broadcast"), flags="",
          old_flags=None, between=None, **placement):
    """Adds the bars that the operations take `least` to `most` of the time of the program `old`, as medians of alternating
    starts, and an A/A row as a figure. `flags` are the options of both programs; if `old_flags` are given, the old one has
    these. `between` is a name and the program of a commit between the two; its time over the old one is a figure.
    `placement` goes to compare()."""
    third = [(f"tutti/{between[0]}", flags, between[1])] if between else []
    for operation in operations:
        rows = compare(lab, f"earlier-{operation}", operation, list(sizes), options, peers="", tutti=flags,
                       others=[("tutti/old", flags if old_flags is None else old_flags, old), ("tutti/again", flags), *third],
                       **placement)
        report_failures(verdict, f"{where}, {operation}:", rows)
        for size in sizes:
            ours, theirs, again = rows.tutti(size), rows.of(OLD, size), rows.of(AGAIN, size)
            what = f"{where}, {operation} {name_of(size)}"
            if None in (ours, theirs, again):
                verdict.bar(f"{what}: measured in every round", False)
                continue
            verdict.figure(f"{what}: A/A {again / ours:.3f}")
            if between and (middle := rows.of(f"tutti {between[0]}", size)):
                verdict.figure(f"{what}: {between[0]} {us(middle)}, {middle / theirs:.3f} of the old time")
            ratio = ours / theirs
            verdict.bar(f"{what}: {us(ours)}, old {us(theirs)}, time over the old", least <= ratio <= most, ratio,
                        f"{least} to {most}")


def require_rounds(verdict, options):
    """Adds a missed bar if the rows have fewer starts than ROUNDS."""
    if options.rounds < ROUNDS:
        verdict.bar(f"{ROUNDS} alternating starts, not {options.rounds}", False)


def instructions(build, kind):
    """Instructions of one receive of 4 MiB in chunks of 4 KiB: three receives less one, by valgrind; None without it."""
    if not shutil.which("valgrind"):
        return None
    counts = []
    for repeat in (1, 3):
        with common.folder() as place:
            command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={place}/callgrind.out",
                       os.path.join(build, *DATAPATH), "--count", str(repeat), "--only", kind, "--mib", "4"]
            status, _, errors = common.output_of(command, timeout=600)
        found = re.search(r"Collected : (\d+)", errors)
        if status != 0 or not found:
            return None
        counts.append(int(found.group(1)))
    return (counts[1] - counts[0]) / 2
