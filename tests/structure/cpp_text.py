"""C++ read as text: comments and literals blanked, functions and types found by their braces."""

import re
from dataclasses import dataclass

LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z_])\'(?:\\.|[^\'\\\n])+\'', re.S)


def code_only(text):
    """The text with comments and literals as spaces: offsets and line numbers stay as they are."""
    return LITERAL.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


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
                   r"(?:\[\[.*?\]\]\s*)?(?:[A-Z_]+_EXPORT\s+)?(\w+(?:::\w+)*)(?:\s+final)?\s*(?::[^:(].*)?$",
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


@dataclass
class Class:
    name: str
    path: list  # its name after those of the classes around it
    line: int
    fields: list  # (type, name)
    methods: list


def _closing(code, at):
    """The offset of the brace that closes the one at `at`."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, at):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.start()
    return len(code)


def _plain(head):
    """A declaration without access labels, attributes, template lists and template arguments."""
    head = re.sub(r"\b(?:public|private|protected)\s*:(?!:)", " ", head)
    head = re.sub(r"\[\[.*?\]\]|\balignas\s*\([^()]*\)", " ", head, flags=re.S)
    head = re.sub(r"\boperator\s*[^\w\s(]+\s*\(", "operator_(", head)
    head = re.sub(r"\boperator\s*\(\s*\)\s*\(", "operator_(", head)
    while re.search(r"<[^<>;]*>", head):
        head = re.sub(r"<[^<>;]*>", " ", head)
    return re.sub(r"\btemplate\b", " ", head).strip()


def _member(head, item):
    """Adds what a declaration declares to a class."""
    plain = _plain(head)
    if not plain or re.match(r"(?:using|typedef|friend|static_assert|enum|requires)\b", plain) \
            or re.fullmatch(r"(?:class|struct|union)\s+\w+", plain):
        return
    declared = re.split(r"[={]", plain)[0]
    method = re.search(r"(operator_|operator\s+[\w:\s*&]+?|~?\w+)\s*\(", declared)
    if method and not re.search(r"\(\s*\*", declared[:method.end() + 2]):
        item.methods.append(method.group(1))
        return
    if re.match(r"(?:inline\s+|constexpr\s+)*static\b", plain):
        return
    while re.search(r"\{[^{}]*\}|\([^()]*\)", plain):
        plain = re.sub(r"\{[^{}]*\}|\([^()]*\)", " ", plain)
    for part in plain.split(","):
        words = re.findall(r"[\w:]+", re.sub(r":\s*\d+\s*$|\[[^\]]*\]|=.*", "", part, flags=re.S))
        if words:
            whole = " ".join(re.sub(r"\{.*", "", head, flags=re.S).split("=")[0].split()[:-1])
            item.fields.append((whole, words[-1]))


def _class_body(code, start, end, item, found):
    head_from, at = start, start
    token = re.compile(r"[{};]")
    while True:
        match = token.search(code, at, end)
        if not match:
            return
        at = match.end()
        head = code[head_from:match.start()]
        if match.group() == ";":
            _member(head, item)
            head_from = at
            continue
        close = _closing(code, match.start())
        kind = _TYPE.search(re.sub(r"\b(?:public|private|protected)\s*:(?!:)", " ", head).strip())
        at = close + 1
        rest = code[at:end].lstrip()
        if kind and "(" not in _plain(head):
            if not re.search(r"\benum\b", head):
                _class(code, head, match.start(), kind.group(1), item.path, head_from, found)
            head_from = at
        elif "(" in _plain(head).split("=")[0] and not rest.startswith((",", "{", ";")):
            _member(head, item)
            head_from = at
        elif "(" in _plain(head).split("=")[0] and rest.startswith(";"):
            _member(head, item)
            head_from = at


def _class(code, head, brace, name, path, head_from, found):
    first = line_of(code, head_from + len(head) - len(head.lstrip()))
    path = path + name.split("::")
    item = Class(path[-1], path, first, [], [])
    found.append(item)
    _class_body(code, brace + 1, _closing(code, brace), item, found)


def classes(text):
    """The classes of a file, nested ones after those around them."""
    code = without_directives(code_only(text))
    found, head_from, at = [], 0, 0
    token = re.compile(r"[{};]")
    while True:
        match = token.search(code, at)
        if not match:
            return found
        at = match.end()
        if match.group() == "{":
            head = code[head_from:match.start()]
            kind, name = _classify(head, False)
            if kind == "type" and not re.search(r"\benum\b", head):
                _class(code, head, match.start(), name, [], head_from, found)
            if kind != "namespace" and not re.search(r'\bextern\s*$', head.strip()):
                at = _closing(code, match.start()) + 1
        head_from = at


def field_count(item, found, seen=()):
    """The fields of a class; those of a member whose type is a class of `found` count each."""
    types = {other.name: other for other in found if other is not item}
    total = 0
    for kind, _ in item.fields:
        inner = types.get(re.sub(r"\b(?:public|private|protected)\s*:|\bmutable\b|\bconst\b", "",
                                 kind).strip())
        if inner and inner.name not in seen:
            total += field_count(inner, found, (*seen, item.name))
        else:
            total += 1
    return total


def definitions(text):
    """(classes and namespaces before the name, name, line) of each function defined out of class."""
    code = without_directives(code_only(text))
    found, head_from, at = [], 0, 0
    token = re.compile(r"[{};]")
    while True:
        match = token.search(code, at)
        if not match:
            return found
        at = match.end()
        if match.group() == "{":
            head = code[head_from:match.start()]
            kind, _ = _classify(head, False)
            name = re.search(r"((?:\w+::)+)(~?\w+)\s*\(", _plain(head))
            if kind == "function" and name:
                first = line_of(code, head_from + len(head) - len(head.lstrip()))
                found.append((name.group(1).split("::")[:-1], name.group(2), first))
            if kind != "namespace":
                at = _closing(code, match.start()) + 1
        head_from = at
