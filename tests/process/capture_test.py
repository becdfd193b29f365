#!/usr/bin/env python3
"""Searches all that whole jobs leave and send for their keys: every link of a network namespace, every store of a
bootstrap, flight records, traces and logs. A library before libcrypto (key_witness.cpp) tells the keys.

  capture_test.py CAPTURE_PROGRAM KEY_WITNESS TUTTI
"""

import base64
import contextlib
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import requirements  # noqa: E402
from job import free_port, kill, PATIENCE_S  # noqa: E402
from own_network import enter_own_network  # noqa: E402
from secret_search import Search  # noqa: E402

PROGRAM = WITNESS = TUTTI = ""
RANKS = 3
JOB_KEY = "".join(f"{7 * i + 5:02x}" for i in range(32))
ETH_P_ALL = 3
SO_RCVBUFFORCE = 33
SOL_PACKET = 263
PACKET_STATISTICS = 6
UNIQUE_ID = "input-of-tutti-unique-id-key"
RELAY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pmi_relay.py")


class Links:
    """Records every frame of every interface of this network namespace."""

    def __init__(self):
        self.frames = []
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 28)
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.record)
        self.thread.start()

    def record(self):
        while True:
            if select.select([self.socket], [], [], 0.1)[0]:
                frame, where = self.socket.recvfrom(1 << 17)
                if where[2] != socket.PACKET_OUTGOING:
                    self.frames.append(frame)
            elif self.ends.is_set():
                return

    def finish(self):
        """Ends the record; returns the number of frames that the kernel did not hand out."""
        self.ends.set()
        self.thread.join()
        lost = struct.unpack("II", self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        self.socket.close()
        return lost

    def streams(self):
        """The bytes of each direction of each TCP connection, in order."""
        parts = {}
        for frame in self.frames:
            header = (frame[0] & 15) * 4
            if frame[0] >> 4 != 4 or frame[9] != socket.IPPROTO_TCP:
                continue
            length = struct.unpack("!H", frame[2:4])[0]
            ports = frame[header:header + 4]
            sequence = struct.unpack("!I", frame[header + 4:header + 8])[0]
            payload = frame[header + (frame[header + 12] >> 4) * 4:length]
            if payload:
                parts.setdefault((frame[12:20], ports), {})[sequence] = payload
        for stream in parts.values():
            first = next(iter(stream))
            yield b"".join(stream[at] for at in sorted(stream, key=lambda at: (at - first + (1 << 31)) % (1 << 32)))


class Job:
    """A job of capture_program, with its keys and all that it sent and left."""

    def __init__(self, test, environment):
        self.folder = tempfile.mkdtemp(prefix="tutti-capture-")
        test.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for name in ("witness", "store", "left", "sessions"):
            os.mkdir(self.path(name))
        os.mkfifo(self.path("gate"))
        self.environment = {
            **os.environ, "TUTTI_DEVICE": "ip", "TUTTI_INTERFACE": "lo", "TUTTI_HIERARCHY": "flat",
            "TUTTI_BOOTSTRAP_HOST": "127.0.0.1", "TUTTI_TRACE": self.path("left"), "TUTTI_FLIGHT_RECORDER": self.path("left"),
            "KEY_WITNESS": self.path("witness"), "KEY_WITNESS_STORE": self.path("store"), "CAPTURE_GATE": self.path("gate"),
            "TMPDIR": self.path("sessions"), **environment}
        self.witnessed = f"LD_PRELOAD={WITNESS}"
        self.processes = []
        self.logs = []
        test.addCleanup(self.end)
        self.links = Links()

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, command, environment=(), stdin=None, witnessed=True):
        """Starts a process. With `witnessed` false, the command itself preloads the library where ranks start."""
        log = open(self.path(f"left/log-{len(self.logs)}"), "w+", encoding="utf-8", errors="replace")
        own = {**self.environment, **dict(environment)}
        if witnessed:
            own["LD_PRELOAD"] = WITNESS
        process = subprocess.Popen(command, env=own, stdin=stdin or subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.processes.append(process)
        self.logs.append(log)
        return process

    def text(self, number):
        with open(self.logs[number].name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_for(self, number, what, times=1):
        deadline = time.monotonic() + PATIENCE_S
        while self.text(number).count(what) < times:
            if self.processes[number].poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"process {number} does not print '{what}': {self.text(number)[-3000:]}")
            time.sleep(0.02)

    def complete(self, test, ranks_of_process):
        """Waits until the ranks run, keeps the files of the launcher, and lets the job end."""
        for number, ranks in enumerate(ranks_of_process):
            self.wait_for(number, "running", ranks)
        shutil.copytree(self.path("sessions"), self.path("kept"), ignore_dangling_symlinks=True, ignore=sockets)
        with open(self.path("gate"), "w", encoding="utf-8"):
            pass
        for number, ranks in enumerate(ranks_of_process):
            test.assertEqual(self.processes[number].wait(timeout=PATIENCE_S), 0, self.text(number)[-3000:])
            test.assertEqual(self.text(number).count("complete"), ranks)
        test.assertEqual(self.links.finish(), 0, "frames that the capture has lost")

    def end(self):
        for process in self.processes:
            kill(process)
        for log in self.logs:
            log.close()
        if not self.links.ends.is_set():
            self.links.finish()

    def keys(self, kind):
        """{key: label} of the witness."""
        found = {}
        for name in os.listdir(self.path("witness")):
            if "." in name:
                continue  # a file that the job removed
            with open(os.path.join(self.path("witness"), name), encoding="ascii") as file:
                for line in file:
                    kind_of_line, label, digits = line.split()
                    if kind_of_line == kind:
                        found[bytes.fromhex(digits)] = label
        return found

    def channels(self):
        """{name: list of bytes} of all that the job sent and left."""
        witness = self.path("witness")
        kept = [os.path.join(witness, name) for name in os.listdir(witness) if "." in name]
        return {"links": [*self.links.frames, *self.links.streams()],
                "store": [*contents(self.path("store")), *map(content, kept)],
                "launcher's files": contents(self.path("kept")), "files and logs": contents(self.path("left"))}


def sockets(folder, names):
    """Names in a folder that are no files, such as the sockets of a launcher."""
    return [name for name in names if not os.path.isdir(os.path.join(folder, name))
            and not os.path.isfile(os.path.join(folder, name))]


def content(path):
    with open(path, "rb") as file:
        return file.read()


def contents(folder):
    return [content(os.path.join(place, name)) for place, _, names in os.walk(folder) for name in names]


class KeySearch(unittest.TestCase):
    def test_eachFormOfAPiece_isFound_andOtherBytesAreNot(self):
        key = bytes(range(100, 148))
        search = Search({key: "key"})
        for at in range(0, len(key), 16):
            piece = key[at:at + 16]
            for text in (piece, piece.hex().encode(), piece.hex().upper().encode(),
                         *(base64.b64encode(b"?" * before + piece + b"!") for before in range(3))):
                self.assertTrue(search.find(b"before" + text + b"behind"), text)
        self.assertEqual(search.find(bytes(range(256)).replace(key, b"") * 4), set())


class Capture(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        enter_own_network()

    def judge(self, job, title, public_in=None, tokens_in=()):
        """Checks that no channel has a key. `public_in`: the channel in which the public keys show that it was recorded;
        `tokens_in`: the channels whose content is the text of a unique id."""
        secrets, public = job.keys("secret"), job.keys("public")
        labels = set(secrets.values())
        for label in ("tutti-child-key-1", "tutti-datagram-tags-2", "tutti-datagram-tag-2", "umac-1", "x25519-private",
                      "tutti-sealed-secret-1"):
            self.assertTrue(any(label in one for one in labels), f"the witness has no key {label}: {sorted(labels)}")
        tokens = {key: label for key, label in secrets.items() if label.startswith(UNIQUE_ID)}
        keys = {key: label for key, label in secrets.items() if key not in tokens}
        channels = job.channels()
        self.assertTrue(channels["links"])
        left = os.listdir(job.path("left"))
        for begin in ("flight-", "trace-", "log-"):
            self.assertTrue(any(name.startswith(begin) for name in left), f"no {begin} in {left}")
        size = 0
        for name, recorded in channels.items():
            search = Search(keys if name in tokens_in else secrets)
            size += sum(map(len, recorded))
            found = set().union(*map(search.find, recorded)) if recorded else set()
            self.assertEqual(found, set(), f"{title}: {name}")
        if public_in:
            seen = set().union(*map(Search(public).find, channels[public_in]))
            self.assertTrue(seen, f"{title}: {public_in} has no public key, so that it was not recorded whole")
        for name in tokens_in:
            self.assertTrue(set().union(*map(Search(tokens).find, channels[name])),
                            f"{title}: {name} has no unique id, so that it was not recorded whole")
        print(f"[ figures  ] {title}: {len(secrets)} keys in {Search(secrets).pieces} pieces, "
              f"{size} bytes on links and in stores, none found", flush=True)

    def by_environment(self, more=(), options=()):
        job = Job(self, dict(more))
        port = free_port()
        for rank in range(RANKS):
            job.start([PROGRAM, "launcher", *options],
                      {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                       "TUTTI_RUN_ID": "capture"})
        job.complete(self, [1] * RANKS)
        return job

    def test_environment_withAKey_hidesAllKeys(self):
        self.judge(self.by_environment({"TUTTI_JOB_KEY": JOB_KEY}), "env, job key")

    def test_environment_withoutAKey_sendsNoKeyInClear(self):
        self.judge(self.by_environment(), "env, no key", public_in="links")

    def test_keyThatTheRanksSend_isFoundInEachForm(self):
        for form, name in (("raw", "raw"), ("hex", "hex"), ("base64", "base64 at")):
            job = self.by_environment({"TUTTI_JOB_KEY": JOB_KEY}, [f"leak={form}"])
            found = set().union(*map(Search(job.keys("secret")).find, job.channels()["links"]))
            self.assertTrue(any(name in one for one in found), f"{form}: {found}")

    def by_directory(self, more=()):
        job = Job(self, dict(more))
        for rank in range(RANKS):
            job.start([PROGRAM, "launcher"], {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "TUTTI_RUN_ID": "capture",
                                              "TUTTI_BOOTSTRAP": f"file://{job.path('store')}"})
        job.complete(self, [1] * RANKS)
        return job

    def test_directory_withAKey_hidesAllKeys(self):
        self.judge(self.by_directory({"TUTTI_JOB_KEY": JOB_KEY}), "file, job key", public_in="store")

    def test_directory_withoutAKey_holdsNoKeyInClear(self):
        self.judge(self.by_directory(), "file, no key", public_in="store")

    def by_callback(self, more=()):
        job = Job(self, dict(more))
        for rank in range(RANKS):
            job.start([PROGRAM, "callback", job.path("store"), str(rank), str(RANKS)])
        job.complete(self, [1] * RANKS)
        return job

    def test_callback_withAKey_hidesAllKeys(self):
        self.judge(self.by_callback({"TUTTI_JOB_KEY": JOB_KEY}), "callback, job key", public_in="store")

    def test_callback_withoutAKey_carriesNoKeyInClear(self):
        self.judge(self.by_callback(), "callback, no key", public_in="store")

    def test_uniqueId_isNeitherOnALinkNorInAFile(self):
        job = Job(self, {})
        job.start([PROGRAM, "unique-id", "0", str(RANKS)])
        job.wait_for(0, "\n")
        id_text = job.text(0).splitlines()[0]
        for rank in range(1, RANKS):
            with contextlib.closing(os.fdopen(in_pipe(id_text + "\n"))) as source:
                job.start([PROGRAM, "unique-id", str(rank), str(RANKS)], stdin=source)
        job.complete(self, [1] * RANKS)
        # The log of rank 0 has the id, which this test carries to the other ranks.
        with open(job.logs[0].name, "w", encoding="utf-8"):
            pass
        self.judge(job, "unique id")

    def test_tuttiRun_hidesAllKeys(self):
        job = Job(self, {})
        job.start([TUTTI, "run", "-n", str(RANKS), "--", PROGRAM, "launcher"])
        job.complete(self, [RANKS])
        self.judge(job, "tutti run")

    def test_pmi_holdsNoKeyButTheUniqueId(self):
        if not shutil.which("mpirun.mpich"):
            requirements.skip_without("mpi", "no mpirun.mpich")
        job = Job(self, {})
        job.start(["mpirun.mpich", "-n", str(RANKS), sys.executable, RELAY, job.path("store"), "env", job.witnessed, PROGRAM,
                   "launcher"], witnessed=False)
        job.complete(self, [RANKS])
        self.judge(job, "PMI", tokens_in=["store"])

    def test_pmix_holdsNoKeyButTheUniqueId(self):
        if not shutil.which("mpirun.openmpi"):
            requirements.skip_without("pmix", "no mpirun.openmpi")
        job = Job(self, {})
        job.start(["mpirun.openmpi", "-n", str(RANKS), "--allow-run-as-root", "--oversubscribe", "env", job.witnessed, PROGRAM,
                   "launcher"], witnessed=False)
        job.complete(self, [RANKS])
        self.judge(job, "PMIx", tokens_in=["links", "launcher's files"])


def in_pipe(text):
    """A descriptor from which the text can be read once."""
    readable, writable = os.pipe()
    os.write(writable, text.encode())
    os.close(writable)
    return readable


if __name__ == "__main__":
    PROGRAM, WITNESS, TUTTI = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
    requirements.main()
