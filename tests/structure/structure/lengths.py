"""How headers begin, how long files and functions are, and types of one name."""

import re

import cpp_text

MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 600


class Lengths:
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
