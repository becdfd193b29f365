#!/usr/bin/env python3
"""The simulator runs the very objects that the production library is linked from.

    same_objects.py BUILD_FOLDER

Reads Ninja's own rules: the inputs of libtutti.so and those of the archive that the program `tutti`
and every simulator test link. For each layer of the protocol both must name the same object files,
all of the layer's sources and nothing compiled twice; and the archive must hold these files
unchanged.
"""

import hashlib
import os
import re
import sys

LAYERS = ("protocol", "schedule", "collectives", "engine", "wire", "base")
# A planted bug is a source of the library with a few lines changed, so its object differs on purpose.
COPIES = re.compile(r"^tests/swarm/")


def statements(build):
    """Ninja's build statements, as (outputs, rule, explicit inputs)."""
    with open(os.path.join(build, "build.ninja"), encoding="utf-8") as file:
        text = file.read().replace("$\n", "")
    for line in text.splitlines():
        match = re.match(r"build (.*?): (\S+) ?(.*)", line)
        if match:
            outputs, rule, inputs = match.groups()
            yield outputs.split("|")[0].split(), rule, re.split(r" \|\|? ", inputs)[0].split()


def inputs_of(rules, name):
    for outputs, rule, inputs in rules:
        if "LINKER" in rule and any(re.search(name, output) for output in outputs):
            return [one for one in inputs if one.endswith(".o")]
    sys.exit(f"no link rule makes {name}")


def layer_of(path):
    """The layer that an object such as src/CMakeFiles/tutti_engine.dir/engine/x.cpp.o was compiled from, or None."""
    match = re.match(r"src/CMakeFiles/tutti_(\w+)\.dir/", path)
    return match.group(1) if match else None


def digest(data):
    return hashlib.sha256(data).hexdigest()


def archived(build, archive):
    """The digests of an archive's members, each of which follows a header of 60 bytes at an even offset."""
    with open(os.path.join(build, archive), "rb") as file:
        data = file.read()
    if not data.startswith(b"!<arch>\n"):
        sys.exit(f"{archive} is no archive with its members inside")
    found, at = set(), 8
    while at < len(data):
        size = int(data[at + 48:at + 58])
        found.add(digest(data[at + 60:at + 60 + size]))
        at += 60 + size + size % 2
    return found


def main():
    build = os.path.abspath(sys.argv[1])
    if not os.path.exists(os.path.join(build, "build.ninja")):
        sys.exit("this check reads Ninja's rules: configure with -G Ninja")
    rules = list(statements(build))
    library = inputs_of(rules, r"libtutti\.so")
    simulator = inputs_of(rules, r"libtutti_all\.a$")
    program = [inputs for outputs, rule, inputs in rules
               if "EXECUTABLE_LINKER" in rule and outputs[0].endswith("apps/tutti/tutti")]
    if not program:
        sys.exit("no link rule makes the program tutti")
    problems = [f"the program itself is linked from {one}" for one in program[0] if layer_of(one)]
    with open(os.path.join(build, "build.ninja"), encoding="utf-8") as file:
        linked = re.search(r"^build apps/tutti/tutti:.*?libtutti_all\.a", file.read(), re.M)
    if not linked:
        problems.append("the program does not link libtutti_all.a")
    in_archive = archived(build, "libtutti_all.a")
    for layer in LAYERS:
        production = sorted(one for one in library if layer_of(one) == layer)
        simulated = sorted(one for one in simulator if layer_of(one) == layer)
        if not production or production != simulated:
            problems.append(f"{layer}: {set(production) ^ set(simulated) or 'no objects at all'}")
        for one in production:
            with open(os.path.join(build, one), "rb") as file:
                if digest(file.read()) not in in_archive:
                    problems.append(f"{one} is not what the archive holds")
        # Every other object of the layer would be a second compilation of the same sources.
        sources = {inputs[0] for outputs, rule, inputs in rules if "COMPILER" in rule and outputs[0] in production}
        others = [outputs[0] for outputs, rule, inputs in rules
                  if "COMPILER" in rule and inputs and inputs[0] in sources
                  and outputs[0] not in production and not COPIES.match(outputs[0])]
        problems += [f"{one} compiles {layer} again" for one in others]
        print(f"{layer}: {len(production)} objects, the same files in libtutti.so and in the simulator")
    print(*problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
