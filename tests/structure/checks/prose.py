"""Extracts the texts that people read from sources and documents: comments, strings and docstrings."""

import ast
import io
import re
import tokenize
from dataclasses import dataclass

import cpp_text


_PRINTS = {"print", "exit", "error", "fail", "SystemExit", "ArgumentTypeError", "figure", "bar", "equal", "at_least",
           "at_most"}


@dataclass
class Passage:
    kind: str  # "comment", "string", "docstring" or "document"
    line: int  # line of the first character; each newline in the text is one in the file
    text: str
    opens: bool = True  # whether the passage begins a sentence, in whatever case its first word is

    def line_at(self, offset):
        return self.line + self.text.count("\n", 0, offset)


def passages(name, text):
    """The passages of a file, by the language that its name or its first line shows."""
    first = text.partition("\n")[0]
    if name.endswith((".hpp", ".cpp", ".h", ".c")):
        return _cpp(text)
    if name.endswith(".md"):
        return _markdown(text)
    if name.endswith(".py") or (first.startswith("#!") and "python" in first):
        return _python(text)
    if name.endswith((".sh", ".cmake", ".txt", ".scenario", ".yml", ".yaml")) or first.startswith("#!"):
        return _hash_comments(text)
    return []


def _joined(lines):
    """The passages of comments [(line, column, alone, text)]; comments below each other in one column are one
    passage."""
    found = []
    end = column = None
    for line, at, alone, text in lines:
        if found and alone and line == end + 1 and at == column:
            found[-1].text += "\n" + text
        else:
            found.append(Passage("comment", line, text))
        end, column = line, at
    return found


def _cpp(text):
    lines, found = [], []
    previous = None  # end of the last string, as long as only white space follows it
    for match in cpp_text.LITERAL.finditer(text):
        literal = match.group()
        line = cpp_text.line_of(text, match.start())
        begin = text.rfind("\n", 0, match.start()) + 1
        if literal.startswith("//"):
            body = re.sub(r"^//[/!]?<?", "", literal)
            lines.append((line, match.start() - begin, not text[begin:match.start()].strip(), body))
        elif literal.startswith("/*"):
            body = re.sub(r"(?m)^[ \t]*\*(?!/)", "", re.sub(r"^/\*+<?|\*/$", "", literal))
            found.append(Passage("comment", line, body))
        elif literal.startswith('"') and not re.match(r"[ \t]*#\s*include", text[begin:]):
            between = text[previous:match.start()] if previous is not None else "x"
            if not between.strip():
                found[-1].text += "\n" * between.count("\n") + literal[1:-1]
            else:
                found.append(Passage("string", line, literal[1:-1], opens=False))
            previous = match.end()
    return _joined(lines) + found


def _hash_comments(text):
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r"\"(?:\\.|[^\"\\])*\"|'[^']*'", lambda m: " " * len(m.group()), line)
        match = re.search(r"(?:^|(?<=\s))#(?!!)\s?", bare)
        if match:
            lines.append((number, match.start(), not line[:match.start()].strip(), line[match.end():]))
    return _joined(lines)


def _python(text):
    lines, found = [], []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
                number, column = token.start
                alone = not token.line[:column].strip()
                lines.append((number, column, alone, token.string[1:]))
        module = ast.parse(text)
    except (SyntaxError, tokenize.TokenError):
        return _hash_comments(text)
    for node in ast.walk(module):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            documented = ast.get_docstring(node, clean=False)
            if documented:
                found.append(Passage("docstring", node.body[0].lineno, documented))
        found += [Passage("string", part.lineno, part.value, opens=False) for part in _said(node)]
    return _joined(lines) + found


def _said(node):
    """The strings that a program prints: help texts, errors, and the bars and figures of a verdict."""
    shown = []
    if isinstance(node, ast.keyword) and node.arg in ("help", "description"):
        shown = [node.value]
    if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _PRINTS:
        shown = node.args
    return [part for value in shown for part in ast.walk(value)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def _markdown(text):
    prose = re.sub(r"^ *```.*?^ *```|<!--.*?-->", _blank, text, flags=re.M | re.S)
    found = []
    code = False  # whether the line is in an indented block of code
    empty = True
    for number, line in enumerate(prose.splitlines(), 1):
        if not line.strip():
            empty = True
            continue
        indented = line.startswith("    ") and not re.match(r"\s*(?:[-*+]|\d+\.)\s", line)
        code = indented and (code or (empty and not (found and _is_list(found[-1]))))
        if code:
            continue
        if line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split(" | "):
                found.append(Passage("document", number, cell.strip(), opens=False))
        elif empty or re.match(r"\s*(?:[-*+>]\s|\d+\.\s|#+\s)", line) or found[-1].text.startswith("#") \
                or found[-1].line_at(len(found[-1].text)) != number - 1:
            found.append(Passage("document", number, line, opens=False))
        else:
            found[-1].text += "\n" + line
        empty = False
    return found


def _is_list(passage):
    return re.match(r"\s*(?:[-*+]|\d+\.)\s", passage.text) is not None


_MARK = r"(?:[-*+>]\s+|\d+\.\s+|#+\s+|\||\[[ x]\]\s+|-{2,}\s+|\*\*|[\"'(])*"
_BOUNDARY = re.compile(r"(?P<end>[.!?])[\"')*\]]*(?=\s|$)"      # end of a sentence
                       r"|\n(?=\s*\n)|\n(?=\s*(?:[-*+]|\d+\.)\s)")  # new paragraph or item of a list
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|vs|cf|al|[Ff]igs?|etc|approx)|(?<!['\w])[A-Z]|^\s*\d+)\.$")


def sentences(text):
    """The sentences of a passage as [(offset, sentence)], without markers of lists and headings but with end marks."""
    found, begin = [], 0
    for match in [*_BOUNDARY.finditer(text), None]:
        end = match.end() if match else len(text)
        if match and match.group("end") == "." and _ABBREVIATION.search(text[begin:match.start() + 1]):
            continue
        piece = text[begin:end]
        skipped = len(piece) - len(piece.lstrip())
        skipped += re.match(_MARK, piece[skipped:]).end()
        if piece[skipped:].strip():
            found.append((begin + skipped, piece[skipped:].rstrip()))
        begin = end
    return found
