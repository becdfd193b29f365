#!/usr/bin/env python3
"""Tests TUTTI_TRACE from outside: real jobs on loopback and in shared memory, whose merged trace must show every
collective of every rank, phases within their collective, and no message that arrives before its send."""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402

TUTTI = ""
PATIENCE_S = 100
RANKS = 4
ROUNDING_US = 1e-5  # rounding error of the times in a trace file, in us
SHIFT_S = 5000


def run(*command, **environment):
    return subprocess.run([str(one) for one in command], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                          env={**os.environ, "TUTTI_DEVICE": "ip", **environment})


def job(folder, *bench, launcher=(), ranks=RANKS, **environment):
    return run(TUTTI, "run", "-n", ranks, "--no-prefix", "--", *launcher, TUTTI, "bench", *bench, "-n", "3", "-w", "1",
               TUTTI_TRACE=str(folder), **environment)


class Span:
    def __init__(self, event, tracks):
        self.rank = event["pid"] - 1
        self.track = tracks[event["pid"], event["tid"]]
        self.name = event["name"]
        self.kind = event["cat"]
        self.begin = event["ts"]
        self.end = event["ts"] + event.get("dur", 0)
        self.about = event.get("args", {})
        self.collective = (self.about.get("communicator"), self.about.get("sequence"))


