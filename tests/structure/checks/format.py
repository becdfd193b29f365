"""Checks that the sources have the format of .clang-format, and no line that it leaves too wide."""

import re
import shutil
import subprocess

MOST_COLUMNS = 100  # ColumnLimit of .clang-format, which does not wrap comments and raw strings


def check_format(tree):
    program = shutil.which("clang-format-14")
    if program is None:
        tree.skip("the format", "clang-format-14 is not installed")
        return
    done = subprocess.run([program, "--dry-run", "-Werror", *tree.texts], cwd=tree.root,
                          capture_output=True, text=True, check=False)
    first = {}
    for match in re.finditer(r"^(\S+?):(\d+):\d+: error:", done.stderr, re.M):
        first.setdefault(match.group(1), match.group(2))
    for name, line in first.items():
        tree.report(name, line, "format", f"run clang-format-14 -i {name}")
    if done.returncode != 0 and not first:
        tree.report(".clang-format", 1, "format", done.stderr.strip())


def check_width(tree):
    for name, text in tree.texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > MOST_COLUMNS:
                tree.report(name, number, "width", f"has {len(line)} columns: wrap it at {MOST_COLUMNS}")
