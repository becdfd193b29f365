"""Turns launches into figures, and figures into the markdown report."""

import math
import statistics


def percentile(values, share):
    """The percentile by nearest rank, which is one of the values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarise(contender, fabric, operation, size, launches, pace=None):
    """One row of the report: figures over all rounds of one contender at one operation and size.
    `pace` is the Pace of the run."""
    good = [launch for launch in launches if launch.status == "ok"]
    row = {"contender": contender.name, "peer": contender.peer, "variant": contender.variant, "operation": operation,
           "size_bytes": size, "rounds": len(launches), "rounds_ok": len(good), "status": "ok", "notes": []}
    if contender.unavailable:
        row["status"] = contender.unavailable
        return row
    bad = [launch for launch in launches if launch.status != "ok"]
    for launch in bad:
        row["notes"].append(f"{launch.status}: {launch.detail}")
    row["notes"] += [launch.detail for launch in good if launch.detail]
    at_exit = sum(1 for launch in good if launch.hung_at_exit)
    if at_exit:
        row["notes"].append(f"hung at exit in {at_exit} of {len(launches)}, after the result")
    row["drops"] = [sum(launch.drops[place] for launch in launches) for place in (0, 1)]
    if row["drops"][0]:
        row["notes"].append(f"hosts' own queues dropped {row['drops'][0]} packets: raise their tbf limit")
    if row["drops"][1]:
        row["notes"].append(f"switch dropped {row['drops'][1]} packets")
    if not good:
        row["status"] = bad[-1].status if bad else "not run"
        return row
    if bad:
        row["status"] = f"{bad[-1].status} in {len(bad)} of {len(launches)}"
    times = [time for launch in good for time in launch.line["times_ns"]]
    row.update(version=good[0].line.get("version", ""),
               p50_ns=statistics.median(percentile(launch.line["times_ns"], 0.5) for launch in good),
               p90_ns=percentile(times, 0.9), max_ns=max(times), repetitions=len(times),
               round_p50_ns=[percentile(launch.line["times_ns"], 0.5) for launch in good],
               late_starts=sum(launch.line.get("late_starts", 0) for launch in good))
    overlapped = [launch.line for launch in good if launch.line.get("alone_ns")]
    if overlapped:
        row.update(_overlap(overlapped))
    if pace and all(launch.pace for launch in good):
        row["round_slowness"] = [pace.slowness(launch.pace) for launch in good]
    idle = [time for launch in good for time in launch.idle_times_ns]
    if idle:
        row["none_p50_ns"] = percentile(idle, 0.5)
    traffic = [launch.link_bytes for launch in good if launch.link_bytes is not None]
    if traffic:
        row["link_bytes"] = statistics.median(traffic)
        if size > 0:
            row["link_bytes_to_ideal"] = row["link_bytes"] / fabric.ideal_link_bytes(operation, size)
    return row


def _overlap(lines):
    """The overlap as NBCBench defines it: 1 - (time of both together - time of the work alone) /
    time of the collective alone. A raw value above 1 is noise, so it is reported beside the limited
    value 1. `lost_work` is the relative increase of the time of the same work beside the
    collective."""
    raw = statistics.median(1 - (percentile(line["times_ns"], 0.5) - line["compute_ns"]) / line["alone_ns"] for line in lines)
    return {"alone_ns": statistics.median(line["alone_ns"] for line in lines), "overlap": min(1.0, raw), "overlap_raw": raw,
            "lost_work": statistics.median(line["work_overlapped_ns"] / line["work_ns"] - 1 for line in lines)}


def relate(rows, fabric, reference):
    """Adds to each row the ratios to the physical limit and to the reference contender."""
    times = {(row["operation"], row["size_bytes"]): row.get("p50_ns") for row in rows if row["contender"] == reference}
    for row in rows:
        operation, size = row["operation"], row["size_bytes"]
        limit = fabric.limit_ns(operation, size)
        row["limit_ns"] = limit
        row["limit_after_burst_ns"] = fabric.limit_after_burst_ns(operation, size)
        row["within_burst"] = bool(limit) and fabric.received_bytes(operation, size) <= fabric.burst_bytes
        if "p50_ns" not in row:
            continue
        if limit:
            row["to_limit"] = row["p50_ns"] / limit
        if times.get((operation, size)):
            row["to_reference"] = row["p50_ns"] / times[operation, size]


def _ms(value):
    if value is None:
        return "-"
    return f"{value / 1e6:.3f}" if value < 1e7 else f"{value / 1e6:.1f}"


def _ratio(value):
    return "-" if value is None else f"{value:.2f}"


def _size(size):
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def _best(rows):
    """The fastest row. A row that failed in some rounds is compared by its good rounds."""
    timed = [row for row in rows if "p50_ns" in row]
    return min(timed, key=lambda row: row["p50_ns"]) if timed else None


def _cell(rows, variant):
    """The text `time (variant)` for the summary, or the reason if there is no time."""
    chosen = _best(rows) if variant == "best" else next((row for row in rows if row["variant"] == variant), None)
    if chosen is None:
        return rows[0]["status"] if rows else "-"
    if "p50_ns" not in chosen:
        return chosen["status"]
    label = f" ({chosen['variant']})" if variant == "best" and chosen["variant"] != "default" else ""
    ratio = f" x{chosen['to_reference']:.2f}" if "to_reference" in chosen else ""
    incomplete = f" [{chosen['status']}]" if chosen["status"] != "ok" else ""
    return _ms(chosen["p50_ns"]) + ratio + label + incomplete


def _limit(row):
    """The limit, and in brackets the limit after the shaper has let its burst pass."""
    if row["limit_ns"] is None:
        return "-"
    return f"{_ms(row['limit_ns'])} ({_ms(row['limit_after_burst_ns'])})"


def _summary(rows, peers, reference):
    columns = []
    for peer in peers:
        alone = all(row["variant"] == "default" for row in rows if row["peer"] == peer)
        columns += [(peer, "default")] + ([] if alone else [(peer, "best")])
    lines = ["| operation | size | limit | " + " | ".join(f"{peer} {variant}" for peer, variant in columns) + " |",
             "|---" * (3 + len(columns)) + "|"]
    for operation, size in dict.fromkeys((row["operation"], row["size_bytes"]) for row in rows):
        here = [row for row in rows if (row["operation"], row["size_bytes"]) == (operation, size)]
        limit = _limit(here[0])
        cells = [_cell([row for row in here if row["peer"] == peer], variant) for peer, variant in columns]
        lines.append(f"| {operation} | {_size(size)} | {limit} | " + " | ".join(cells) + " |")
    lines.append("")
    lines.append("Median time in ms from the common start to the last rank's end"
                 + (f"; x = time / that of {reference}." if reference else "; Tutti was not among the contenders."))
    return lines


def _details(rows):
    lines = ["| operation | size | contender | p50 ms | p90 | max | / limit | / Tutti | link bytes per op | / ideal | "
             "status |", "|---" * 11 + "|"]
    for row in rows:
        limit = _ratio(row.get("to_limit")) + ("*" if row.get("within_burst") and "to_limit" in row else "")
        traffic = f"{row['link_bytes']:.0f}" if "link_bytes" in row else "-"
        status = "; ".join([row["status"], *_overlap_text(row), *dict.fromkeys(row["notes"])])
        lines.append(f"| {row['operation']} | {_size(row['size_bytes'])} | {row['contender']} | "
                     f"{_ms(row.get('p50_ns'))} | {_ms(row.get('p90_ns'))} | {_ms(row.get('max_ns'))} | {limit} | "
                     f"{_ratio(row.get('to_reference'))} | {traffic} | {_ratio(row.get('link_bytes_to_ideal'))} | "
                     f"{status} |")
    return lines


def _overlap_text(row):
    if "overlap" not in row:
        return []
    raw = f" (raw {row['overlap_raw']:.1%})" if row["overlap_raw"] > 1 else ""
    return [f"overlap {row['overlap']:.1%}{raw}, work {row['lost_work']:+.1%} longer"]


def _start_cost(rows):
    """A line with the time of the operation `none`, which is the error bar of short operations."""
    costs = {}
    for row in rows:
        if "none_p50_ns" in row:
            costs.setdefault(row["peer"], []).append(row["none_p50_ns"])
    listed = ", ".join(f"{peer} {_ms(statistics.median(values))}" for peer, values in costs.items())
    return f"Median time of the operation `none`, from the common start to the last rank: {listed or '-'} ms."


def _pace(pace):
    """A line about how much the pace of the machine's cores and memory varied during the run."""
    best, worst = pace["best"], pace["worst"]
    return (f"The machine, read before each launch: a system call {best['system_call_ns']:.0f} to "
            f"{worst['system_call_ns']:.0f} ns, a copy {best['copy_ns_per_kib']:.0f} to {worst['copy_ns_per_kib']:.0f} ns a "
            f"KiB on the slower core, all cores at once; {pace['waited_s']:.0f} s were spent waiting for a quiet machine.")


