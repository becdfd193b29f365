"""Reads C++ as text: blanks comments and literals, and finds functions and classes by their braces."""

import re
from dataclasses import dataclass, field

LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z_])\'(?:\\.|[^\'\\\n])+\'', re.S)


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def code_only(text):
    """The text with comments and literals replaced by spaces, so that offsets and line numbers stay the same."""
    return LITERAL.sub(blank, text)


def without_directives(code):
    """The code with blank preprocessor lines, continued ones included."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, code, flags=re.M)


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
    name: str  # full name, with namespaces and enclosing types
    line: int


@dataclass
class Class(Type):
    named: bool  # whether neither the class nor any enclosing scope is anonymous
    fields: list = field(default_factory=list)  # fields as [(name, type without template arguments)]
    methods: list = field(default_factory=list)  # names of methods, one for each overload
    nested: list = field(default_factory=list)  # classes declared inside this class

    @property
    def all_fields(self):
        """The fields; a member whose type is declared inside this class counts as the fields of that type."""
        inner = {one.name.rpartition("::")[2]: one for one in self.nested}
        return sum(inner[kind].all_fields if kind in inner else 1 for _, kind in self.fields)


@dataclass
class Definition:
    """A method defined outside its class."""
    owner: str  # class as it is written: "A" or "A::B"
    name: str
    scope: str  # namespaces around the definition
    line: int


@dataclass
class Outline:
    functions: list = field(default_factory=list)  # functions with bodies, unless they are inside another function
    types: list = field(default_factory=list)  # classes and enumerations in named namespaces
    classes: list = field(default_factory=list)
    definitions: list = field(default_factory=list)


_NAMESPACE = re.compile(r"\b(?:namespace\s*([\w:]*)|extern)\s*$")
_TYPE = re.compile(r"\b(class|struct|union|enum(?:\s+(?:class|struct))?)\b\s*(?:[A-Z_]+_EXPORT\s+)?"
                   r"(?:alignas\(\s*\)\s*)?((?:\w+\s*::\s*)*\w+)?(?:\s+final)?\s*(?::(?!:).*)?$", re.S)
_OPERATOR = re.compile(r"((?:\w+\s*::\s*)*operator\s*(?:\(\s*\)|\[\s*\]|[^\s\w(]+|\w[\w:\s*&]*?))\s*\(")
_NAMED_CALL = re.compile(r"((?:\w+\s*::\s*)*~?\w+)\s*\(")
_NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return", "sizeof", "decltype",
                  "alignas", "static_assert", "requires", "noexcept", "explicit", "__attribute__"}
_NO_MEMBER = re.compile(r"(?:using|typedef|friend|static_assert|extern)\b")
_ONLY_NAMED = re.compile(r"(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+[\w:]+\s*(?::[^:].*)?$", re.S)


def _matching(code, at, opening, closing):
    """The offset of the bracket that closes the one at `at`; the end of the code if none does."""
    depth = 0
    for match in re.compile(f"[{re.escape(opening + closing)}]").finditer(code, at):
        depth += 1 if match.group() == opening else -1
        if depth == 0:
            return match.start()
    return len(code)


def _without_template_arguments(head):
    """The code without template arguments: `std::map<int, A<B>> a` becomes `std::map a`."""
    result, at = [], 0
    while at < len(head):
        before = "".join(result[-24:]).rstrip()
        if head[at] == "<" and re.search(r"\w$", before) and not before.endswith("operator"):
            depth, end = 0, at
            while end < len(head):
                if head[end] in "([":
                    end = _matching(head, end, head[end], ")" if head[end] == "(" else "]")
                elif head.startswith("<<", end):
                    end += 1
                elif head[end] == "<":
                    depth += 1
                elif head[end] == ">" and head[end - 1] not in "-=":
                    depth -= 1
                    if depth == 0:
                        break
                elif head[end] in ";)]":
                    end = len(head)
                end += 1
            if end < len(head):
                at = end + 1
                result.append(" ")
                continue
        result.append(head[at])
        at += 1
    return "".join(result)


def _bare(head):
    """The declaration without attributes, template arguments, access labels and arguments of specifiers."""
    head = re.sub(r"\[\[.*?\]\]", " ", head, flags=re.S)
    head = re.sub(r"\b(?:public|private|protected)\s*:(?!:)", " ", head)
    head = _without_template_arguments(head)
    for match in reversed(list(re.finditer(r"\b(?:alignas|decltype|noexcept|__attribute__|explicit)\s*\(", head))):
        end = _matching(head, match.end() - 1, "(", ")")
        kept = "alignas()" if match.group().startswith("alignas") else ""
        kind = " T " if match.group().startswith("decltype") else f" {kept} "
        head = head[:match.start()] + kind + head[end + 1:]
    return re.sub(r"^\s*(?:template\b\s*)+", "", head).strip()


def _function_name(bare):
    """The name of the function that a declaration declares, with its class if it is written, or None."""
    operator = _OPERATOR.search(bare)
    if operator:
        return re.sub(r"\s+", " ", operator.group(1))
    bare = re.sub(r"\[[^\]]*\]", " ", bare)  # removes the sizes of arrays
    if re.match(r"[^(=]*\(\s*(?:\w+\s*::\s*)*[*&]\s*\w*\s*(?:\[\w*\])?\s*\)", bare):
        return None  # a pointer to a function, or to an array
    for match in _NAMED_CALL.finditer(bare):
        if "=" in bare[:match.start()]:
            return None
        if match.group(1) not in _NOT_FUNCTIONS:
            return re.sub(r"\s+", "", match.group(1))
    return None


def _parameters_end(bare):
    """The offset after the parameters of a function's declaration."""
    match = _OPERATOR.search(bare) or _NAMED_CALL.search(bare)
    return _matching(bare, match.end() - 1, "(", ")") + 1 if match else len(bare)


