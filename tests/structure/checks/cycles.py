"""Checks that no modules inside a layer include each other in a cycle. A module is a header with its source."""

from collections import defaultdict, deque

from checks import layers


def _graph(tree):
    """The includes between modules of one layer, as {module: {included module: (file, line)}}."""
    of = layers.Layers(tree)
    graph = defaultdict(dict)
    for name, text in tree.texts.items():
        layer = of.of(name)
        if layer is None:
            continue
        module = name.rpartition(".")[0]
        for number, header in layers.includes(text):
            if header[0] != '"':
                continue
            included = of.resolve(header.strip('"'))
            target = included.rpartition(".")[0]
            if included in tree.texts and of.of(included) == layer and target != module:
                graph[module].setdefault(target, (name, number))
    return graph


def _way(graph, begin, end):
    """The shortest path from one module to another, as a list of modules, or None."""
    before, queue = {begin: None}, deque([begin])
    while queue:
        module = queue.popleft()
        if module == end:
            way = [module]
            while before[way[-1]] is not None:
                way.append(before[way[-1]])
            return way[::-1]
        for target in sorted(graph.get(module, ())):
            if target not in before:
                before[target] = module
                queue.append(target)
    return None


def _circles(graph):
    """The shortest cycle through each include that is part of a cycle, each cycle once, shortest first."""
    found = {}
    for module in sorted(graph):
        for target in sorted(graph[module]):
            way = _way(graph, target, module)
            if way:
                found.setdefault(frozenset(way), [module, *way])
    return sorted(found.values(), key=lambda circle: (len(circle), circle))


def check_cycles(tree):
    """Reports cycles that share no include with a shorter cycle; with those cut, the search is repeated."""
    graph = _graph(tree)
    told = set()
    for circle in _circles(graph):
        edges = set(zip(circle, circle[1:]))
        if edges & told:
            continue
        told |= edges
        file, line = graph[circle[0]][circle[1]]
        tree.report(file, line, "cycle",
                    " -> ".join(module.removeprefix("src/") for module in circle))
