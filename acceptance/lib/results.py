"""Tables of acceptance results, from the JSON that the programs write and from their docstrings."""

import ast
import json
import os
import re

import common

EVERYTHING = "house/everything"  # the last program, because it reads the results of the others
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
FIELDS = {"Bar": "bar", "Weaker than its line": "weaker", "Old number": "old"}
MAX_TEXT = 160  # characters of a text in the tables; longer texts are cut there, not in the JSON
# The bars that README.md shows, as (program, pattern of the bar's text).
HEADLINES = [("multicast/traffic", "P = 8 allgather: ring"),
             ("multicast/speed_vs_peers", "MTU 1500, allgather 1 MiB: .*limit"),
             ("multicast/speed_vs_peers", "MTU 1500, broadcast 1 MiB: .*, default"),
             ("multicast/speed_vs_peers", "MTU 9000, broadcast 4 MiB: .*, default"),
             ("multicast/speed_vs_peers", "unshaped, P = 8, allgather 1 MiB"),
             ("schedules/short_messages", "one host, P = 4, broadcast: .*median"),
             ("schedules/hierarchy", "one host, 4 ranks, allgather 1 MiB"),
             ("schedules/overlap", "multicast allgather 1 MiB, tutti"),
             ("offload/allreduce_aggregator", "allreduce 4 MiB"),
             ("offload/allgather_with_reduce_scatter", "1gbit, P = 8, pair 4 MiB")]


def programs(root):
    """GROUP/NAME of every acceptance program below `root`."""
    top = os.path.join(root, "acceptance")
    groups = sorted(name for name in os.listdir(top) if name != "lib" and os.path.isdir(os.path.join(top, name)))
    names = [f"{group}/{name}" for group in groups for name in sorted(os.listdir(os.path.join(top, group)))
             if os.access(os.path.join(top, group, name), os.X_OK) and os.path.isfile(os.path.join(top, group, name))]
    return sorted(names, key=EVERYTHING.__eq__)


def description(root, program):
    """The parts of a program's docstring: shows, bar, weaker, old."""
    with open(os.path.join(root, "acceptance", program), encoding="utf-8") as file:
        paragraphs = (ast.get_docstring(ast.parse(file.read())) or "").split("\n\n")
    found = {"shows": " ".join(paragraphs[0].split()), "bar": "", "weaker": "", "old": ""}
    for paragraph in paragraphs[1:]:
        key, colon, text = paragraph.partition(":")
        if colon and key in FIELDS:
            found[FIELDS[key]] = " ".join(text.split())
    return found


def read(folder, names):
    """{program: record} of the JSON files in `folder`; None for a program without one."""
    records = {}
    for name in names:
        path = os.path.join(folder, name + ".json")
        records[name] = common.read_json(path) if os.path.exists(path) else None
    return records


def was_run(record):
    return record is not None and "bars" in record


def _cell(text):
    return " ".join(str(text).split()).replace("|", "\\|")


def _cut(text):
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT - 3] + "..."


def state(record):
    """One program's result in a few words."""
    if not was_run(record):
        parts = f", {len(record['parts'])} parts done" if record and record.get("parts") else ""
        return "not run" + parts + (f": {record['reason']}" if record and record.get("reason") else "")
    missed = sum(1 for bar in record["bars"] if not bar["held"])
    count = len(record["bars"])
    if not count:
        return "no bar"
    return f"{missed} of {count} bars missed" if missed else f"holds, {count} bars"


def summary(records):
    """How many bars held on which commits, and which programs missed bars."""
    run = {name: record for name, record in records.items() if was_run(record)}
    if not run:
        return "No acceptance run yet."
    commits = {}
    for name, record in sorted(run.items(), key=lambda one: one[1]["date"]):
        commits.setdefault(record["commit"][:12], []).append(name)
    bars = [bar for record in run.values() for bar in record["bars"]]
    held = sum(1 for bar in bars if bar["held"])
    lines = [f"Acceptance at {', '.join(commits)}: {len(run)} of {len(records)} programs run, {held} of {len(bars)} bars held."]
    if len(commits) > 1:
        lines += [f"At {commit}: {', '.join(sorted(names))}." for commit, names in commits.items()]
    missing = [f"{name} ({sum(1 for bar in record['bars'] if not bar['held'])} of {len(record['bars'])})"
               for name, record in run.items() if not all(bar["held"] for bar in record["bars"])]
    if missing:
        lines.append(f"Bars missed: {', '.join(missing)}.")
    return "\n".join(lines)


def _bar_cells(bar):
    value = common.shown(bar["value"], bar["unit"]) if bar["value"] is not None else "-"
    return (f"{_cell(_cut(bar['text']))} | {_cell(value)} | {_cell(bar['bound'] or '-')} | "
            f"{'held' if bar['held'] else '**missed**'} |")


def headlines(records):
    """The text between the markers of README.md; empty if no program of HEADLINES was run."""
    lines = []
    for name, pattern in HEADLINES:
        record = records.get(name)
        lines += [f"| {_bar_cells(bar)}" for bar in (record["bars"] if was_run(record) else []) if re.search(pattern, bar["text"])]
    if not lines:
        return ""
    return "\n".join([summary(records), "", "| measurement | measured | bar | result |", "|---|---|---|---|", *lines])


def index(root, records):
    """The table of acceptance/README.md."""
    lines = ["| program | shows | bar | weaker than stated | last result | old number |", "|---|---|---|---|---|---|"]
    for name in records:
        about = description(root, name)
        lines.append(f"| [{name}]({name}) | " + " | ".join(
            _cell(text) for text in (about["shows"], about["bar"], about["weaker"] or "-", state(records[name]),
                                     about["old"] or "-")) + " |")
    return "\n".join(lines)


def _machines(records):
    """Sentences that say on which machines and when the programs ran."""
    machines = {json.dumps(record["machine"], sort_keys=True): record["machine"] for record in records}
    dates = sorted(record["date"] for record in records)
    wall = sum(record["wall_seconds"] for record in records)
    lines = [f"Run between {dates[0]} and {dates[-1]}, {wall / 3600:.1f} h in all."]
    for machine in machines.values():
        lines.append(f"Machine: {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, Linux "
                     f"{machine['kernel']}.")
    return lines


def report(records):
    """The whole text of docs/results/acceptance.md."""
    run = [record for record in records.values() if was_run(record)]
    lines = ["# Acceptance results", "", "Generated by `acceptance/run` from the JSON of the programs; do not edit.", ""]
    lines += [summary(records), ""]
    if run:
        lines += [*_machines(run), ""]
    for group in dict.fromkeys(name.partition("/")[0] for name in records):
        lines += [f"## {group}", "", "| program | bar | measured | bound | result |", "|---|---|---|---|---|"]
        for name, record in records.items():
            if name.partition("/")[0] != group:
                continue
            if not was_run(record):
                lines.append(f"| {name} | {_cell(state(record))} | | | **not run** |")
                continue
            for bar in record["bars"]:
                lines.append(f"| {name} | {_bar_cells(bar)}")
            if not record["bars"]:
                lines.append(f"| {name} | no bar | | | - |")
        lines.append("")
    return "\n".join(lines)


def fill(path, text):
    """Replaces the text between the markers in a file; returns False if the file has no markers."""
    with open(path, encoding="utf-8") as file:
        old = file.read()
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.S)
    if not pattern.search(old):
        return False
    new = pattern.sub(lambda _: f"{BEGIN}\n\n{text}\n\n{END}", old, count=1)
    if new != old:
        with open(path, "w", encoding="utf-8") as file:
            file.write(new)
    return True