class Merged:
    """A merged trace, as a viewer reads it."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        self.about = content["otherData"]["tutti_trace"]
        self.tracks = {}
        self.processes = {}
        for event in content["traceEvents"]:
            if event["ph"] == "M" and event["name"] == "thread_name":
                self.tracks[event["pid"], event["tid"]] = event["args"]["name"]
            elif event["ph"] == "M":
                self.processes[event["pid"] - 1] = event["args"]["name"]
        self.spans = [Span(event, self.tracks) for event in content["traceEvents"] if event["ph"] in "Xi"]
        self.arrows = [event for event in content["traceEvents"] if event["ph"] in "sf"]

    def of(self, kind, rank=None):
        return [span for span in self.spans if span.kind == kind and rank in (None, span.rank)]


class Traces(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, True)

    def merge(self, *options):
        output = self.folder / "merged.json"
        done = run(TUTTI, "trace", "merge", self.folder, "-o", output, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return Merged(output), done.stdout

    def traced(self, *bench, **environment):
        done = job(self.folder, *bench, **environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        merged, text = self.merge()
        self.assertEqual(merged.about["size"], RANKS)
        self.assertEqual(merged.about["ranks_missing"], [])
        # On a busy host an engine sleeps so often that its log of 16 Ki spans overflows. That of the others never does.
        for header in merged.about["ranks"]:
            full = len(merged.of("owner", header["rank"])) >= 16 * 1024
            self.assertTrue(full or header["oldest_spans_dropped"] == 0, header)
        self.assertLess(sum(span.kind != "owner" for span in merged.spans), 128 * 1024)
        self.assertEqual(sorted(merged.processes), list(range(RANKS)))
        self.check_collectives(merged)
        self.check_nesting(merged)
        self.check_causality(merged)
        return merged, text

    def check_collectives(self, merged):
        """Checks that every rank shows the same collectives without gaps."""
        shown = [{(span.collective, span.name, span.about["bytes"]) for span in merged.of("collective", rank)}
                 for rank in range(RANKS)]
        for rank in range(RANKS):
            self.assertEqual({one[:2] for one in shown[rank]}, {one[:2] for one in shown[0]})
        numbers = collections.defaultdict(list)
        for (communicator, sequence), _, _ in shown[0]:
            numbers[communicator].append(sequence)
        for sequences in numbers.values():
            self.assertEqual(sorted(sequences), list(range(min(sequences), max(sequences) + 1)))
        self.assertGreater(len(shown[0]), 4)

    def check_nesting(self, merged):
        """Checks that on each track a span which begins within another also ends within it, and that phases belong to
        their collective."""
        tracks = collections.defaultdict(list)
        for span in merged.spans:
            tracks[span.rank, span.track].append(span)
        phases = 0
        for spans in tracks.values():
            spans.sort(key=lambda span: (span.begin, -span.end, span.kind == "phase"))
            around = []
            for span in spans:
                while around and around[-1].end <= span.begin + ROUNDING_US and around[-1].end < span.end:
                    around.pop()
                if around:
                    self.assertLessEqual(span.end, around[-1].end + ROUNDING_US, f"{span.track}: {span.name}")
                if span.kind in ("phase", "cutoff"):
                    phases += 1
                    self.assertTrue(around and around[-1].kind == "collective", f"{span.name} at {span.begin}")
                    self.assertEqual(span.collective, around[-1].collective)
                    continue  # no later span lies within a phase
                around.append(span)
        self.assertGreater(phases, 0)
        for rank in range(RANKS):
            ends = {}
            for span in sorted(merged.of("phase", rank), key=lambda one: one.begin):
                self.assertGreaterEqual(span.begin + ROUNDING_US, ends.get(span.collective, span.begin))
                ends[span.collective] = span.end

    def check_causality(self, merged):
        """Checks that by the aligned clocks no message arrives before its send, up to the error that the trace
        states."""
        error_us = merged.about["clock_error_ns"] / 1e3 + ROUNDING_US
        sent = {}
        for span in merged.of("send"):
            sent[span.collective, span.rank, span.about["peer"], span.about["slot"]] = span
        for span in merged.of("multicast"):
            sent[span.collective, span.rank, "all", span.about["slot"]] = span
        came = [((span.collective, span.about["peer"], span.rank, span.about["slot"]), span.end, span)
                for span in merged.of("receive") if "peer" in span.about]
        came += [((span.collective, span.about["peer"], "all", span.about["slot"]), span.begin, span)
                 for span in merged.of("collect")]
        self.assertGreater(len(came), 0)
        for key, at, span in came:
            self.assertIn(key, sent, span.name)
            self.assertGreaterEqual(at + error_us, sent[key].begin, f"{span.name} of {key}")
        self.assertEqual(merged.about["messages_matched"], len(came))
        self.assertEqual(len(merged.arrows), 2 * len(came))
        self.assertLessEqual(merged.about["earliest_before_sent_ns"], merged.about["clock_error_ns"])

    def test_multicast_shows_its_phases_and_blocks(self):
        merged, text = self.traced("allgather", "-b", "4K", "-e", "256K", "-f", "8", "--algorithm", "multicast", "--always-barrier")
        self.assertIn(f"{RANKS} of {RANKS} ranks", text)
        for rank in range(RANKS):
            phases = collections.defaultdict(set)
            for span in merged.of("phase", rank):
                phases[span.collective].add(span.name)
            measured = [span for span in merged.of("collective", rank) if span.name == "allgather (multicast)"]
            self.assertGreater(len(measured), 3 * 4)
            for span in measured:
                self.assertEqual(phases[span.collective], {"ready barrier", "data", "handshake"})
                sources = {one.about["peer"] for one in merged.of("collect", rank) if one.collective == span.collective}
                self.assertEqual(sources, set(range(RANKS)) - {rank})
            tracks = {span.track for span in merged.of("owner", rank)}
            self.assertIn("owner: application thread", tracks)
            self.assertTrue(any(span.name == "work" for span in merged.of("owner", rank)))
        self.assertEqual({one["clock_of_rank_0"] for one in merged.about["ranks"]}, {True})
        self.assertEqual(merged.about["clock_error_ns"], 0)

    def test_trace_of_task_lists_shows_their_tasks(self):
        for device in ("ip", "host"):
            with self.subTest(device=device):
                for old in self.folder.glob("trace-*"):
                    old.unlink()
                merged, _ = self.traced("allreduce", "-b", "4K", "-e", "256K", "-f", "64", "--algorithm", "ring", TUTTI_DEVICE=device)
                for rank in range(RANKS):
                    measured = {span.collective for span in merged.of("collective", rank) if span.name == "allreduce (ring)"}
                    for collective in measured:
                        tasks = collections.Counter(
                            span.kind for span in merged.spans if span.rank == rank and span.collective == collective)
                        # A ring Allreduce is a reduction and an Allgather around the ring.
                        self.assertEqual(tasks["send"], 2 * (RANKS - 1))
                        self.assertEqual(tasks["receive"], 2 * (RANKS - 1))
                        self.assertGreaterEqual(tasks["compute"], RANKS - 1)
                names = {span.name for span in merged.of("send", 0)}
                self.assertIn("send to 1 (eager)", names)
                self.assertIn("send to 1 (rendezvous)", names)

    def test_receive_workers_have_tracks(self):
        merged, _ = self.traced("allgather", "-b", "512K", "-e", "512K", "--algorithm", "multicast",
                                "--chunk-bytes", "4096", "--subgroups", "2",
                                TUTTI_RECEIVE_WORKERS="2")
        for rank in range(RANKS):
            tracks = {span.track for span in merged.of("receive worker", rank)}
            self.assertEqual(tracks, {"receive worker 0", "receive worker 1"})

    def test_different_clocks_are_aligned(self):
        script = f'if [ "$RANK" -ge 2 ]; then exec unshare --fork --time --monotonic {SHIFT_S} "$@"; else exec "$@"; fi'
        launcher = ("sh", "-c", script, "sh")
        if run("unshare", "--fork", "--time", "--monotonic", SHIFT_S, "true").returncode != 0:
            requirements.skip_without("timens", "this process may not create time namespaces")
        merged, _ = self.traced("broadcast", "-b", "1K", "-e", "64K", "-f", "64", launcher=launcher)
        for one in merged.about["ranks"]:
            away = one["rank"] >= 2
            self.assertEqual(one["clock_of_rank_0"], not away)
            self.assertEqual(one["clock_exchanges"], 0 if one["rank"] == 0 else 16)
            self.assertEqual(one["clock_error_ns"] > 0, away)
            expected_ns = -SHIFT_S * 1_000_000_000 if away else 0
            self.assertLessEqual(abs(one["clock_offset_ns"] - expected_ns), one["clock_error_ns"])
        self.assertGreater(merged.about["clock_error_ns"], 0)
        length_us = max(span.end for span in merged.spans) - min(span.begin for span in merged.spans)
        self.assertLess(length_us, PATIENCE_S * 1e6, "the clock of a rank is off by seconds")

    def test_untraced_ranks_are_reported_as_missing(self):
        script = 'if [ "$RANK" -eq 2 ]; then unset TUTTI_TRACE; fi; exec "$@"'
        done = job(self.folder, "barrier", launcher=("sh", "-c", script, "sh"))
        self.assertEqual(done.returncode, 0, done.stderr)
        merged, text = self.merge()
        self.assertEqual(merged.about["ranks_missing"], [2])
        self.assertIn("no file of rank(s) 2", text)
        self.assertEqual(sorted(merged.processes), [0, 1, 3])

    def test_jobs_of_one_directory_are_separate(self):
        for _ in range(2):
            self.assertEqual(job(self.folder, "barrier", ranks=2).returncode, 0)
        jobs = sorted({path.name.split("-")[1] for path in self.folder.glob("trace-*.json")})
        self.assertEqual(len(jobs), 2)
        done = run(TUTTI, "trace", "merge", self.folder)
        self.assertNotEqual(done.returncode, 0)
        for one in jobs:
            self.assertIn(one, done.stderr)
        merged, _ = self.merge("--job", jobs[1])
        self.assertEqual(merged.about["job"], jobs[1])

    def test_unusable_directory_is_named(self):
        (self.folder / "file").touch()
        for bad in (self.folder / "missing", self.folder / "file", "/proc"):
            done = job(bad, "barrier", ranks=2)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("TUTTI_TRACE", done.stderr)
            self.assertIn(f'"{bad}"', done.stderr)

    def test_one_rank_without_a_directory_fails_every_rank(self):
        script = 'if [ "$RANK" -eq 1 ]; then TUTTI_TRACE=/nowhere; fi; exec "$@"'
        done = job(self.folder, "barrier", ranks=3, launcher=("sh", "-c", script, "sh"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('TUTTI_TRACE is "/nowhere"', done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_merge_of_invalid_files_names_them(self):
        done = run(TUTTI, "trace", "merge", self.folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("has no traces", done.stderr)
        (self.folder / "trace-abc-0.json").write_text("{}")
        done = run(TUTTI, "trace", "merge", self.folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("trace-abc-0.json is not a trace of Tutti", done.stderr)

    def merge_of(self, event=None, **fields):
        """Merges one file, whose header has these fields and which has this event."""
        header = {"job": "abc", "rank": 0, "size": 2, "oldest_spans_dropped": 0, "clock_of_rank_0": True,
                  "clock_offset_ns": 0, "clock_error_ns": 0, "clock_exchanges": 0, "origin_ns": 0, **fields}
        events = [{"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "owner"}},
                  {"ph": "X", "pid": 1, "tid": 1, "name": "work", "cat": "owner", "ts": 1.5, "dur": 2.5, **(event or {})}]
        (self.folder / "trace-abc-0.json").write_text(
            json.dumps({"otherData": {"tutti_trace": header}, "traceEvents": events}))
        return run(TUTTI, "trace", "merge", self.folder, "-o", self.folder / "merged.json")

    def test_merge_of_a_file_with_values_out_of_range_names_it(self):
        for text, fields in (("size is 0 instead of 1 to 1048576", {"size": 0}),
                             ("size is 1048577 instead of 1 to 1048576", {"size": 2**20 + 1}),
                             ("size is not a whole number in its range", {"size": -1}),
                             ("rank is 2 instead of 0 to 1", {"rank": 2}),
                             ("clock_error_ns is not a whole number", {"clock_error_ns": -1}),
                             ("origin_ns is a list or an object instead of one value", {"origin_ns": [0] * 9}),
                             ("ts of an event is 1e+300 us instead of at most", {"event": {"ts": 1e300}}),
                             ("ts of an event is -5000000000000 us instead of at most", {"event": {"ts": -5e12}}),
                             ("an event at 1500000 ps has a dur of -1000000 ps", {"event": {"dur": -1}}),
                             ("an event at 4000000000000000000 ps has a dur of 4000000000000000000 ps",
                              {"event": {"ts": 4e12, "dur": 4e12}})):
            with self.subTest(text=text):
                done = self.merge_of(**fields)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("trace-abc-0.json is not a trace of Tutti (" + text, done.stderr)

    def test_merge_shows_only_the_known_fields_of_a_header(self):
        done = self.merge_of(size=2**20, added={"nested": [1]})
        self.assertEqual(done.returncode, 0, done.stderr)
        merged = Merged(self.folder / "merged.json")
        self.assertEqual(len(merged.about["ranks_missing"]), 2**20 - 1)
        self.assertEqual(merged.about["ranks"][0]["size"], 2**20)
        self.assertNotIn("added", merged.about["ranks"][0])


if __name__ == "__main__":
    TUTTI = sys.argv.pop(1)
    requirements.main()
