"""The shape of folders and modules: include cycles, files a folder, retries."""

import re
from collections import Counter, defaultdict

MAX_FOLDER_FILES = 25
WIDE_FOLDERS = {"src/collectives"}  # one algorithm a file
ROOTS = ("src/", "include/", "apps/", "sim/", "studies/")


def _stem(name):
    return name.rpartition(".")[0]


def find_cycle(graph):
    """One cycle of the graph as a path that ends where it starts, or None."""
    done = set()
    for start in sorted(graph):
        path, stack = [], [(start, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                path.pop()
                done.add(node)
            elif node in path:
                return path[path.index(node):] + [node]
            elif node not in done:
                path.append(node)
                stack.append((node, True))
                stack.extend((other, False) for other in sorted(graph.get(node, ())))
    return None


def components(graph):
    """The sets of more than one node that reach each other."""
    reach = {}
    for start in graph:
        seen, todo = set(), [start]
        while todo:
            for other in graph.get(todo.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        reach[start] = seen
    found = {frozenset(b for b in reach[a] if a in reach.get(b, ())) for a in graph if a in reach[a]}
    return sorted(found, key=sorted)


class Shape:
    def check_cycles(self):
        layers = self.layers()
        stems = {_stem(name) for name in self.texts}
        graphs = defaultdict(lambda: defaultdict(set))
        for name, text in self.sources("src/", "sim/", "studies/"):
            inner = self.inner_path(name)
            layer = self.layer_of(inner, layers)
            for match in re.finditer(r'^\s*#\s*include\s*"([^"]+)"', text, re.M):
                path = match.group(1)
                target = path if path.startswith(("sim/", "studies/")) and _stem(path) in stems \
                    else "src/" + path
                if _stem(target) in stems and _stem(target) != _stem(name) \
                        and layer and self.layer_of(self.inner_path(target), layers) == layer:
                    graphs[layer][_stem(name)].add(_stem(target))
        for graph in graphs.values():
            for members in components(graph):
                cycle = find_cycle({node: graph[node] & members for node in members})
                first = next(name for name in self.texts if _stem(name) == cycle[0])
                self.report(first, 1, "cycle", f"{len(members)} modules include each other: "
                            + " -> ".join(cycle))

    def check_folders(self):
        count = Counter(name.rpartition("/")[0] for name, _ in self.sources(*ROOTS))
        for folder, files in count.items():
            if files > MAX_FOLDER_FILES and folder not in WIDE_FOLDERS:
                self.report(folder, 1, "folder", f"{files} files; {MAX_FOLDER_FILES} at most")

    def check_retries(self):
        for name, text in self.text_files():
            if name.startswith("tests/structure/"):
                continue
            if name.startswith(("tools/", ".ci/", "tests/", "cmake/")) or "CMake" in name:
                for number, line in enumerate(text.splitlines(), 1):
                    if "until-pass" in line:
                        self.report(name, number, "retry", "until-pass hides tests that fail at times")
