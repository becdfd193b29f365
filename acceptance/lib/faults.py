"""Jobs of the loop program in a lab, and faults of their processes, links, datagrams and memory."""

import ctypes
import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time

import common

LOOP = os.path.join(common.BUILD, "tests", "process", "loop_program")
START_S = 60  # time limit in s until every rank has completed its first calls
# Time in s from the fault, or the request to end, to the end of the last rank; beyond it the job
# hangs.
END_S = 20
LINE = re.compile(r"^\[(\d+)\] (.*)$")
PROCESS = re.compile(r"^running as process (\d+)$")
MOST_LONG_CALLS = 4096  # largest number of long calls in a report, as in loop_program.cpp
CLONE_NEWNET = 0x40000000
IFF_UP = 1


class Job:
    """`tutti lab run` of the loop program on every host of a lab."""

    def __init__(self, lab, ranks, arguments, ranks_per_host=1, device="ip"):
        self.ranks = ranks
        self.lines = [[] for _ in range(ranks)]
        self.other_lines = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(
            [common.TUTTI, "lab", "run", "--name", lab, "--grace-s", "600", "--ranks-per-host", str(ranks_per_host),
             "--env", f"TUTTI_DEVICE={device}", "--", LOOP, *arguments, "report=1"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            match = LINE.match(line.rstrip("\n"))
            with self.changed:
                if match:
                    self.lines[int(match[1])].append(match[2])
                else:
                    self.other_lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def wait(self, condition, seconds):
        """Whether the function `condition` returns true within this time."""
        with self.changed:
            return self.changed.wait_for(condition, seconds)

    def text(self):
        with self.changed:
            return "\n".join([*self.other_lines, *(f"[{rank}] {line[:600]}" for rank, lines in enumerate(self.lines)
                                                   for line in lines)])

    def runs(self):
        """Whether every rank completes its first calls within START_S. False if the job ends
        before that."""
        def all_run():
            return all(self.pid(rank) for rank in range(self.ranks)) or self.process.poll() is not None
        return self.wait(all_run, START_S) and all(self.pid(rank) for rank in range(self.ranks))

    def pid(self, rank):
        """The process of a rank, or None if the rank has not completed its first calls."""
        return next((int(match[1]) for match in map(PROCESS.match, self.lines[rank]) if match), None)

    def said(self, rank, line):
        return line in self.lines[rank]

    def report(self, rank):
        """The report with which a rank ended, or None if it has not ended."""
        return next((json.loads(line) for line in self.lines[rank] if line.startswith("{")), None)

    def ended(self, ranks, seconds):
        """Whether these ranks write their reports within this time."""
        return self.wait(lambda: all(self.report(rank) for rank in ranks), seconds)

    def aggregators(self):
        """The processes of the aggregators that `tutti lab run` started."""
        children = subprocess.run(["pgrep", "-f", "-P", str(self.process.pid), " aggregator "], capture_output=True, text=True,
                                  check=False)
        return [int(line) for line in children.stdout.split()]

    def signal(self, ranks, number):
        for rank in ranks:
            os.kill(self.pid(rank), number)

    def remove(self):
        """Ends the ranks that still run or are stopped, and waits for the launcher."""
        for rank in range(self.ranks):
            if self.pid(rank) and not self.report(rank):
                try:
                    os.kill(self.pid(rank), signal.SIGKILL)
                except ProcessLookupError:
                    pass
        if self.process.poll() is None and not all(self.pid(rank) for rank in range(self.ranks)):
            self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class Switch:
    """The switch of a lab: links and rules. Each change returns the time at which it was complete."""

    def __init__(self, lab):
        self.lab = lab
        self.space = f"tutti-{lab}-sw"
        self.socket = None
        opener = threading.Thread(target=self._open)  # only this thread enters the namespace
        opener.start()
        opener.join()
        assert self.socket is not None, f"cannot enter the network namespace {self.space}"

    def _open(self):
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/run/netns/{self.space}", "rb") as space:
            if libc.setns(space.fileno(), CLONE_NEWNET) == 0:
                self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def close(self):
        self.socket.close()

    def link(self, port, up):
        """Sets the link of a port up or down."""
        get_flags, set_flags = 0x8913, 0x8914
        flags = struct.unpack_from("H", fcntl.ioctl(self.socket, get_flags, struct.pack("16s24x", port.encode())), 16)[0]
        flags = flags | IFF_UP if up else flags & ~IFF_UP
        fcntl.ioctl(self.socket, set_flags, struct.pack("16sH22x", port.encode(), flags))
        return time.monotonic()

    def mtu(self, port, size_bytes):
        """Sets the MTU of a port; the hosts keep theirs."""
        set_mtu = 0x8922
        fcntl.ioctl(self.socket, set_mtu, struct.pack("16si20x", port.encode(), size_bytes))
        return time.monotonic()

    def tool(self, *command, text=None):
        done = subprocess.run(["ip", "netns", "exec", self.space, *command], input=text, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} fails at the switch: {done.stderr}")
        return done.stdout

    def drop(self, **rules):
        """Drops the packets that match `rules`, which has a rule for each chain: prerouting,
        forward, postrouting."""
        chains = "".join(f"chain {hook} {{ type filter hook {hook} priority 0; {rule} counter drop; }}\n"
                         for hook, rule in rules.items())
        self.tool("nft", "-f", "-", text=f"table bridge drill {{\n{chains}}}\n")
        return time.monotonic()

    def dropped(self):
        """Packets that the rules have dropped."""
        rules = self.tool("nft", "list", "table", "bridge", "drill")
        return sum(map(int, re.findall(r"counter packets (\d+)", rules)))

    def leave_groups(self, port):
        """Lets the memberships of a port expire, and drops further reports."""
        self.drop(prerouting=f'iifname "{port}" ip protocol igmp')
        memberships = self._memberships(port)
        if not memberships:
            raise RuntimeError(f"the port {port} is a member of no group")
        for entry in memberships:
            self.tool("bridge", "mdb", "del", "dev", "br0", "port", port, "grp", entry["grp"],
                      *(["src", entry["src"]] if "src" in entry else []))
        return time.monotonic()

    def _memberships(self, port):
        shown = json.loads(self.tool("bridge", "-j", "mdb", "show", "dev", "br0"))
        return [entry for table in shown for entry in table.get("mdb", []) if entry["port"] == port]

    def member(self, port):
        """Whether the port is a member of any group."""
        return bool(self._memberships(port))

    def heal(self, ports, mtu_bytes):
        """Removes the rules and the faults of these ports."""
        self.tool("nft", "-f", "-", text="table bridge drill\ndelete table bridge drill\n")
        for port in ports:
            self.link(port, True)
            self.mtu(port, mtu_bytes)
