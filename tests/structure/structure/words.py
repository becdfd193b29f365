"""Plain words: banned words, headless sentences, pronouns for ranks, row codes, measurements."""

import re
import subprocess

import cpp_text

from . import prose

BASE_REVISION = "23731bf"
SUBJECT = re.compile(r"[\w./-]+(?:, [\w./-]+)*: \S")
WORDS = [
    ("vague", re.compile(r"\b(?:nobody|somebody|everybody|whoever|whomever|likewise)\b", re.I)),
    ("pronoun", re.compile(r"\b(?:he|she|his|him|her)\b", re.I)),
    ("archaic", re.compile(r"\b(?:mend(?:s|ed|ing)?|heed(?:s|ed|ing)?|befall(?:s|en)?|befell"
                           r"|is none|in vain)\b", re.I)),
]
PAPER = re.compile(r"\b(?:the source(?:'s)? (?:says|has|gives|measures|reports|does|uses|shows|calls)"
                   r"|(?:of|in|by|from|to) the source(?=[,.;:)]|$)|the source's)", re.I | re.M)
ROW_CODE = re.compile(r"(?<![\w<])[KCTO]\d{1,2}\b(?!>)")
HEADLESS = re.compile(r"(?:\A|[.!?:;]\s+|\n\s*\n\s*|\n\s*(?:[-*]|\d+\.)\s+)[\s*-]*"
                      r"((?:Who|Whom|Whose|Whoever|What|Where)\b[^.!?]*[.!?]?)")
MEASURED = re.compile(r"\b\d[\d,.]*\s?(?:ns|us|ms|s|%)(?!\w)")
TEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*\w+\s*,\s*(\w+)\s*\)")
BANNER = re.compile(r"^[ \t]*// -{2,} \S[^\n]*\n[ \t]*//[ \t]*-{3,}[ \t]*$", re.M)
NO_ROWS = ("docs/rows.md",)
QUOTES_WORDS = ("tests/structure/", "CONTRIBUTING.md")  # they name the words that they ban


class Words:
    def word(self, name, line, kind, message):
        self.report(name, line, "words", f"{kind}: {message}")

    def check_words(self):
        for name, text in self.text_files():
            if name.startswith(QUOTES_WORDS):
                continue
            for block in prose.blocks_of(name, text):
                self.check_block(name, block)
            if name.endswith((".hpp", ".cpp", ".h", ".c")):
                self.check_cpp_words(name, text)
            if name.endswith("CHANGELOG.md"):
                self.check_changelog(name, text)
        self.check_commits()

    def check_block(self, name, block):
        for kind, pattern in WORDS:
            for match in pattern.finditer(block.text):
                self.word(name, block.line_at(match.start()), kind, match.group())
        for match in PAPER.finditer(block.text):
            self.word(name, block.line_at(match.start()), "citation", match.group())
        if block.kind != "string":
            for match in HEADLESS.finditer(block.text):
                if not match.group(1).endswith("?"):
                    opening = " ".join(match.group(1).split()[:6])
                    self.word(name, block.line_at(match.start(1)), "headless", opening)
        if name.startswith(("src/", "include/", "apps/", "bindings/", "sim/", "studies/", "tests/",
                            "acceptance/", "bench/", "tools/")) and name not in NO_ROWS:
            for match in ROW_CODE.finditer(block.text):
                self.word(name, block.line_at(match.start()), "row code", match.group())
        if block.kind == "comment" and len(MEASURED.findall(block.text)) > 1:
            self.word(name, block.line, "measurements", ", ".join(MEASURED.findall(block.text)))

    def check_cpp_words(self, name, text):
        for match in BANNER.finditer(text):
            self.word(name, cpp_text.line_of(text, match.start()), "banner", "torn over two lines")
        for match in TEST.finditer(text):
            test, line = match.group(1), cpp_text.line_of(text, match.start())
            if len(test) > 70:
                self.word(name, line, "test name", f"{test} has {len(test)} characters")
            if re.match(r"(?:A|An|The|Who|What|Whoever|Where)[A-Z]", test):
                self.word(name, line, "test name", f"{test}: begin with the subject")
            if re.search(r"(?<![A-Z])[KCTO]\d{1,2}(?![a-z\d])", test):
                self.word(name, line, "row code", test)
        functions = cpp_text.outline(text)[0]
        for block in prose.of_cpp(text):
            inside = any(f.first_line < block.line <= f.last_line for f in functions)
            sentences = len(re.findall(r"[.!?](?=\s+[A-Z\[]|\s*\Z)", block.text))
            if block.kind == "comment" and inside and sentences > 2:
                self.word(name, block.line, "long comment", f"{sentences} sentences; 2 at most")

    def check_changelog(self, name, text):
        for match in re.finditer(r"^- .*(?:\n[ \t]+\S.*)*", text, re.M):
            lines = match.group().count("\n") + 1
            if lines > 3:
                self.word(name, cpp_text.line_of(text, match.start()), "changelog",
                          f"a bullet of {lines} lines; 3 at most")

    def check_commits(self):
        done = subprocess.run(["git", "log", "--no-merges", "--format=%h %s", f"{BASE_REVISION}..HEAD"],
                              cwd=self.root, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipped.append(f"commit subjects (no history since {BASE_REVISION})")
            return
        for line in done.stdout.splitlines():
            revision, _, subject = line.partition(" ")
            if len(subject) > 72 or not SUBJECT.match(subject):
                self.word(f"commit {revision}", 1, "commit", subject)