def _initialises(bare):
    """Whether a brace after this text initialises a member in a constructor's list."""
    rest = bare[_parameters_end(bare):]
    return re.search(r"(?<!:):(?!:)", rest) is not None and re.search(r"\w\s*$", rest) is not None


def _fields(bare):
    """The names and types [(name, type)] that a declaration declares, if it has no parentheses outside its
    initialisers."""
    bare = re.sub(r"^(?:(?:static|inline|mutable|volatile|thread_local|const|alignas\(\s*\))\s+)+", "", bare)
    pieces, depth, begin = [], 0, 0
    for at, character in enumerate(bare + ","):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            pieces.append(bare[begin:at])
            begin = at + 1
    found = []
    for piece in pieces:
        declared = re.split(r"=|\{|(?<!:):(?!:)", piece)[0]
        declared = re.sub(r"\[.*?\]", "", declared, flags=re.S)
        pointer = re.search(r"\(\s*(?:\w+\s*::\s*)*[*&]\s*(\w+)", declared)
        name = pointer or re.search(r"(\w+)\s*$", declared)
        if name:
            kind = declared[:name.start()].strip() if not found else found[0][1]
            found.append((name.group(1), kind))
    return found


class _Reader:
    def __init__(self, text):
        self.code = without_directives(code_only(text))
        self.boundary = re.compile(r"[{};()]")
        self.outline = Outline()

    def read_scope(self, at, scope, owner):
        """Reads declarations from `at` to the brace that closes the scope; returns the offset after that brace."""
        begin, head = at, ""
        while True:
            match = self.boundary.search(self.code, at)
            if not match:
                return len(self.code)
            at = match.start()
            head += self.code[begin:at]
            mark = match.group()
            if mark == "(":
                end = _matching(self.code, at, "(", ")")
                # Braces inside parentheses belong to default arguments or lambdas.
                head += self.code[at:end + 1]
                at = begin = end + 1
                continue
            if mark == "{":
                at, head = self.read_braces(at, head, scope, owner)
            else:
                if mark == ";" and owner is not None:
                    self.member(head, owner)
                elif mark == ";" and re.search(r"=\s*(?:default|delete)\s*$", head):
                    self.method(_function_name(_bare(head)), line_of(self.code, at - len(head.lstrip())), scope)
                if mark == "}":
                    return at + 1
                at, head = at + 1, ""
            begin = at

    def read_braces(self, at, head, scope, owner):
        """Reads from an opening brace on; returns the offset and the declaration at which reading continues."""
        bare = _bare(head)
        first = line_of(self.code, at - len(head.lstrip()))
        namespace = _NAMESPACE.search(bare)
        if namespace:
            names = (namespace.group(1) or "").split("::")
            return self.read_scope(at + 1, scope + names, None), ""
        kind = _TYPE.search(bare)
        if kind and not re.search(r"[=(]", bare[:kind.start()]) and not bare.endswith(")"):
            return self.read_type(at, kind, first, scope, owner)
        name = _function_name(bare)
        if name and not _initialises(bare):
            end = _matching(self.code, at, "{", "}")
            self.function(name, bare, first, line_of(self.code, end), scope, owner)
            return end + 1, ""
        end = _matching(self.code, at, "{", "}")
        return end + 1, head + "{}"

    def read_type(self, at, kind, first, scope, owner):
        name = re.sub(r"\s", "", kind.group(2) or "")
        named = bool(name) and all(scope)
        full = "::".join([part or "(anonymous)" for part in scope + [name]])
        if named:
            self.outline.types.append(Type(full, first))
        if kind.group(1).startswith("enum"):
            return _matching(self.code, at, "{", "}") + 1, kind.group(1) + " x"
        made = Class(full, first, named)
        end = self.read_scope(at + 1, scope + (name.split("::") if name else [""]), made)
        rest = self.code[end:self.code.find(";", end)]
        if not name and owner is not None and not rest.strip():
            owner.fields += made.fields  # members of an anonymous union or struct belong to its owner
            owner.methods += made.methods
            return end, "struct x"
        self.outline.classes.append(made)
        if owner is not None:
            if not name:
                made.name += f"{len(owner.nested)}"
            owner.nested.append(made)
        # Declarators may follow, as in struct A { ... } a;
        return end, f"struct {name}" if not rest.strip() else made.name.rpartition("::")[2] + " "

    def function(self, name, bare, first, last, scope, owner):
        self.outline.functions.append(Function(name, first, last))
        if owner is not None:
            if not re.match(r"friend\b", bare):
                owner.methods.append(name)
        else:
            self.method(name, first, scope)

    def method(self, name, line, scope):
        """Notes a definition outside its class, if the name contains a class."""
        match = re.fullmatch(r"((?:\w+\s*::\s*)+)(.*)", name or "")
        if match:
            owner = re.sub(r"\s+", "", match.group(1)).removesuffix("::")
            self.outline.definitions.append(
                Definition(owner, match.group(2), "::".join(part for part in scope if part), line))

    def member(self, head, owner):
        bare = _bare(head)
        if not bare or _NO_MEMBER.match(bare) or _ONLY_NAMED.match(bare):
            return
        name = _function_name(bare)
        if name:
            owner.methods.append(name)
        elif not re.match(r"(?:(?:static|inline|const)\s+)*(?:constexpr|static\s+const)\b", bare):
            owner.fields += _fields(bare)


def outline(text):
    """The functions, types and classes of a file, and the methods that the file defines outside their class."""
    reader = _Reader(text)
    at = 0
    while at < len(reader.code):  # reads on after a closing brace too many
        at = reader.read_scope(at, [], None)
    reader.outline.functions.sort(key=lambda one: one.first_line)
    reader.outline.types.sort(key=lambda one: one.line)
    return reader.outline
