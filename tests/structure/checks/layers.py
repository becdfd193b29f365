"""Checks the layers that CMake declares, and which files may include which."""

import re

# Headers of the interface between engine and devices, which no tutti_layer lists.
INTERFACES = {"device": {"base"}}
# Layers of src that may include this interface, besides the devices and all layers above src.
INTERFACE_USERS = {"engine", "runtime", "observe", "world"}
# Public headers that the layers below the runtime may include.
LOW_PUBLIC = {"tutti/units.hpp", "tutti/priority.hpp", "tutti/status.hpp", "tutti/reduction.hpp", "tutti/collective.hpp",
              "tutti/message.hpp"}
# Folders beside src that have layers of their own. They may include src, but src must not include them.
ABOVE = ("sim", "studies")

SOCKETS = re.compile(r"<(sys/(socket|epoll|un|uio|ioctl|select)\.h|netinet/.*|arpa/.*|net/.*|poll\.h|"
                     r"netdb\.h|ifaddrs\.h|linux/.*|resolv\.h)>")
INPUT_OUTPUT = re.compile(r"<(unistd\.h|fcntl\.h|sys/.*|cstdio|stdio\.h|fstream|iostream|filesystem)>")
THREADS = re.compile(r"<(thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|"
                     r"stop_token|pthread\.h|sched\.h)>")
CLOCKS = re.compile(r"<(chrono|ctime|time\.h|sys/time\.h)>")
# Layers of pure computation, each with the kinds of headers that it must not include.
PURE = {"base": [SOCKETS, INPUT_OUTPUT, THREADS], "crypto": [SOCKETS, INPUT_OUTPUT, THREADS, CLOCKS],
        "wire": [SOCKETS, INPUT_OUTPUT, THREADS, CLOCKS],
        "protocol": [SOCKETS, INPUT_OUTPUT, THREADS, CLOCKS],
        "engine": [SOCKETS, INPUT_OUTPUT, THREADS, CLOCKS],
        "device": [SOCKETS, INPUT_OUTPUT, THREADS, CLOCKS]}
MAY_USE_SOCKETS = ("src/device/ip/", "src/device/posix/", "src/runtime/", "apps/", "bench/", "tests/")

INCLUDE = re.compile(r'\s*#\s*include\s*(<[^>]+>|"[^"]+")')
LAYER = re.compile(r"tutti_layer\(\s*([\w/]+)(.*?)\)", re.S)


def folder_of(path, folders):
    """The longest of these folders that contains a path, or None."""
    folder = path.rpartition("/")[0]
    while folder and folder not in folders:
        folder = folder.rpartition("/")[0]
    return folder or None


def includes(text):
    """The includes of a text, as [(line number, header with its brackets or quotes)]."""
    matches = ((number, INCLUDE.match(line)) for number, line in enumerate(text.splitlines(), 1))
    return [(number, match.group(1)) for number, match in matches if match]


class Layers:
    """The layers by their folder from the root, such as src/engine or sim/fabric."""

    def __init__(self, tree):
        self.texts = tree.texts
        self.uses = {f"src/{name}": {f"src/{used}" for used in used_names}
                     for name, used_names in INTERFACES.items()}
        declared = []
        for top in ("src", *ABOVE):
            for path in sorted((tree.root / top).rglob("*")):
                if path.name == "CMakeLists.txt" or path.suffix == ".cmake":
                    text = re.sub(r"#[^\n]*", "", path.read_text())
                    declared += [(top, *match.groups()) for match in LAYER.finditer(text)]
        for top, name, _ in declared:
            self.uses.setdefault(f"src/{name}" if top == "src" else name, set())
        for top, name, rest in declared:
            self.declare(f"src/{name}" if top == "src" else name, rest)

    def declare(self, layer, rest):
        used = re.search(r"\bUSES\b(.*?)(?:\b(?:LINKS|SOURCES|LAB)\b|$)", rest, re.S)
        for name in used.group(1).split() if used else []:
            self.uses[layer].add(f"src/{name}" if f"src/{name}" in self.uses else name)
        top, _, name = layer.partition("/")
        if top != "src" or name.partition("/")[0] in INTERFACE_USERS | {"device"}:
            self.uses[layer] |= {f"src/{interface}" for interface in INTERFACES} - {layer}

    def of(self, file):
        return folder_of(file, self.uses)

    def resolve(self, path):
        """The path from the root of a file that an include of src, sim or studies names; the include leaves src/
        out."""
        if path.startswith("tutti/"):
            return f"include/{path}"
        inner = f"src/{path}"
        if inner not in self.texts and (path in self.texts or not self.of(inner)) \
                and path.startswith(tuple(f"{top}/" for top in ABOVE)):
            return path
        return inner


def _pure(layer):
    """The kinds of headers that a layer must not include; a sub-folder inherits them from its folder, except for
    devices."""
    if not layer or not layer.startswith("src/"):
        return []
    name = layer[len("src/"):]
    if name.startswith("device/"):
        return []
    return PURE.get(name.partition("/")[0], [])


def check_includes(tree):
    layers = Layers(tree)
    for layer, used in layers.uses.items():
        for above in sorted(used):
            if layer.startswith("src/") and not above.startswith("src/") and above in layers.uses:
                tree.report("src/CMakeLists.txt", 1, "include", f"{layer} uses {above}: src uses nothing above it")
    for name, text in tree.texts.items():
        layer = layers.of(name)
        top = name.partition("/")[0]
        if top in ("src", *ABOVE) and layer is None:
            tree.report(name, 1, "include", f"{top}/CMakeLists.txt has no layer for this folder")
        for number, header in includes(text):
            _check_include(tree, layers, name, number, header)


def _check_include(tree, layers, name, number, header):
    layer = layers.of(name)
    if SOCKETS.fullmatch(header) and not name.startswith(MAY_USE_SOCKETS):
        tree.report(name, number, "include", f"{header} belongs to src/device/ip, src/runtime, apps")
    elif any(kind.fullmatch(header) for kind in _pure(layer)):
        tree.report(name, number, "include", f"{header}: the layer {layer} is pure computation")
    if not name.startswith(("src/", "include/", *(f"{top}/" for top in ABOVE))) or header[0] != '"':
        return
    path = header.strip('"')
    if name.startswith("include/"):
        if not path.startswith("tutti/"):
            tree.report(name, number, "include", f"a public header includes the inner {path}")
    elif path.startswith("tutti/"):
        low = name.startswith("src/") and not name.startswith("src/runtime/")
        if low and path not in LOW_PUBLIC:
            tree.report(name, number, "include", f"{path} is above the layer {layer}")
    else:
        file = layers.resolve(path)
        used = layers.of(file)
        if name.startswith("src/") and not file.startswith("src/"):
            tree.report(name, number, "include", f"{path} is above src")
        elif used is None:
            tree.report(name, number, "include", f"{path} is in no layer: include from src/ on, or from the root")
        elif used != layer and used not in layers.uses.get(layer, set()):
            tree.report(name, number, "include", f"the layer {layer} may not use {used} (USES in CMakeLists.txt)")
