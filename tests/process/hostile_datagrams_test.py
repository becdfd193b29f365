#!/usr/bin/env python3
"""Tests a job beside a stranger that sees all of its datagrams: it sends them again, reordered, and changed ones. The
ranks are processes on the loopback interface of a network namespace of its own.

  hostile_datagrams_test.py LOOP_PROGRAM [DATAGRAMS]      number of datagrams that the stranger sends
"""

import os
import random
import select
import signal
import socket
import struct
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402
from job import free_port, Rank  # noqa: E402
from own_network import enter_own_network  # noqa: E402

PROGRAM = ""
DATAGRAMS = 20_000
RANKS = 3
BLOCK_BYTES = 600  # one datagram each, so that the kernel hands out what it received one by one
ETH_P_IP = 0x0800
# Datagrams of the ranks that name the receiver as their source fall to its socket filter, which the kernel counts as drops.
REFUSALS = ("device_rejected_foreign", "device_rejected_integrity", "device_rejected_replayed", "device_kernel_drops",
            "chunks_stale", "chunks_duplicate", "chunks_malformed")
# Data that ranks multicast again may count as stale or duplicate at the other ranks.
MULTICAST_AGAIN = ("chunks_multicast_again", "slot_entries_resent")
# A datagram of a rank that is dropped by the kernel, or comes late, is then fetched or sent again.
LOST_OR_LATE = ("chunks_fetched", "device_reliable_frames_resent", "slot_entries_requested")
# Offset in bytes of the sending rank's number in a datagram; a filter of the kernel reads the number.
SOURCE_OFFSET = 4
BURST = 64
PATIENCE_S = 60
SEED = 11


class Sight:
    """The view of an observer of the loopback interface."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)

    def datagrams(self, wanted, own_ports):
        """At least `wanted` UDP datagrams to a multicast group or a rank, as (address, port, payload), oldest first."""
        seen = []
        deadline = time.monotonic() + 30
        while len(seen) < wanted:
            if not select.select([self.socket], [], [], 1)[0] and time.monotonic() > deadline:
                raise AssertionError(f"only {len(seen)} datagrams were seen")
            packet, where = self.socket.recvfrom(65535)
            header_bytes = (packet[0] & 15) * 4
            if where[2] == socket.PACKET_OUTGOING or packet[9] != socket.IPPROTO_UDP:
                continue
            source, port, length = struct.unpack("!HHH", packet[header_bytes:header_bytes + 6])
            if source not in own_ports:
                seen.append((socket.inet_ntoa(packet[16:20]), port, packet[header_bytes + 8:header_bytes + length]))
        return seen


class Stranger:
    """Sends datagrams from the address of the ranks."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        self.port = self.socket.getsockname()[1]
        self.sent = 0
        self.to_refuse = 0  # refusals that the ranks must count for what was sent
        self.to_filter = 0  # those of them that are drops by the filter of a multicast socket

    def send(self, address, port, payload):
        self.socket.sendto(payload, (address, port))
        self.sent += 1
        if int(address.split(".")[0]) < 224:
            self.to_refuse += 1
            return
        self.to_refuse += RANKS
        source = payload[SOURCE_OFFSET:SOURCE_OFFSET + 4]
        if len(source) < 4:
            self.to_filter += RANKS  # the filter drops what has no source
        elif int.from_bytes(source, "little") < RANKS:
            self.to_filter += 1


def changed(payload, dice):
    """Another datagram: a flipped bit, other bytes, a lost end or a longer one."""
    bytes_ = bytearray(payload)
    kind = dice.randrange(6)
    if kind == 0:
        return bytes(bytes_[:dice.randrange(1, len(bytes_))])
    if kind == 1:
        return bytes(bytes_) + dice.randbytes(dice.randrange(1, 40))
    first = 0 if kind < 4 else dice.randrange(len(bytes_))
    last = min(32, len(bytes_)) if kind < 4 else len(bytes_)
    at = dice.randrange(first, last)
    bytes_[at] ^= 1 << dice.randrange(8)
    if kind == 5:
        bytes_[-1] ^= 1 + dice.randrange(255)
    return bytes(bytes_) if bytes(bytes_) != payload else changed(payload, dice)


