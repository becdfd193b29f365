#!/usr/bin/env python3
"""Measures Tutti beside the libraries that users might choose instead, in one run on one fabric. See README.md."""

import argparse
import datetime
import json
import os
import shlex
import sys

import contenders
import fabric as fabrics
import pace as paces
import report
import runner

HANGS_UNTIL_SKIPPED = 2


def parse_size(text):
    factors = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    factor = factors.get(text[-1:].upper(), 1)
    digits = text[:-1] if factor > 1 else text
    if not digits.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 65536, 64K or 1M")
    return int(digits) * factor


def parse_list(of):
    return lambda text: [of(part) for part in text.split(",") if part]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--lab", metavar="NAME", help="lab with the namespaces NAME-h0.. and NAME-sw; needs root")
    parser.add_argument("--ranks-per-host", type=int, default=1, help="number of ranks on each host of a lab")
    place.add_argument("--loopback", action="store_true", help="all ranks on this host, over lo")
    parser.add_argument("--ranks", type=int, default=0,
                        help="number of ranks (default: one per host of the lab; 4 on loopback)")
    parser.add_argument("--interface", default="eth0", help="data interface in each host (default: %(default)s)")
    parser.add_argument("--control-interface", help="interface of the launchers (default: the data interface)")
    parser.add_argument("--rate-bits", type=float, help="link rate in bit/s (default: read from the ports' tbf)")
    parser.add_argument("--programs", default="build/release/bench/peers", help="folder of the peers' programs")
    parser.add_argument("--operations", type=parse_list(str), default=["broadcast", "allgather"])
    parser.add_argument("--sizes", type=parse_list(parse_size), default=parse_list(parse_size)("4K,64K,256K,1M,4M"),
                        help="sizes in bytes: the vector of a broadcast, each rank's block of an allgather")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=10, help="measured repetitions in a round")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--peers", type=parse_list(str), default=list(contenders.VARIANTS),
                        help="peer libraries, a list (default: all; '': none)")
    parser.add_argument("--variants", type=parse_list(str), help="only these variants (default: all)")
    parser.add_argument("--tutti", metavar="COMMAND", help="Tutti's command line with {fields}; ratios are to its times")
    parser.add_argument("--contender", nargs=2, metavar=("NAME/VARIANT", "COMMAND"), action="append", default=[],
                        help="name and command line of another program that speaks the protocol of README.md")
    parser.add_argument("--patience", type=float, default=0, metavar="SECONDS",
                        help="longest time to wait, over all launches, until the machine is as fast as at its best in "
                             "this run (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=60, help="seconds until a launch counts as hung")
    parser.add_argument("--lock", default="build/bench.lock", help="lock file that is held during every launch")
    parser.add_argument("--cgroup", help="existing cpu cgroup in which every contender runs, to shield it from other load")
    parser.add_argument("--out", default="build/peers",
                        help="prefix of the results OUT.md and OUT.json (default: %(default)s)")
    arguments = parser.parse_args()
    if 0 in arguments.sizes and not {"barrier", "loop_barrier"}.issuperset(arguments.operations):
        parser.error("--sizes 0 is valid for barriers only: give sizes above 0")
    for peer in arguments.peers:
        if peer not in contenders.VARIANTS:
            parser.error(f"--peers: unknown peer '{peer}'; use one of {', '.join(contenders.VARIANTS)}")
    known = {variant for peer in arguments.peers for variant in contenders.VARIANTS[peer]}
    for variant in arguments.variants or []:
        if variant not in known:
            parser.error(f"--variants: unknown variant '{variant}'; use one of {', '.join(sorted(known))}")
    for operation in arguments.operations:
        if operation not in contenders.OPERATIONS:
            parser.error(f"--operations: unknown operation '{operation}'; use one of {', '.join(contenders.OPERATIONS)}")
    return arguments


def make_contenders(arguments, fabric):
    chosen = [contenders.Template("tutti", arguments.tutti)] if arguments.tutti else []
    chosen += [contenders.Template(name, command) for name, command in arguments.contender]
    for peer in arguments.peers:
        for variant in contenders.VARIANTS[peer]:
            wanted = not arguments.variants or variant in arguments.variants
            if wanted and (fabric.kind == "loopback" or variant not in contenders.LOOPBACK_ONLY):
                chosen.append(contenders.Peer(peer, variant, arguments.programs))
    return chosen


def measure(arguments, fabric, chosen, pace):
    """Runs every launch: for each operation and size, round after round, the contenders in turn."""
    launches = {}
    for operation in arguments.operations:
        for size in arguments.sizes:
            for number in range(arguments.rounds):
                for contender in rotated(chosen, number):
                    if contender.unavailable or operation not in contender.operations:
                        continue
                    mine = launches.setdefault((contender.name, operation, size), [])
                    if sum(1 for launch in mine if launch.status == "hung") >= HANGS_UNTIL_SKIPPED:
                        continue
                    job = contenders.Job(operation, size, arguments.iterations, arguments.warmup, "", "")
                    reading = pace.before_launch()
                    launch = runner.run(contender, fabric, job, arguments.timeout, arguments.lock, arguments.cgroup)
                    launch.pace = reading
                    mine.append(launch)
                    print(f"{operation} {size} round {number} {contender.name}: {launch.status} {launch.detail}"
                          f"{' (hung at exit)' if launch.hung_at_exit else ''} [{launch.wall_s:.1f} s]",
                          file=sys.stderr, flush=True)
    return launches


def rotated(chosen, number):
    """The contenders in another order for each round, so that no contender always follows the same one."""
    start = number % len(chosen)
    return chosen[start:] + chosen[:start]


def facts_of(arguments, fabric, chosen):
    example = contenders.Job("broadcast", 65536, arguments.iterations, arguments.warmup, "GATE", "FOLDER")
    return {
        "fabric": fabric.describe(), "rate_bits": fabric.rate_bits, "burst_bytes": fabric.burst_bytes,
        "ranks": fabric.ranks, "rounds": arguments.rounds, "iterations": arguments.iterations,
        "warmup": arguments.warmup, "cores": os.cpu_count(), "kernel": os.uname().release,
        "began": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "packages": contenders.package_versions(),
        "yield_shim": any(isinstance(one, contenders.Peer) and one.shimmed(fabric) for one in chosen),
        "commands": {one.name: [shlex.join(words) for words in one.commands(fabric, example)] for one in chosen
                     if not one.unavailable},
        "load_before": os.getloadavg()[0],
    }


def machine_pace(programs):
    """The path of the program that reads the machine's pace; None if the program is not built."""
    program = os.path.join(programs, "machine_pace")
    return program if os.path.exists(program) else None


def main():
    arguments = parse_arguments()
    for path in (arguments.lock, arguments.out):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    arguments.programs = os.path.abspath(arguments.programs)
    fabric = fabrics.Loopback(arguments.ranks) if arguments.loopback else fabrics.Lab(
        arguments.lab, arguments.ranks, arguments.interface, arguments.control_interface, arguments.rate_bits,
        arguments.ranks_per_host, os.path.join(arguments.programs, "..", "..", "apps", "tutti", "tutti"))
    chosen = make_contenders(arguments, fabric)
    if not chosen:
        raise SystemExit("compare: no contender is chosen: use --peers, --variants or --tutti")
    runner.adopt_orphans()
    facts = facts_of(arguments, fabric, chosen)
    pace = paces.Pace(machine_pace(arguments.programs), arguments.patience)
    launches = measure(arguments, fabric, chosen, pace)
    facts["load_after"] = os.getloadavg()[0]
    facts["pace"] = pace.facts()
    rows = [report.summarise(contender, fabric, operation, size, launches.get((contender.name, operation, size), []), pace)
            for operation in arguments.operations for size in arguments.sizes for contender in chosen
            if operation in contender.operations]
    reference = "tutti default" if arguments.tutti else None
    report.relate(rows, fabric, reference)
    result = {"schema": "tutti.bench.peers/1", "facts": facts, "reference": reference, "rows": rows}
    with open(arguments.out + ".json", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    text = report.markdown(result)
    with open(arguments.out + ".md", "w", encoding="utf-8") as file:
        file.write(text)
    print(text)
    return 0 if all(row["status"] == "ok" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
