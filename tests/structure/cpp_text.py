"""C++ read as text: comments and literals blanked, functions and types found by their braces."""

import re
from dataclasses import dataclass

_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z_])\'(?:\\.|[^\'\\\n])+\'', re.S)


def code_only(text):
    """The text with comments and literals as spaces: offsets and line numbers stay as they are."""
    return _LITERAL.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def without_directives(code):
    """Code whose preprocessor lines are blank, continued ones included."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                  lambda match: re.sub(r"[^\n]", " ", match.group()), code, flags=re.M)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


@dataclass
class Function:
    name: str
    first_line: int
    last_line: int

    @property
    def lines(self):
        return self.last_line - self.first_line + 1


@dataclass
class Type:
    name: str  # with its namespaces
    line: int


@dataclass
class _Scope:
    kind: str  # "namespace", "type", "function" or "block"
    name: str
    first_line: int


_NAMESPACE = re.compile(r"\bnamespace\s*([\w:]*)\s*$")
_TYPE = re.compile(r"\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+"
                   r"(?:\[\[.*?\]\]\s*)?(?:[A-Z_]+_EXPORT\s+)?(\w+)(?:\s+final)?\s*(?::[^:(].*)?$",
                   re.S)
_FUNCTION = re.compile(r"([~\w:]+|operator\s*[^\s\w(]+|operator\(\))\s*\(")
_NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return", "sizeof", "decltype",
                  "alignas", "static_assert", "requires", "noexcept"}


def _classify(head, inside_function):
    """What an opening brace opens, from the text between the last `;`, `{` or `}` and it."""
    head = head.strip()
    namespace = _NAMESPACE.search(head)
    if namespace:
        return "namespace", namespace.group(1)
    if inside_function:
        return "block", ""
    kind = _TYPE.search(head)
    if kind and not head.endswith(")"):
        return "type", kind.group(1)
    function = _FUNCTION.search(head)
    if function and function.group(1) not in _NOT_FUNCTIONS and not head.endswith("="):
        return "function", function.group(1)
    return "block", ""


def outline(text):
    """The functions with bodies, and the types defined in named namespaces, of a file."""
    code = without_directives(code_only(text))
    functions, types, scopes = [], [], []
    head_from = 0
    for match in re.finditer(r"[{};]", code):
        at = match.start()
        if match.group() == "{":
            head = code[head_from:at]
            inside = any(scope.kind == "function" for scope in scopes)
            kind, name = _classify(head, inside)
            first = line_of(code, head_from + len(head) - len(head.lstrip()))
            if kind == "type" and all(scope.name for scope in scopes):
                types.append(Type("::".join([scope.name for scope in scopes] + [name]), first))
            scopes.append(_Scope(kind, name, first))
        elif match.group() == "}" and scopes:
            scope = scopes.pop()
            if scope.kind == "function":
                functions.append(Function(scope.name, scope.first_line, line_of(code, at)))
        head_from = at + 1
    return functions, types
