"""Layers: which of them, and which system headers, a file may include."""

import re

# Headers that src/CMakeLists.txt does not list as a layer: the interface between engine and devices.
INTERFACES = {"device": {"base"}}
# Whoever uses a layer named here may include the interface too.
INTERFACE_USERS = {"engine", "runtime", "observe", "world", "sim", "studies"}
# Public headers that the layers below the runtime may include.
LOW_PUBLIC = {"tutti/units.hpp", "tutti/status.hpp", "tutti/reduction.hpp", "tutti/collective.hpp"}

SOCKETS = re.compile(r"<(sys/(socket|epoll|un|uio|ioctl|select)\.h|netinet/.*|arpa/.*|net/.*|poll\.h|"
                     r"netdb\.h|ifaddrs\.h|linux/.*|resolv\.h)>")
INPUT_OUTPUT = re.compile(r"<(unistd\.h|fcntl\.h|sys/.*|cstdio|stdio\.h|fstream|iostream|filesystem)>")
THREADS = re.compile(r"<(thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|"
                     r"stop_token|pthread\.h|sched\.h)>")
CLOCKS = re.compile(r"<(chrono|ctime|time\.h|sys/time\.h)>")
# Layers that are pure computation, and what each therefore does without.
PURE = {"base": [SOCKETS, INPUT_OUTPUT, THREADS], "wire": [SOCKETS, INPUT_OUTPUT, THREADS, CLOCKS],
        "protocol": [SOCKETS, INPUT_OUTPUT, THREADS, CLOCKS],
        "engine": [SOCKETS, INPUT_OUTPUT, THREADS, CLOCKS],
        "device": [SOCKETS, INPUT_OUTPUT, THREADS, CLOCKS]}
MAY_USE_SOCKETS = ("src/device/ip/", "src/runtime/", "apps/", "bench/", "tests/")


class Includes:
    def layers(self):
        """The layers and what each may include, from src/CMakeLists.txt."""
        text = ""
        for folder in ("src", "sim", "studies"):
            path = self.root / folder / "CMakeLists.txt"
            text += re.sub(r"#[^\n]*", "", path.read_text()) if path.exists() else ""
        uses = dict(INTERFACES)
        for match in re.finditer(r"tutti_layer\(\s*([\w/]+)(.*?)\)", text, re.S):
            name, rest = match.groups()
            used = re.search(r"\bUSES\b(.*?)(?:\bLINKS\b|\bSOURCES\b|$)", rest, re.S)
            uses[name] = set(used.group(1).split()) if used else set()
            if name.partition("/")[0] in INTERFACE_USERS or name.startswith("device/"):
                uses[name] |= set(INTERFACES)
        return uses

    @staticmethod
    def layer_of(path, layers):
        """The layer that a path below src/ belongs to: the longest that is its folder."""
        folder = path.rpartition("/")[0]
        while folder and folder not in layers:
            folder = folder.rpartition("/")[0]
        return folder or None

    @staticmethod
    def inner_path(name):
        """A path as its layer is named: from src/ on, or from the root in sim/ and studies/."""
        return name.removeprefix("src/")

    def check_includes(self):
        layers = self.layers()
        for name, text in self.texts.items():
            layered = name.startswith(("src/", "sim/", "studies/"))
            layer = self.layer_of(self.inner_path(name), layers) if layered else None
            if layered and layer is None:
                folder = name.partition("/")[0]
                self.report(name, 1, "layer", f"{folder}/CMakeLists.txt has no layer for this folder")
            for number, line in enumerate(text.splitlines(), 1):
                match = re.match(r'\s*#\s*include\s*(<[^>]+>|"[^"]+")', line)
                if match:
                    self.check_include(name, number, layer, match.group(1), layers)

    def check_include(self, name, number, layer, header, layers):
        if SOCKETS.fullmatch(header) and not name.startswith(MAY_USE_SOCKETS):
            self.report(name, number, "include", f"{header} belongs to src/device/ip, src/runtime, apps")
        elif layer in PURE and any(kind.fullmatch(header) for kind in PURE[layer]):
            self.report(name, number, "include", f"{header}: the layer {layer} is pure computation")
        if not name.startswith(("src/", "include/", "sim/", "studies/")) or header[0] != '"':
            return
        path = header.strip('"')
        if name.startswith("include/"):
            if not path.startswith("tutti/"):
                self.report(name, number, "include", f"a public header includes the inner {path}")
        elif path.startswith("tutti/"):
            if path not in LOW_PUBLIC and name.startswith("src/") \
                    and (layer or "").partition("/")[0] != "runtime":
                self.report(name, number, "include", f"{path} is above the layer {layer}")
        elif name.startswith("src/") and path.startswith(("sim/", "studies/")) \
                and (self.root / path).exists():
            self.report(name, number, "include", f"{path}: src may include neither sim nor studies")
        else:
            used = self.layer_of(path, layers)
            if used is None:
                self.report(name, number, "include", f"{path} is in no layer: include from src/ on")
            elif used != layer and used not in layers.get(layer, set()):
                self.report(name, number, "include",
                            f"the layer {layer} may not use {used} (USES in src/CMakeLists.txt)")
