#!/usr/bin/env python3
"""Tests `tutti sim` from outside: its JSON, its trace file and its report.

    command_line_test.py TUTTI
"""

import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402

TUTTI = ""


def sim(*arguments, fails=False):
    done = subprocess.run([TUTTI, "sim", *arguments], capture_output=True, text=True, timeout=200, check=False)
    if (done.returncode != 0) != fails:
        raise AssertionError(f"tutti sim {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr if fails else done.stdout


class Traffic(unittest.TestCase):
    def test_bytes_by_link_class_sum_up_to_the_counting_rules(self):
        got = json.loads(sim("traffic", "allgather_ring", "-p", "40", "--topology", "tree:5x8x4", "--json"))
        classes = {name: one["payload_bytes"] for name, one in got["link_classes"].items()}
        self.assertEqual(classes["host_up"], 40 * 39 * 65536)
        self.assertEqual(got["counting_rules"]["LINK"]["payload_bytes"], sum(classes.values()))
        self.assertEqual(got["counting_rules"]["FAB"]["payload_bytes"], classes["up1"] + classes["down1"])
        self.assertEqual(len(got["hosts"]), 40)

    def test_traffic_per_packet_equals_that_by_trains(self):
        arguments = ["traffic", "allgather_multicast", "-p", "64", "--json"]
        several = json.loads(sim(*arguments))
        each = json.loads(sim(*arguments, "--per-packet"))
        self.assertEqual(several["times_us"], each["times_us"])
        self.assertEqual(several["link_classes"], each["link_classes"])
        self.assertGreater(each["events"], 4 * several["events"])

    def test_network_is_read_from_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".topology") as file:
            file.write("link 100Gbit/s 20ns\nfat-tree down 4 2 4 up 1 2 2\n")
            file.flush()
            got = json.loads(sim("traffic", "broadcast_multicast", "-p", "32", "--topology-file", file.name, "--json"))
        payload = {name: one["payload_bytes"] // 65536 for name, one in got["link_classes"].items()}
        self.assertEqual(payload, {"host_up": 1, "host_down": 31, "up1": 1, "down1": 7, "up2": 1, "down2": 3})

    def test_unknown_algorithm_is_refused_with_the_list(self):
        self.assertIn("allgather_bruck", sim("traffic", "allgather_by_post", fails=True))


class Run(unittest.TestCase):
    def test_trace_file_is_json_with_ranks_and_ports(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            sim("run", "broadcast", "-p", "5", "--bytes", "20K", "--trace", path)
            with open(path, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
        groups = {event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual(groups, {"ranks", "hosts' workers", "host ports", "switch ports"})
        self.assertTrue(any(event["name"] == "broadcast" for event in events))
        self.assertTrue(all(event["dur"] >= 0 for event in events if event["ph"] == "X"))

    def test_run_per_packet_takes_more_events_for_the_same_traffic(self):
        arguments = ["run", "allgather", "-p", "48", "--bytes", "16K", "--json"]
        several, each = json.loads(sim(*arguments)), json.loads(sim(*arguments, "--per-packet"))
        self.assertGreater(each["events"], several["events"])
        self.assertEqual(several["link_classes"]["host_down"]["payload_bytes"], 48 * 47 * 16384)
        self.assertEqual(each["link_classes"]["host_down"]["payload_bytes"], 48 * 47 * 16384)


class Datapath(unittest.TestCase):
    def test_each_thread_count_is_a_row(self):
        rows = json.loads(sim("datapath", "ud", "-t", "1,2,16", "--buffer", "1M", "--json"))
        self.assertEqual([row["threads"] for row in rows], [1, 2, 16])
        for row in rows:
            self.assertEqual((row["wrong_bytes"], row["chunks_missing"], row["completions"]), (0, 0, 256))
        self.assertGreater(rows[2]["gigabytes_per_second"], rows[0]["gigabytes_per_second"])

    def test_too_many_threads_are_refused(self):
        self.assertIn("1 to 256", sim("datapath", "uc", "-t", "300", fails=True))


class Sort(unittest.TestCase):
    WORK = ["--count-ns", "1", "--local-ns", "2", "--routes-ns", "5"]

    def test_each_radix_and_number_of_keys_is_a_row_of_both_runners(self):
        got = json.loads(sim("sort", "--hosts", "4", "--ranks-per-host", "2", "--radix", "2,16", "--keys", "1000,3000",
                             "--hierarchical", "--task-ns", "100", "--json", *self.WORK))
        self.assertEqual((got["settings"]["task_ns"], got["settings"]["local_ns"]), (100, 2))
        self.assertTrue(got["settings"]["hierarchical"])
        self.assertEqual([(row["keys_per_rank"], row["radix"], row["passes"]) for row in got["rows"]],
                         [(1000, 2, 32), (1000, 16, 8), (3000, 2, 32), (3000, 16, 8)])
        for row in got["rows"]:
            for runner, other in (("host", "nic"), ("nic", "host")):
                for way in ("blocking", "overlapped"):
                    self.assertGreater(row[runner][way][f"{runner}_messages"], 0)
                    self.assertEqual(row[runner][way][f"{other}_messages"], 0)
                self.assertAlmostEqual(row[runner]["ratio"],
                                       row[runner]["overlapped"]["time_us"] / row[runner]["blocking"]["time_us"])
            self.assertLess(row["nic"]["ratio"], 1)
            self.assertAlmostEqual(row["gain_percent"], 100 * (1 - row["nic"]["overlapped"]["time_us"]
                                                               / row["host"]["blocking"]["time_us"]))

    def test_work_is_set_by_the_caller(self):
        self.assertIn("--local-ns is required", sim("sort", "--count-ns", "1", "--routes-ns", "1", fails=True))

    def test_table_has_a_line_for_each_row(self):
        said = sim("sort", "--hosts", "2", "--ranks-per-host", "1", "--radix", "4,10", "--keys", "100", *self.WORK)
        self.assertEqual([line.split()[:2] for line in said.splitlines()[-2:]], [["4", "100"], ["10", "100"]])


class Sections(html.parser.HTMLParser):
    """Collects the sections of a report and all resources that it would fetch."""

    def __init__(self):
        super().__init__()
        self.sections, self.charts, self.fetched, self.open = [], 0, [], []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag in ("script", "link", "img", "iframe", "object"):
            self.fetched.append(tag)
        self.fetched += [value for name, value in attributes.items() if name in ("src", "xlink:href")]
        if tag == "a" and not attributes.get("href", "").startswith("#"):
            self.fetched.append(attributes.get("href"))
        self.charts += tag == "svg"
        if tag == "section":
            self.sections.append(attributes["id"])
        if tag not in ("meta", "line", "path", "circle", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if tag in ("circle", "rect"):
            return
        assert self.open.pop() == tag, f"</{tag}> closes something else"


class Figures(unittest.TestCase):
    def test_report_is_one_file_without_other_resources(self):
        wanted = ["fig-5", "fig-7", "fig-13", "fig-15", "table-1"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.html")
            said = sim("figures", "--quick", "--only", ",".join(wanted), "-o", path)
            with open(path, encoding="utf-8") as file:
                text = file.read()
        page = Sections()
        page.feed(text)
        self.assertEqual(page.sections, wanted)
        self.assertEqual(page.fetched, [])
        self.assertEqual(page.open, [])
        self.assertEqual(page.charts, 4)
        self.assertIn("prefers-color-scheme: dark", text)
        self.assertNotRegex(text, r"https?://|@import|url\(")
        self.assertNotRegex(text, r"\bnan\b|\binf\b")
        for word in ("Khalilov et al.", "Here", "Why they differ"):
            self.assertEqual(text.count(f"<dt>{word}</dt>"), len(wanted))
        self.assertEqual(len(re.findall(r"^(?:fig|table)-\d+ ", said, re.M)), len(wanted))

    def test_unknown_figure_is_refused(self):
        self.assertIn("fig-99", sim("figures", "--only", "fig-99", fails=True))


if __name__ == "__main__":
    TUTTI = sys.argv.pop(1)
    requirements.main()
