"""The tree that is checked: its texts, and the violations found in them."""

import subprocess
from dataclasses import dataclass
from functools import cached_property

import cpp_text

CODE_FOLDERS = ["include", "src", "sim", "studies", "bindings", "apps", "examples", "bench", "tests"]
# Folders whose classes, files, folders and methods are checked against the bounds.
PRODUCT = ("src/", "include/", "bindings/", "apps/", "sim/", "studies/")
SUFFIXES = {".hpp", ".cpp", ".h", ".c"}


@dataclass
class Violation:
    file: str
    line: int
    rule: str
    kind: str  # part of a rule that has several parts, or empty
    message: str

    @property
    def name(self):
        return f"{self.rule}/{self.kind}" if self.kind else self.rule

    def __str__(self):
        kind = f"{self.kind}: " if self.kind else ""
        return f"{self.file}:{self.line}: {self.rule}: {kind}{self.message}"


class Tree:
    def __init__(self, root):
        self.root = root
        self.violations = []
        self.skipped = []
        self.texts = {}  # texts of the C and C++ sources
        self._outlines = {}
        for folder in CODE_FOLDERS:
            for path in sorted((root / folder).rglob("*")):
                if path.suffix in SUFFIXES and path.is_file():
                    self.texts[path.relative_to(root).as_posix()] = path.read_text()

    def report(self, file, line, rule, message, kind=""):
        self.violations.append(Violation(file, int(line), rule, kind, message))

    def skip(self, what, reason):
        self.skipped.append(f"{what} ({reason})")

    def sources(self, *prefixes):
        return [(name, text) for name, text in self.texts.items() if name.startswith(prefixes)]

    def outline(self, name):
        if name not in self._outlines:
            self._outlines[name] = cpp_text.outline(self.texts[name])
        return self._outlines[name]

    def git(self, *arguments):
        """The output of git in this tree; None if it is no repository or the command fails."""
        if not (self.root / ".git").exists():
            return None
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True,
                              check=False)
        return done.stdout if done.returncode == 0 else None

    @cached_property
    def text_files(self):
        """The text of every text file that git knows or would add, by name; outside git, of all files except build/."""
        listed = self.git("ls-files", "-co", "--exclude-standard")
        if listed is None:
            names = [path.relative_to(self.root).as_posix() for path in self.root.rglob("*")]
        else:
            names = listed.splitlines()
        texts = {}
        for name in sorted(names):
            if name.startswith(("build/", ".git/")) or not (self.root / name).is_file():
                continue
            try:
                texts[name] = (self.root / name).read_text()
            except UnicodeDecodeError:
                pass
        return texts
