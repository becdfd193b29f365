"""Checks that a header states its purpose, is included once, and opens no namespace for files that include it."""

import re

import cpp_text


def check_headers(tree):
    for name, text in tree.texts.items():
        if not name.endswith((".hpp", ".h")):
            continue
        if not text.startswith(("//", "/*")):
            tree.report(name, 1, "header", "begins with a comment that says what it is for")
        if not re.search(r"^#pragma once$", text, re.M):
            tree.report(name, 1, "header", "lacks #pragma once")
        code = cpp_text.code_only(text)
        for match in re.finditer(r"\busing\s+namespace\b", code):
            tree.report(name, cpp_text.line_of(code, match.start()), "header",
                        "using namespace reaches every file that includes this one")
