"""A job of mix_program in a persistent lab, and the switch of this lab: its memberships and its multicast."""

import collections
import contextlib
import json
import os
import re
import subprocess
import tempfile
import threading

PATIENCE_S = 150
MANY_ROUNDS = "1000000"


class MixJob:
    """Runs mix_program on every host of a lab until `end`. Counters are known while it runs."""

    def __init__(self, tutti, program, lab, *options, rounds=MANY_ROUNDS):
        self.folder = tempfile.TemporaryDirectory()
        self.stop_file = os.path.join(self.folder.name, "stop")
        self.changed = threading.Condition()
        self.counters = collections.defaultdict(dict)
        self.reports = collections.Counter()
        self.finals = {}
        self.completed = {}
        self.lines = []
        self.errors = []
        self.running = 2  # readers
        self.process = subprocess.Popen([tutti, "lab", "run", "--name", lab, *options, "--", program, rounds,
                                         f"until={self.stop_file}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.threads = [threading.Thread(target=self._read, args=(self.process.stdout, self._on_line)),
                        threading.Thread(target=self._read, args=(self.process.stderr, self.errors.append))]
        for thread in self.threads:
            thread.start()

    def _read(self, stream, take):
        for line in stream:
            with self.changed:
                take(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.running -= 1
            self.changed.notify_all()

    def _on_line(self, line):
        self.lines.append(line)
        found = re.match(r"\[(\d+)\] (round \d+|final|complete: (\d+) rounds, (\d+) calls)(.*)", line)
        if not found:
            return
        rank = int(found[1])
        if found[4]:
            self.completed[rank] = int(found[4])
            return
        values = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", found[5])}
        self.counters[rank] = values
        self.reports[rank] += 1
        if found[2] == "final":
            self.finals[rank] = values

    def wait_until(self, condition):
        """Waits until condition(counters by rank) holds; false if the job ends before or the patience is over."""
        with self.changed:
            return self.changed.wait_for(lambda: condition(self.counters) or self.running == 0, PATIENCE_S) and \
                condition(self.counters)

    def count(self, rank, name):
        return self.counters[rank].get(name, 0)

    def warnings(self, text):
        return [line for line in self.errors if text in line]

    def end(self):
        """Ends the job after its present round; returns its exit status."""
        with open(self.stop_file, "w", encoding="utf-8"):
            pass
        return self.wait()

    def wait(self):
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            return 124
        finally:
            for thread in self.threads:
                thread.join(PATIENCE_S)
            self.process.stdout.close()
            self.process.stderr.close()
            self.folder.cleanup()

    def output(self):
        return "\n".join(self.lines[-40:] + self.errors[-40:])


class Switch:
    """The switch of a persistent lab whose host h has the port ph."""

    def __init__(self, lab):
        self.space = f"tutti-{lab}-sw"

    def _run(self, *command, **options):
        return subprocess.run(["ip", "netns", "exec", self.space, *command], capture_output=True, text=True, check=True, **options)

    def memberships(self, host):
        """The multicast groups of the ranks that the switch forwards to a host."""
        tables = json.loads(self._run("bridge", "-j", "mdb", "show", "dev", "br0").stdout)
        entries = [entry for table in tables for entry in table.get("mdb", [])]
        return sorted({entry["grp"] for entry in entries if entry.get("port") == f"p{host}" and
                       (entry["grp"].startswith("239.") or entry["grp"].startswith("ff1"))})

    def drop_membership(self, host):
        """Forgets the memberships of a host, as the time-out of a querier does; returns their number."""
        groups = self.memberships(host)
        for group in groups:
            self._run("bridge", "mdb", "del", "dev", "br0", "port", f"p{host}", "grp", group)
        return len(groups)

    @contextlib.contextmanager
    def blocked(self):
        """Drops all multicast of the ranks; IGMP still passes."""
        self._run("nft", "-f", "-", input="table bridge blocked {\n  chain forward {\n"
                  "    type filter hook forward priority 0; policy accept;\n"
                  "    meta pkttype multicast meta l4proto udp drop\n  }\n}\n")
        try:
            yield
        finally:
            self._run("nft", "delete", "table", "bridge", "blocked")
