"""Tutti beside its peers in one run of bench/peers/compare.py, and the bars on the result."""

import os
import sys

import common

K, M = 1 << 10, 1 << 20
COLUMNS = ("--rank {rank} --ranks {ranks} --master {addresses} --interface {interface}")
CONTEND = (" contend --name {name} --operations {operations} --sizes {sizes} --iterations {iterations} "
           "--warmup {warmup} --gate {gate} " + COLUMNS)
COMPARE_TIMEOUT_S = 4 * 3600  # each launch has a limit of its own
OUT = os.path.join(common.ROOT, "build", "peers")


def contender(options, program=common.TUTTI):
    """The command template for `tutti contend` of a build of Tutti, with these options."""
    return f"{program}{CONTEND} {options}"


class Rows:
    """Result of compare.py for one operation on one fabric."""

    def __init__(self, rows, pace=None):
        self.rows = rows
        self.pace = pace  # pace of the machine, best and worst, as compare.py read it before each launch

    def of(self, contender, size, key="p50_ns"):
        """A figure of a contender, or None if the contender lacks a result in some round."""
        return next((row.get(key) for row in self.rows
                     if row["contender"] == contender and row["size_bytes"] == size and row["status"] == "ok"), None)

    def tutti(self, size, key="p50_ns"):
        return self.of("tutti default", size, key)

    def _peers(self, size, variants):
        return [row for row in self.rows if row["peer"] != "tutti" and row["size_bytes"] == size
                and (variants is None or row["variant"] in variants)]

    def fastest_peer(self, size, variants=None):
        """(time, name) of the fastest peer. A peer that failed in some rounds takes part with its other rounds."""
        timed = [(row["p50_ns"], row["contender"]) for row in self._peers(size, variants) if row.get("p50_ns")]
        return min(timed, default=None)

    def incomplete_peers(self, size, variants=None):
        """The peers that lack a result in some round. A bar that compares with such a peer is
        missed."""
        return [f"{row['contender']}: {row['status']}" for row in self._peers(size, variants) if row["status"] != "ok"]

    def limit(self, size):
        return next(row["limit_ns"] for row in self.rows if row["size_bytes"] == size)

    def failures(self):
        return sorted({f"{row['contender']}: {row['status']}" for row in self.rows if row["status"] != "ok"})


def compare(lab, tag, operation, sizes, options, peers="openmpi,mpich,gloo", variants=None, tutti="", others=(), ranks=0,
            per_host=1, warmup=10, launch_timeout_s=60):
    """Measures one operation in the lab of this name, with `per_host` ranks on each host. Without a
    lab, `ranks` processes of this host run the operation. The argument `tutti` holds the options of
    Tutti; each entry (name, options) or (name, options, program) of `others` adds a further column
    of Tutti. `options` has rounds, iterations, and the patience: the number of seconds for which compare()
    waits in all while the machine is slower than before in this run. A launch that takes longer than `launch_timeout_s`
    counts as hung."""
    os.makedirs(OUT, exist_ok=True)
    out = os.path.join(OUT, tag)
    patience = getattr(options, "patience", 0)
    fabric = ["--lab", f"tutti-{lab}", "--ranks-per-host", str(per_host)] if lab else ["--loopback", "--ranks", str(ranks)]
    command = ["bench/peers/compare.py", *fabric, "--operations", operation, "--sizes",
               ",".join(map(str, sizes)), "--rounds", str(options.rounds), "--iterations", str(options.iterations),
               "--warmup", str(warmup), "--timeout", str(launch_timeout_s), "--programs", os.path.join(common.BUILD, "bench", "peers"), "--tutti", contender(tutti),
               "--peers", peers, "--lock", "build/peers.lock", "--out", out,
               "--patience", str(patience)]
    for name, *how in others:
        command += ["--contender", name, contender(*how)]
    if variants:
        command += ["--variants", variants]
    for old in (out + ".json", out + ".md"):
        if os.path.exists(old):
            os.remove(old)
    common.call(command, timeout=COMPARE_TIMEOUT_S)
    if not os.path.exists(out + ".json"):
        sys.exit("compare.py measured nothing, see above")
    result = common.read_json(out + ".json")
    return Rows(result["rows"], result["facts"].get("pace"))


def ms(nanoseconds):
    """A time as text: in us if it is below 1 ms, otherwise in ms."""
    return us(nanoseconds) if nanoseconds is None or nanoseconds < 1e6 else f"{nanoseconds / 1e6:.2f} ms"


def us(nanoseconds):
    return "-" if nanoseconds is None else f"{nanoseconds / 1e3:.1f} us"


def name_of(size):
    return f"{size // M} MiB" if size >= M else f"{size // K} KiB" if size >= K else f"{size} B"


def bar_to_limit(verdict, rows, where, operation, size, max_ratio=1.08):
    time = rows.tutti(size)
    verdict.at_most(f"{where} {operation} {name_of(size)}: {ms(time)} over the link's limit",
                    time / rows.limit(size) if time else None, max_ratio)


def bar_to_peers(verdict, rows, where, operation, size, min_speedup, variants=None):
    """Adds a bar on the time of the fastest peer over ours; it is missed if any peer lacks a
    round."""
    time, peer = rows.tutti(size), rows.fastest_peer(size, variants)
    incomplete = rows.incomplete_peers(size, variants)
    speedup = peer[0] / time if time and peer else None
    kind = "default" if variants else "hand-picked or default"
    fastest = f"{peer[1]} {ms(peer[0])}" if peer else "none measured"
    text = f"{where} {operation} {name_of(size)}: {ms(time)}, speed over the fastest peer, {kind} ({fastest})"
    if incomplete:
        text += f"; incomplete: {', '.join(incomplete)}"
    verdict.bar(text, speedup is not None and speedup >= min_speedup and not incomplete, speedup,
                f"at least {min_speedup}, every peer in every round")


def report_pace(verdict, rows):
    """Prints how much the pace of the machine varied. Times of sizes that need both cores follow
    the pace."""
    if not rows.pace:
        return
    best, worst = rows.pace["best"], rows.pace["worst"]
    verdict.figure(f"machine pace: a system call {best['system_call_ns']:.0f} to {worst['system_call_ns']:.0f} ns, a copy "
                   f"{best['copy_ns_per_kib']:.0f} to {worst['copy_ns_per_kib']:.0f} ns a KiB; waited "
                   f"{rows.pace['waited_s']:.0f} s for a quiet moment")


def report_failures(verdict, where, *tables):
    for failure in sorted({failure for rows in tables for failure in rows.failures()}):
        verdict.figure(f"{where} {failure}")
