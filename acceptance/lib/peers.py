"""Tutti beside its peers in one run, by bench/peers/compare.py, and the bars that acceptance programs set it."""

import os
import sys

import common

K, M = 1 << 10, 1 << 20
COLUMNS = ("--rank {rank} --ranks {ranks} --master {addresses} --interface {interface}")
CONTEND = (common.TUTTI + " contend --name {name} --operations {operations} --sizes {sizes} --iterations {iterations} "
           "--warmup {warmup} --gate {gate} " + COLUMNS)
OUT = os.path.join(common.ROOT, "build", "acceptance")


class Rows:
    """What compare.py measured on one fabric for one operation."""

    def __init__(self, rows, pace=None):
        self.rows = rows
        self.pace = pace  # the machine's, best and worst, as compare.py read it before each launch

    def of(self, contender, size, key="p50_ns"):
        return next((row.get(key) for row in self.rows
                     if row["contender"] == contender and row["size_bytes"] == size and row["status"] == "ok"), None)

    def tutti(self, size, key="p50_ns"):
        return self.of("tutti default", size, key)

    def fastest_peer(self, size, variants=None):
        """(time, name) of the fastest row that is not Tutti's."""
        timed = [(row["p50_ns"], row["contender"]) for row in self.rows
                 if row["peer"] != "tutti" and row["size_bytes"] == size and row["status"] == "ok"
                 and (variants is None or row["variant"] in variants)]
        return min(timed, default=None)

    def limit(self, size):
        return next(row["limit_ns"] for row in self.rows if row["size_bytes"] == size)

    def troubles(self):
        return sorted({f"{row['contender']}: {row['status']}" for row in self.rows if row["status"] != "ok"})


def compare(lab, tag, operation, sizes, options, peers="openmpi,mpich,gloo", variants=None, tutti="", others=(), ranks=0,
            per_host=1):
    """Measures one operation at some sizes. `lab`: its name, with `per_host` ranks a host; None: `ranks` processes on this
    host. `tutti`: options of ours; `others`: (name, options) of further columns of ours. `options`: rounds and
    iterations, and seconds of patience with a machine that is slower than it was in this run."""
    os.makedirs(OUT, exist_ok=True)
    out = os.path.join(OUT, tag)
    patience = getattr(options, "patience", 0)
    place = ["--lab", f"tutti-{lab}", "--ranks-per-host", str(per_host)] if lab else ["--loopback", "--ranks", str(ranks)]
    command = ["bench/peers/compare.py", *place, "--operations", operation, "--sizes",
               ",".join(map(str, sizes)), "--rounds", str(options.rounds), "--iterations", str(options.iterations),
               "--warmup", "10", "--programs", os.path.join(common.BUILD, "bench", "peers"), "--tutti", f"{CONTEND} {tutti}",
               "--peers", peers, "--lock", "build/peers.lock", "--out", out,
               "--patience", str(patience)]
    for name, extra in others:
        command += ["--contender", name, f"{CONTEND} {extra}"]
    if variants:
        command += ["--variants", variants]
    for old in (out + ".json", out + ".md"):
        if os.path.exists(old):
            os.remove(old)
    common.call(command, timeout=1800 + patience)
    if not os.path.exists(out + ".json"):
        sys.exit("compare.py measured nothing, see above")
    result = common.read_json(out + ".json")
    return Rows(result["rows"], result["facts"].get("pace"))


def ms(nanoseconds):
    return "-" if nanoseconds is None else f"{nanoseconds / 1e6:.2f} ms"


def name_of(size):
    return f"{size // M} MiB" if size >= M else f"{size // K} KiB"


def bar_to_limit(verdict, rows, where, operation, size, most=1.08):
    time = rows.tutti(size)
    ratio = time / rows.limit(size) if time else None
    verdict.bar(f"{where} {operation} {name_of(size)}: {ms(time)}, {ratio or 0:.3f} of the link's limit (at most {most})",
                ratio is not None and ratio <= most)


def bar_to_peers(verdict, rows, where, operation, size, least, variants=None):
    time, peer = rows.tutti(size), rows.fastest_peer(size, variants)
    ratio = peer[0] / time if time and peer else None
    whom = "default" if variants else "hand-picked or default"
    verdict.bar(f"{where} {operation} {name_of(size)}: {ms(time)}, {ratio or 0:.2f}x the fastest peer, {whom} "
                f"({peer[1] + ' ' + ms(peer[0]) if peer else 'none measured'}; at least {least})",
                ratio is not None and ratio >= least)


def tell_pace(verdict, rows):
    """How evenly the machine ran: the sizes that two cores just carry follow it."""
    if not rows.pace:
        return
    best, worst = rows.pace["best"], rows.pace["worst"]
    verdict.figure(f"the machine meanwhile: a system call {best['system_call_ns']:.0f} to {worst['system_call_ns']:.0f} ns, a "
                   f"copy {best['copy_ns_per_kib']:.0f} to {worst['copy_ns_per_kib']:.0f} ns a KiB; waited "
                   f"{rows.pace['waited_s']:.0f} s for it")


def tell_troubles(verdict, where, *tables):
    for trouble in sorted({trouble for rows in tables for trouble in rows.troubles()}):
        verdict.figure(f"{where} {trouble}")