def markdown(result):
    """The whole report as markdown, from the same record that is written as JSON."""
    rows, facts = result["rows"], result["facts"]
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    lines = ["# Peers, measured in one run", "", f"Fabric: {facts['fabric']}.",
             f"{facts['rounds']} rounds of {facts['iterations']} repetitions ({facts['warmup']} unmeasured before each), "
             "contenders in turn within each round. p50 is the median of the rounds' medians; p90 and max are over all "
             "repetitions.",
             f"Load average {facts['load_before']} before, {facts['load_after']} after, {facts['cores']} cores, "
             f"kernel {facts['kernel']}.", ""]
    if facts["yield_shim"]:
        lines += ["MPICH runs with yield_shim.c: there are more ranks than cores.", ""]
    if facts.get("pace"):
        lines += [_pace(facts["pace"]), ""]
    lines += _summary(rows, peers, result["reference"]) + [""] + _details(rows)
    lines += ["", _start_cost(rows)]
    if facts["burst_bytes"]:
        lines += ["", f"In brackets: the limit less {facts['burst_bytes']} B, the shaper's burst, which passes at once "
                      "after a pause. \\* a host receives no more than that: the limit does not bind."]
    lines += ["", "Limit: payload a host must receive / link rate, without headers. Ideal link bytes: each block enters "
                  "the switch once and leaves it once per receiver. Link bytes: the switch's counters inside the "
                  "measured window, less the window of the operation `none`; GSO packets count their headers once."]
    return "\n".join(lines) + "\n"
