"""Types have one definition, and a method is defined in a file that carries the name of its class's header."""

import re

from checks.tree import PRODUCT

# Methods defined elsewhere: {(file, class): why}.
EXCEPTIONS = {}


def stem(path):
    return path.rpartition("/")[2].partition(".")[0]


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def check_definitions(tree):
    """Two types of one name break the one-definition rule where the linker merges their code."""
    seen = {}
    for name, _ in tree.sources(*PRODUCT[:3]):
        for kind in tree.outline(name).types:
            if kind.name in seen:
                tree.report(name, kind.line, "one definition",
                            f"{kind.name} is another type at {seen[kind.name]}")
            seen.setdefault(kind.name, f"{name}:{kind.line}")


def _headers(tree):
    """{last name of a class: [(its whole name, header)]}"""
    found = {}
    for name, _ in tree.sources(*PRODUCT):
        if name.endswith((".hpp", ".h")):
            for kind in tree.outline(name).classes:
                found.setdefault(kind.name.rpartition("::")[2], []).append((kind.name, name))
    return found


def _header_of(owner, scope, headers):
    """The header that declares a class, of those with its name the one nearest in namespaces."""
    whole = f"{scope}::{owner}" if scope else owner
    candidates = headers.get(owner.rpartition("::")[2], [])
    for declared, header in candidates:
        if declared == whole:
            return header
    for declared, header in candidates:
        if f"::{declared}".endswith(f"::{owner}"):
            return header
    return None


def _fits(file, owner, declaring):
    """Whether the file has the name of the class, or of a header of `declaring`, or a longer one."""
    stems = [stem(header) for header in declaring if header]
    return (stem(file) in {snake(part) for part in owner.split("::")} | set(stems)
            or stem(file).startswith(tuple(f"{one}_" for one in stems)))


def check_files(tree):
    headers = _headers(tree)
    for name, _ in tree.sources(*PRODUCT):
        outline = tree.outline(name)
        here = {kind.name.rpartition("::")[2] for kind in outline.classes}
        told = set()  # one violation for a class in a file
        for definition in outline.definitions:
            owner = definition.owner
            outer, _, last = owner.rpartition("::")
            if last in here or owner in told or (name, owner) in EXCEPTIONS or snake(last) == last:
                continue  # snake case: a function of a namespace
            header = _header_of(owner, definition.scope, headers)
            around = _header_of(outer.partition("::")[0], definition.scope, headers) if outer else None
            if not _fits(name, owner, [header, around]):
                told.add(owner)
                place = f"declared in {header}" if header else "declared in no header"
                home = stem(header) if header else snake(last)
                tree.report(name, definition.line, "method file",
                            f"{owner}::{definition.name} belongs to {home}*.cpp ({place})")
