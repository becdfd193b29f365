"""Checks the sizes of functions, files, folders and classes."""

from collections import Counter

from checks.tree import PRODUCT

MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 600
MAX_FOLDER_FILES = 25
MAX_FIELDS = 25
MAX_METHODS = 40
BOUNDED_FOLDERS = ("src", "include", "apps", "sim", "studies")
# This folder has one file per algorithm, so it may have more files.
ANY_NUMBER_OF_FILES = {"src/collectives"}
# Classes and files that may exceed the bounds, three at most, each with the reason.
EXCEPTIONS = {
    "tutti::observe::Counters": "a flat record of counters by design",
    "tutti::device::EndpointCounters": "a flat record of counters by design",
    "tutti::trigger::Descriptor": "fields of a hardware format",
}


def check_functions(tree):
    for name in tree.texts:
        for function in tree.outline(name).functions:
            if function.lines > MAX_FUNCTION_LINES:
                tree.report(name, function.first_line, "function length",
                            f"{function.name} has {function.lines} lines; {MAX_FUNCTION_LINES} at most")


def check_files(tree):
    for name, text in tree.sources(*PRODUCT):
        lines = text.count("\n")
        if lines > MAX_FILE_LINES and name not in EXCEPTIONS:
            tree.report(name, lines, "file length", f"{lines} lines; {MAX_FILE_LINES} at most")


def check_folders(tree):
    counts = Counter(name.rpartition("/")[0] for name in tree.text_files
                     if name.partition("/")[0] in BOUNDED_FOLDERS)
    for folder, files in sorted(counts.items()):
        if files > MAX_FOLDER_FILES and folder not in ANY_NUMBER_OF_FILES:
            tree.report(folder, 1, "folder", f"{files} files; {MAX_FOLDER_FILES} at most")


def _classes(tree):
    """The classes that must keep the bounds, as [(file, class)]."""
    return [(name, kind) for name, _ in tree.sources(*PRODUCT) for kind in tree.outline(name).classes
            if kind.name not in EXCEPTIONS]


def check_fields(tree):
    for name, kind in _classes(tree):
        if kind.all_fields > MAX_FIELDS:
            tree.report(name, kind.line, "fields", f"{kind.name} has {kind.all_fields}; {MAX_FIELDS} at most")


def check_methods(tree):
    for name, kind in _classes(tree):
        if len(kind.methods) > MAX_METHODS:
            tree.report(name, kind.line, "methods", f"{kind.name} has {len(kind.methods)}; {MAX_METHODS} at most")