def wait_until_taken():
    """Waits until each UDP socket of the network was seen without a waiting datagram; the job goes on meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    waiting = None
    while waiting is None or waiting:
        with open("/proc/self/net/udp", encoding="ascii") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        full = {row[9] for row in rows if int(row[4].split(":")[1], 16) > 0}
        waiting = full if waiting is None else waiting & full
        if waiting and time.monotonic() > deadline:
            raise AssertionError(f"datagrams still wait in {len(waiting)} sockets")


class HostileDatagrams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        enter_own_network()

    def setUp(self):
        self.ranks = []

    def tearDown(self):
        for one in self.ranks:
            one.remove()

    def start(self, algorithm):
        environment = {"TUTTI_DEVICE": "ip", "TUTTI_INTERFACE": "lo", "TUTTI_HIERARCHY": "flat", "TUTTI_JOB_KEY": "5a" * 32}
        port = free_port()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        command = [PROGRAM, "allgather", str(BLOCK_BYTES), str(10 ** 9), f"by={algorithm}", "counters=1",
                   f"end={folder.name}/last-call"]
        self.ranks = [Rank(command, rank, RANKS, port, environment) for rank in range(RANKS)]
        for one in self.ranks:
            one.runs()

    def attack(self):
        """Sends the job's datagrams again: one of ten as it was, the others changed."""
        sight, stranger, dice = Sight(), Stranger(), random.Random(SEED)
        self.addCleanup(sight.socket.close)
        self.addCleanup(stranger.socket.close)
        stock = sight.datagrams(2000, {stranger.port})
        while stranger.sent < DATAGRAMS:
            if stranger.sent % (BURST * 64) == 0 and stranger.sent > 0:
                stock = sight.datagrams(2000, {stranger.port})
            for address, port, payload in dice.sample(stock, BURST):
                stranger.send(address, port, payload if dice.randrange(10) == 0 else changed(payload, dice))
            time.sleep(0.001)
        return stranger

    def check(self, algorithm):
        self.start(algorithm)
        stranger = self.attack()
        wait_until_taken()
        self.ranks[0].process.send_signal(signal.SIGTERM)
        counts = dict.fromkeys([*REFUSALS, *MULTICAST_AGAIN, *LOST_OR_LATE], 0)
        for rank in self.ranks:
            text = rank.end()
            self.assertEqual(rank.process.returncode, 0, text[-2000:])
            self.assertEqual(text.splitlines()[-1], "complete")
            for line in text.splitlines():
                words = line.split()
                if words[0] == "counter" and words[1] in counts:
                    counts[words[1]] += int(words[2])
        print(f"[ figures  ] {algorithm}: {stranger.sent} datagrams of a stranger, {stranger.to_refuse} to be refused, "
              f"{stranger.to_filter} of them by filters; "
              + ", ".join(f"{name} {value}" for name, value in counts.items()), flush=True)
        self.assertGreater(counts["device_rejected_replayed"], 0)
        self.assertGreater(counts["device_rejected_integrity"], 0)
        # More drops would be losses in a full receive buffer, which no rank has judged.
        self.assertLessEqual(counts["device_kernel_drops"], stranger.to_filter)
        refused = sum(counts[name] for name in REFUSALS)
        self.assertGreaterEqual(refused, stranger.to_refuse)
        own = (RANKS - 1) * sum(counts[name] for name in MULTICAST_AGAIN) + sum(counts[name] for name in LOST_OR_LATE)
        self.assertLessEqual(refused, stranger.to_refuse + own)

    def test_repeated_and_changed_datagrams_areAllRefused_andTheResultIsRight(self):
        self.check("multicast")

    def test_repeated_and_changed_frames_areAllRefused_andTheResultIsRight(self):
        self.check("ring")

    def test_repeated_and_changed_slotEntries_areAllRefused_andTheResultIsRight(self):
        self.check("linear")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        DATAGRAMS = int(sys.argv.pop(1))
    requirements.main()
