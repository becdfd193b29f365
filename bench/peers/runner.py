"""Runs one launch: starts its processes, serves its gate, ends all processes that are left, and returns what was
measured."""

import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time

SCHEMA = "tutti.bench.contender/1"
GRACE_S = 3.0  # time in seconds for the other processes of a launch after one of them failed


def adopt_orphans():
    """Makes this process the parent of all processes that a launcher leaves behind, so that they can be ended by their
    ids."""
    pr_set_child_subreaper = 36
    if ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0) != 0:
        raise SystemExit("compare: prctl(PR_SET_CHILD_SUBREAPER): " + os.strerror(ctypes.get_errno()))


def _descendants():
    children = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                parent = int(stat.read().rpartition(")")[2].split()[1])
        except OSError:
            continue  # the process has ended meanwhile
        children.setdefault(parent, []).append(int(entry))
    found, waiting = [], [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _end_descendants():
    for _ in range(50):
        left = _descendants()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.02)


class Gate:
    """Reads the link counters when rank 0 reports the begin and the end of its measured window, and lets rank 0
    continue."""

    def __init__(self, path, fabric):
        self.path = path
        self.windows = {}  # bytes and attempts, by (operation, size)
        self.complaint = ""
        self._fabric = fabric
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(path)
        self._socket.listen(1)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # no program had connected to the gate
        self._socket.close()
        self._thread.join(timeout=5)

    def _serve(self):
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return
        try:
            with connection, connection.makefile("r") as lines:
                self._answer(connection, lines)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            self.complaint = f"gate: {error}"  # without this gate's windows the launch may still be valid

    def _answer(self, connection, lines):
        begun = 0
        for line in lines:
            word, operation, size, *attempts = line.split()
            if word == "end":
                self.windows[operation, int(size)] = (self._fabric.link_bytes() - begun, int(attempts[0]))
            else:
                begun = self._fabric.link_bytes()
            connection.sendall(b"\n")


class Launch:
    """The outcome of a launch. `status` is ok, hung, failed or wrong data, and `detail` explains it in the report."""

    def __init__(self, status, detail="", line=None, link_bytes=None, wall_s=0.0):
        self.status = status
        self.detail = detail
        self.line = line
        self.link_bytes = link_bytes
        self.wall_s = wall_s
        self.hung_at_exit = False
        self.drops = [0, 0]  # packets dropped by the hosts' own queues and by the switch's ports
        self.idle_times_ns = []  # times of the operation `none`
        self.pace = None  # pace of the machine right before the launch


def run(contender, fabric, job, timeout_s, lock_path, cgroup, expired=None):
    """Runs one launch of `contender` while holding the lock, and fills in `job.gate` and `job.folder`.

    `expired()` says whether the launch counts as hung; by default it does after `timeout_s`."""
    with tempfile.TemporaryDirectory(prefix="tutti-peers-") as folder, open(lock_path, "a", encoding="utf-8") as lock:
        job.folder = os.path.join(folder, "rendezvous")
        os.mkdir(job.folder)
        job.gate = os.path.join(folder, "gate")
        fcntl.flock(lock, fcntl.LOCK_EX)
        gate = Gate(job.gate, fabric)
        drops = fabric.drops()
        begun = time.monotonic()
        expired = expired or (lambda: time.monotonic() > begun + timeout_s)
        try:
            codes, hung = _run_processes(contender.commands(fabric, job), folder, expired, cgroup,
                                         os.environ | fabric.environment(contender))
        finally:
            _end_descendants()
            gate.close()
        wall_s = time.monotonic() - begun
        launch = _judge(job, folder, codes, hung, gate, timeout_s, wall_s)
        launch.drops = [after - before for before, after in zip(drops, fabric.drops())]
        return launch


def _run_processes(commands, folder, expired, cgroup, environment):
    processes = []
    for number, command in enumerate(commands):
        if cgroup:
            command = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', cgroup, *command]
        # All processes stay in one session, as with a launcher of one host. With a session for each
        # rank, the kernel (autogroup) would give ranks that share a core equal shares of it.
        with open(f"{folder}/out.{number}", "wb") as out, open(f"{folder}/err.{number}", "wb") as err:
            processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                              process_group=0, env=environment))
    failed_at = None
    while any(process.poll() is None for process in processes):
        now = time.monotonic()
        if failed_at is None and any(process.returncode for process in processes):
            failed_at = now
        if failed_at is not None and now > failed_at + GRACE_S:
            break
        if expired():
            return [process.returncode for process in processes], True
        time.sleep(0.01)
    return [process.returncode for process in processes], False


def _judge(job, folder, codes, hung, gate, timeout_s, wall_s):
    line = _find_line(folder, job.operation, job.size)
    complaint = _last_complaint(folder)
    if line is None:
        if hung:
            return Launch("hung", f"no result after {timeout_s} s; {complaint}".rstrip("; "), wall_s=wall_s)
        return Launch("failed", f"exit {codes}; {complaint}".rstrip("; "), wall_s=wall_s)
    if line["wrong_bytes"]:
        return Launch("wrong data", f"{line['wrong_bytes']} wrong bytes", line, wall_s=wall_s)
    if not line["times_ns"]:
        return Launch("failed", "no repetition had a common start: stop other programs on this machine", line,
                      wall_s=wall_s)
    launch = Launch("ok", "", line, _bytes_per_operation(job, gate.windows), wall_s)
    idle = _find_line(folder, "none", 0)
    launch.idle_times_ns = idle["times_ns"] if idle else []
    launch.hung_at_exit = hung or "MPI_Finalize hung" in complaint
    if not launch.hung_at_exit and any(codes):
        launch.detail = f"exit {codes} after the result; {complaint}".rstrip("; ")
    elif gate.complaint:
        launch.detail = gate.complaint
    return launch


def _find_line(folder, operation, size):
    for name in sorted(os.listdir(folder)):
        if not name.startswith("out."):
            continue
        with open(f"{folder}/{name}", encoding="utf-8", errors="replace") as lines:
            for text in lines:
                try:
                    line = json.loads(text)
                except ValueError:
                    continue
                if isinstance(line, dict) and line.get("schema") == SCHEMA \
                        and line["operation"] == operation and line["size_bytes"] == size:
                    return line
    return None


def _last_complaint(folder):
    for name in sorted(os.listdir(folder)):
        if name.startswith("err."):
            with open(f"{folder}/{name}", encoding="utf-8", errors="replace") as text:
                lines = [line.strip() for line in text if any(char.isalpha() for char in line)]
            if lines:
                return lines[-1][:200]
    return ""


def _bytes_per_operation(job, windows):
    """The link bytes of one operation, less those of the operation `none`, which the measurement
    itself causes."""
    window = windows.get((job.operation, job.size))
    if not window or not window[1]:
        return None
    idle = windows.get(("none", 0), (0, 1))
    return max(0, window[0] / window[1] - (idle[0] / idle[1] if idle[1] else 0))
