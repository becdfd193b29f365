"""Checks that links in documents resolve, that no text has a path of one machine, and that no failing test is
repeated."""

import re

import cpp_text

HOME = re.compile(r"(?<![\w./$}~-])/(?:home|root|work|Users)/[\w.-]+")
LINK = re.compile(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
UNTIL_PASS = "until" + "-pass"


def check_paths(tree):
    for name, text in tree.text_files.items():
        for number, line in enumerate(text.splitlines(), 1):
            match = HOME.search(line)
            if match:
                tree.report(name, number, "path", f"{match.group()} is of one machine only")


def check_links(tree):
    for name, text in tree.text_files.items():
        if not name.endswith(".md"):
            continue
        prose = re.sub(r"^```.*?^```|`[^`\n]*`",
                       lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.M | re.S)
        for match in LINK.finditer(prose):
            target = match.group(1).partition("#")[0]
            if not target or re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            if not (tree.root / name).parent.joinpath(target).exists():
                tree.report(name, cpp_text.line_of(prose, match.start()), "link",
                            f"{target} does not exist")


def check_retries(tree):
    """Reports tests that are repeated until they pass, because repeating hides a fault."""
    for name, text in tree.text_files.items():
        cmake = name.endswith((".cmake", "CMakeLists.txt", "CMakePresets.json"))
        if not cmake and not name.startswith(("tools/", ".ci/", "tests/")):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if UNTIL_PASS in line:
                tree.report(name, number, "retry", f"{UNTIL_PASS}: repeating a failing test hides its fault")
