"""Checks for plain words in comments, documents, errors, help texts and test names (CONTRIBUTING.md, "How we
write")."""

import re

import cpp_text
from checks import commits, prose

ROWS = "docs/rows.md"
MAX_TEST_NAME = 70
MAX_SENTENCES = 2
MAX_CHANGELOG_LINES = 3

WORDS = {
    "vague": re.compile(r"\b(?:nobody|somebody|everybody|whoever|whomever|likewise)\b", re.I),
    "pronoun": re.compile(r"(?<![\w'])(?:[Hh]e|[Ss]he|[Hh]is|[Hh]im|[Hh]ers?|[Hh]imself|[Hh]erself)\b(?!')"),
    "archaic": re.compile(r"\b(?:mend(?:s|ed)?|heed(?:s|ed)?|befall(?:s|en)?|befell"
                          r"|(?<!there\s)is\s+none|in\s+vain)\b", re.I),
    "row code": re.compile(r"(?<![\w./-])[KCTO]\d{1,2}\b(?!\.\w)"),
    # Of a paper; that of a message is "the source rank", that of a program "the source code".
    "citation": re.compile(
        r"\bthe\s+source\b(?!\s+(?:rank|node|address|port|block|buffer|code|file|tree|folder|form|operand|expects|of)"
        r"|'s\s+(?:next|block|buffer|address|port)|\w*\s*[/<(])", re.I),
}
KINDS = [*WORDS, "headless", "measurements", "long comment", "banner", "test name", "changelog", "commit"]
HEADLESS = re.compile(r"(?:Who|Whom|Whose|Whoever|Whomever|What|Whatever|Where|Wherever)\b")
FIGURE = re.compile(r"(?<![\w.=@])\d[\d.,']*(?:\s*(?:to|-|\.\.|and|or)\s*\d[\d.,']*)?\s?(?:(?:ns|us|ms|s)\b|%)")
BANNER = re.compile(r"^([ \t]*// ?-{2,} ?\w[^\n]*)\n[ \t]*// ?-+[ \t]*$", re.M)
TEST = re.compile(r"^\s*(?:TYPED_)?TEST(?:_[FP])?\(\s*\w+\s*,\s*(\w+)\s*\)", re.M)
SENTENCE_NAME = re.compile(r"(?:An|A|The|Whoever|Who|What|Where)(?=[A-Z])")


def check_words(tree):
    for name, text in tree.text_files.items():
        for passage in prose.passages(name, text):
            _check_passage(tree, name, passage)
        if name in tree.texts:
            _check_comments(tree, name, text)
            _check_tests(tree, name, text)
        if name == "CHANGELOG.md":
            _check_changelog(tree, name, text)
    commits.check_commits(tree)


def _say(tree, name, line, kind, text):
    text = " ".join(text.split())
    tree.report(name, line, "words", text if len(text) <= 90 else text[:87] + "...", kind)


def _around(text, match):
    return text[max(0, match.start() - 30):match.end() + 30].strip()


def _check_passage(tree, name, passage):
    if passage.kind == "string" and " " not in passage.text:
        return
    text = re.sub(r"`[^`\n]*`|\b\w+://\S+", lambda match: " " * len(match.group()), passage.text)
    for kind, pattern in WORDS.items():
        if name == ROWS and kind in ("row code", "citation"):
            continue
        for match in pattern.finditer(text):
            _say(tree, name, passage.line_at(match.start()), kind, _around(text, match))
    for offset, sentence in prose.sentences(text):
        opening = sentence[0].upper() + sentence[1:] if passage.opens and offset < 3 else sentence
        heading = passage.kind == "document" and passage.text.startswith("#")
        if HEADLESS.match(opening) and not sentence.endswith("?") and not heading:
            _say(tree, name, passage.line_at(offset), "headless", sentence)
    figures = FIGURE.findall(re.sub(r'"[^"]*"', " ", text))  # a quoted figure shows a format and is not a measurement
    if passage.kind == "comment" and len(figures) >= 2:
        _say(tree, name, passage.line, "measurements", ", ".join(figures))


def _check_comments(tree, name, text):
    for match in BANNER.finditer(text):
        _say(tree, name, cpp_text.line_of(text, match.start()) + 1, "banner", match.group(1))
    bodies = [(function.first_line, function.last_line) for function in tree.outline(name).functions]
    for passage in prose.passages(name, text):
        inside = any(first < passage.line < last for first, last in bodies)
        if passage.kind == "comment" and inside:
            count = len(prose.sentences(passage.text))
            if count > MAX_SENTENCES:
                _say(tree, name, passage.line, "long comment", f"{count} sentences: {passage.text}")


def _check_tests(tree, name, text):
    for match in TEST.finditer(text):
        test, line = match.group(1), cpp_text.line_of(text, match.start(1))
        if len(test) > MAX_TEST_NAME:
            _say(tree, name, line, "test name", f"{len(test)} characters: {test}")
        elif SENTENCE_NAME.match(test):
            _say(tree, name, line, "test name", f"is a sentence: {test}")
        for code in re.finditer(r"(?<![A-Z0-9])[KCTO]\d{1,2}(?=[A-Z_]|$)", test):
            _say(tree, name, line, "row code", f"{code.group()} in {test}")


def _check_changelog(tree, name, text):
    for match in re.finditer(r"^- .*(?:\n[ \t]+\S.*)*", text, re.M):
        lines = match.group().count("\n") + 1
        if lines > MAX_CHANGELOG_LINES:
            _say(tree, name, cpp_text.line_of(text, match.start()), "changelog",
                 f"{lines} lines: {match.group()}")
