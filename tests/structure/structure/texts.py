"""The format of sources, links between documents, paths of one machine."""

import re
import shutil
import subprocess

import cpp_text


class Texts:
    def check_format(self):
        """Whether the format could be checked."""
        program = shutil.which("clang-format-14")
        if program is None:
            return False
        names = list(self.texts)
        done = subprocess.run([program, "--dry-run", "-Werror", *names], cwd=self.root,
                              capture_output=True, text=True, check=False)
        first = {}
        for match in re.finditer(r"^(\S+?):(\d+):\d+: error:", done.stderr, re.M):
            first.setdefault(match.group(1), match.group(2))
        for name, line in first.items():
            self.report(name, line, "format", f"run clang-format-14 -i {name}")
        if done.returncode != 0 and not first:
            self.report(".clang-format", 1, "format", done.stderr.strip())
        return True

    def check_texts(self):
        home = re.compile(r"(?<![\w./$}~-])/(?:home|root|work|Users)/[\w.-]+")
        for name, text in self.text_files():
            for number, line in enumerate(text.splitlines(), 1):
                match = home.search(line)
                if match:
                    self.report(name, number, "path", f"{match.group()} is of one machine only")
            if name.endswith(".md"):
                self.check_links(name, text)

    def check_links(self, name, text):
        prose = re.sub(r"^```.*?^```|`[^`\n]*`",
                       lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.M | re.S)
        for match in re.finditer(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)", prose):
            target = match.group(1).partition("#")[0]
            if not target or re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            if not (self.root / name).parent.joinpath(target).exists():
                self.report(name, cpp_text.line_of(prose, match.start()), "link",
                            f"{target} does not exist")
