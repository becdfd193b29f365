"""Classes: how many fields and methods they have, and in which file a method is defined."""

import re
from pathlib import PurePosixPath

import cpp_text

MAX_FIELDS = 25
MAX_METHODS = 40
# Exceptions, three at most: class -> reason. None is granted yet.
LARGE_CLASSES = {}
# Exceptions: (class, file) -> reason.
DEFINED_ELSEWHERE = {}


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class Classes:
    def check_classes(self):
        declared = {}
        for name, text in self.sources("src/", "include/", "bindings/", "apps/", "sim/", "studies/"):
            found = cpp_text.classes(text)
            for item in found:
                declared.setdefault(item.name, []).append((name, item))
                fields = cpp_text.field_count(item, found)
                if item.name in LARGE_CLASSES:
                    continue
                if fields > MAX_FIELDS:
                    self.report(name, item.line, "fields",
                                f"{item.name} has {fields}; {MAX_FIELDS} at most")
                if len(item.methods) > MAX_METHODS:
                    self.report(name, item.line, "methods",
                                f"{item.name} has {len(item.methods)}; {MAX_METHODS} at most")
        for name, text in self.sources("src/", "bindings/", "apps/", "sim/", "studies/"):
            for owner, method, line in cpp_text.definitions(text):
                self.check_home(name, line, owner, method, declared)

    def check_home(self, name, line, owner, method, declared):
        homes = [(where, item) for where, item in declared.get(owner[-1], [])
                 if item.path[-len(owner):] == owner[-len(item.path):]]
        if not homes or (owner[-1], name) in DEFINED_ELSEWHERE:
            return
        stem = PurePosixPath(name).stem
        for where, item in homes:
            headers = {PurePosixPath(where).stem}
            headers |= {PurePosixPath(outer).stem for outer, other in declared.get(item.path[0], [])
                        if other.path == item.path[:1]}
            if where == name or stem in {snake(item.name), snake(item.path[0]), *headers} \
                    or any(stem.startswith(header + "_") for header in headers):
                return
        self.report(name, line, "method file", f"{owner[-1]}::{method} is declared in {homes[0][0]}")
