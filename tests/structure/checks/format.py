"""Checks that the sources have the format of .clang-format."""

import re
import shutil
import subprocess


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
