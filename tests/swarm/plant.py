#!/usr/bin/env python3
"""Writes a copy of a source with a bug planted in it.

    plant.py SOURCE_ROOT BUG.txt OUTPUT.cpp

BUG.txt: lines "# why", "file PATH", "expects PATTERN", perhaps "seed N", "within PATH" and "test PATH", then the lines to replace
("- ...") and their replacement ("+ ..."), without indentation. A bug
in a header is compiled within a source; the header is written to a folder with OUTPUT's name. The search begins with the named seed,
or with 1; a bug that few scenarios show names one of them. The message of the violated invariant contains the
pattern, in which * matches anything; a bug caught by another invariant fails its test. A bug that the swarm does not meet, or meets too seldom,
names a source of unit tests instead, of which the expected one must fail. If the
lines are not in the file exactly once, the output is a program that reports it when the test runs, and
everything else still builds.
"""

import json
import sys
from pathlib import Path


def read_bug(path):
    bug = {"file": None, "expects": None, "seed": "1", "within": None, "test": None, "-": [], "+": []}
    for line in Path(path).read_text().splitlines():
        if line.startswith("file "):
            bug["file"] = line[5:].strip()
        elif line.startswith("expects "):
            bug["expects"] = line[8:].strip()
        elif line.startswith("seed "):
            bug["seed"] = line[5:].strip()
        elif line.startswith("within "):
            bug["within"] = line[7:].strip()
        elif line.startswith("test "):
            bug["test"] = line[5:].strip()
        elif line[:2] in ("- ", "+ "):
            bug[line[0]].append(line[2:])
        elif line.strip() and not line.startswith("#"):
            sys.exit(f"{path}: \"{line}\" begins with none of #, file, within, test, expects, seed, -, +")
    if not bug["file"] or not bug["expects"] or not bug["-"]:
        sys.exit(f"{path}: lacks its file, what it expects, or the lines to replace")
    return bug


def main():
    root, bug_path, output = sys.argv[1:]
    bug = read_bug(bug_path)
    lines = (Path(root) / bug["file"]).read_text().splitlines()
    old = [line.strip() for line in bug["-"]]
    places = [at for at in range(len(lines) - len(old) + 1)
              if [line.strip() for line in lines[at:at + len(old)]] == old]
    if len(places) != 1:
        problem = (f"the lines of {Path(bug_path).name} are in {bug['file']} {len(places)} times, "
                   "not once: plant the bug where the code is now")
        Path(output).write_text("extern \"C\" { extern const char tutti_not_planted[];\n"
                                f"const char tutti_not_planted[] = \"{problem}\"; }}\n")
        return
    at = places[0]
    indent = lines[at][:len(lines[at]) - len(lines[at].lstrip())]
    lines[at:at + len(old)] = [indent + line for line in bug["+"]]
    text = f"// {bug['file']} with a planted bug: {Path(bug_path).name}\n" + "\n".join(lines) + "\n"
    if bug["within"]:
        header = Path(output).with_suffix("") / Path(bug["file"]).relative_to("src")
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(text)
        text = f"#include \"{Path(root) / bug['within']}\"\n"
    text += ("extern \"C\" { extern const char tutti_expected[]; extern const unsigned long long tutti_first_seed;\n"
             f"const char tutti_expected[] = {json.dumps(bug['expects'])};\n"
             f"const unsigned long long tutti_first_seed = {int(bug['seed'])}; }}\n")
    Path(output).write_text(text)


if __name__ == "__main__":
    main()
