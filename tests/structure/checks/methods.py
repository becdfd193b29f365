"""Checks that types have one definition, and that a method is defined in a file named after its class's header."""

import re

from checks.tree import PRODUCT

# Methods that may be defined elsewhere, as {(file, class): reason}.
EXCEPTIONS = {}


def stem(path):
    return path.rpartition("/")[2].partition(".")[0]


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def check_definitions(tree):
    """Reports types with equal names, which break the one-definition rule if the linker merges their code."""
    seen = {}
    for name, _ in tree.sources(*PRODUCT[:3]):
        for kind in tree.outline(name).types:
            if kind.name in seen:
                tree.report(name, kind.line, "one definition",
                            f"{kind.name} is another type at {seen[kind.name]}")
            seen.setdefault(kind.name, f"{name}:{kind.line}")


def _headers(tree):
    """The classes by the last part of their name, as {name: [(full name, header)]}."""
    found = {}
    for name, _ in tree.sources(*PRODUCT):
        if name.endswith((".hpp", ".h")):
            for kind in tree.outline(name).classes:
                found.setdefault(kind.name.rpartition("::")[2], []).append((kind.name, name))
    return found


def _header_of(owner, scope, headers):
    """The header that declares a class; of several with its name, the nearest in namespaces."""
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
    """Whether a file is named after the class or after a header of `declaring`, perhaps with a suffix."""
    stems = [stem(header) for header in declaring if header]
    return (stem(file) in {snake(part) for part in owner.split("::")} | set(stems)
            or stem(file).startswith(tuple(f"{one}_" for one in stems)))


def check_files(tree):
    headers = _headers(tree)
    for name, _ in tree.sources(*PRODUCT):
        outline = tree.outline(name)
        here = {kind.name.rpartition("::")[2] for kind in outline.classes}
        told = set()  # files and classes for which a violation has been reported
        for definition in outline.definitions:
            owner = definition.owner
            outer, _, last = owner.rpartition("::")
            if last in here or owner in told or (name, owner) in EXCEPTIONS or snake(last) == last:
                continue  # a name in snake case is a namespace, so this is a function
            header = _header_of(owner, definition.scope, headers)
            around = _header_of(outer.partition("::")[0], definition.scope, headers) if outer else None
            if not _fits(name, owner, [header, around]):
                told.add(owner)
                place = f"declared in {header}" if header else "declared in no header"
                home = stem(header) if header else snake(last)
                tree.report(name, definition.line, "method file",
                            f"{owner}::{definition.name} belongs to {home}*.cpp ({place})")
