"""Extracts prose with line numbers: comment blocks, string literals, docstrings and documents."""

import re
from dataclasses import dataclass

import cpp_text


@dataclass
class Block:
    line: int
    text: str
    kind: str  # "comment", "string" or "document"
    offset: int = 0

    def line_at(self, offset):
        return self.line + self.text.count("\n", 0, offset)


def _joined(pieces):
    """Comments on consecutive lines as one block; a comment after code starts its own."""
    blocks, last = [], None
    for line, text, own_line, offset in pieces:
        if blocks and own_line and last == line - 1:
            blocks[-1].text += "\n" + text
        else:
            blocks.append(Block(line, text, "comment", offset))
        last = line + text.count("\n")
    return blocks


def of_cpp(text):
    comments, strings = [], []
    for match in cpp_text.LITERAL.finditer(text):
        word, line = match.group(), cpp_text.line_of(text, match.start())
        if word.startswith("//"):
            before = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
            comments.append((line, re.sub(r"^//[/!<]*\s?", "", word), not before.strip(),
                             match.start()))
        elif word.startswith("/*"):
            comments.append((line, re.sub(r"(?m)^[ \t]*\*(?!/)", "", word[2:-2]), False,
                             match.start()))
        elif '"' in word[:2]:
            strings.append(Block(line, word[word.index('"') + 1:-1], "string", match.start()))
    return _joined(comments) + strings


def of_script(text):
    """Python, shell and CMake: `#` comments and Python's triple-quoted strings."""
    blocks, comments = [], []
    pattern = re.compile(r'"""(.*?)"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(?<![\w$&{])#([^\n]*)',
                         re.S)
    for match in pattern.finditer(text):
        line = cpp_text.line_of(text, match.start())
        if match.group(1) is not None:
            blocks.append(Block(line, match.group(1), "comment", match.start()))
        elif match.group(2) is not None:
            before = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
            comments.append((line, match.group(2).strip(), not before.strip(), match.start()))
    return blocks + _joined(comments)


def of_document(text):
    blank = re.sub(r"^```.*?^```|`[^`\n]*`", lambda match: re.sub(r"[^\n]", " ", match.group()),
                   text, flags=re.M | re.S)
    return [Block(1, blank, "document")]


def blocks_of(name, text):
    if name.endswith((".hpp", ".cpp", ".h", ".c")):
        return of_cpp(text)
    if name.endswith(".md"):
        return of_document(text)
    if name.endswith((".py", ".sh", ".cmake", "CMakeLists.txt")) or text.startswith("#!"):
        return of_script(text)
    return []
