"""Runs acceptance programs on one clean commit and writes their results; acceptance/README.md has the details."""

import argparse
import contextlib
import datetime
import fcntl
import json
import os
import signal
import subprocess
import sys
import time

import common
import results
import torch_ranks

JSON_IN_TREE = "docs/results/acceptance.json"
REPORT_IN_TREE = "docs/results/acceptance.md"
INTERRUPT_GRACE_S = 60


def git(root, *arguments):
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"git {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="acceptance/run", description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="GROUP|GROUP/NAME", help="default: every program")
    parser.add_argument("--commit", metavar="REVISION", help="the commit to run (default: HEAD of a clean tree)")
    parser.add_argument("--allow-dirty", action="store_true",
                        help="run HEAD although files differ from it; the differences are not run")
    parser.add_argument("--again", action="store_true", help="run programs that have a result on this commit again")
    parser.add_argument("--timeout-hours", type=float, default=6, help="limit of one program (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="print the programs and their state on this commit")
    parser.add_argument("--report", action="store_true",
                        help="write the tables from the results on this commit, and the recorded results of other commits for "
                             "programs without one, and run nothing")
    parser.add_argument("--tables", action="store_true", help=f"write the tables again from {JSON_IN_TREE}")
    parser.add_argument("--check", action="store_true",
                        help=f"fail if a table differs from what {JSON_IN_TREE} and the docstrings give")
    return parser.parse_args(arguments)


def select(names, wanted):
    """The programs that the arguments name, in the order of `names`."""
    unknown = [one for one in wanted if not any(name == one or name.startswith(one.rstrip("/") + "/") for name in names)]
    if unknown:
        sys.exit(f"no acceptance program or group {', '.join(unknown)}: use {', '.join(names)}")
    return [name for name in names
            if not wanted or any(name == one or name.startswith(one.rstrip("/") + "/") for one in wanted)]


class Run:
    """One commit: its worktree, its results and its logs, in build/acceptance/COMMIT."""

    def __init__(self, root, commit):
        self.root = root
        self.commit = commit
        self.folder = os.path.join(root, "build", "acceptance", commit)
        self.tree = os.path.join(self.folder, "tree")
        self.results = os.path.join(self.folder, "results")

    def prepare(self):
        if os.path.exists(os.path.join(self.tree, "acceptance")):
            return
        os.makedirs(self.folder, exist_ok=True)
        git(self.root, "worktree", "prune")
        git(self.root, "worktree", "add", "--detach", "--force", self.tree, self.commit)

    def take_recorded(self):
        """Takes the results on this commit that the tree records and this machine lacks. A run can
        thus continue on another machine."""
        for name, record in recorded(self.root).items():
            if record["commit"] == self.commit and not os.path.exists(self.path(name, ".json")):
                write_json(self.path(name, ".json"), record)

    def path(self, program, suffix):
        path = os.path.join(self.results, program + suffix)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def execute(self, program, timeout_s, again):
        """Runs one program. Its JSON is in place afterwards, also if the program did not reach its verdict. Parts that an earlier
        run finished are kept, unless `again` is set."""
        target, log_path = self.path(program, ".json"), self.path(program, ".log")
        if again and os.path.exists(target):
            os.remove(target)
        environment = {key: value for key, value in os.environ.items() if key != "TUTTI_BUILD"}
        environment.update(TUTTI_ACCEPTANCE_JSON=target,
                           TUTTI_BENCH_LOCK=os.path.join(self.root, "build", "bench.lock"))
        interpreter = os.path.join(self.root, torch_ranks.WHERE)  # the worktree has none
        if os.path.exists(interpreter):
            environment.setdefault("TUTTI_TORCH_PYTHON", interpreter)
        start = time.monotonic()
        with open(log_path, "w", encoding="utf-8") as log:
            process = subprocess.Popen([os.path.join(self.tree, "acceptance", program)], cwd=self.tree, env=environment,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status = process.wait(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                end_group(process)
        record = common.read_json(target) if os.path.exists(target) else {"commit": self.commit}
        if results.was_run(record) and record["exit_status"] == status and record["commit"] == self.commit:
            return record
        if status is None:
            reason = f"no verdict after {timeout_s / 3600:.1f} h"
        elif record["commit"] != self.commit:
            reason = "files in the worktree differ from the commit"
        else:
            reason = f"exit status {status}, {last_line(log_path).replace(self.tree + os.sep, '')}"
        record = {"schema": common.SCHEMA, "program": program, "reason": reason, "exit_status": status,
                  "parts": record.get("parts", {}) if record["commit"] == self.commit else {},
                  "wall_seconds": round(time.monotonic() - start, 1), "machine": common.machine_facts(), "commit": self.commit,
                  "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
        write_json(target, record)
        return record


def end_group(process):
    """Ends a program and the rest of its process group. An interrupt comes first, so that the program
    removes its labs."""
    for end, grace_s in ((signal.SIGINT, INTERRUPT_GRACE_S), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, end)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=grace_s)


def last_line(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[-1][:200] if lines else "no output"


def write_json(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)


def texts(root, records):
    """{file: text between its markers}. README.md keeps its text until there are results for it."""
    index = {"acceptance/README.md": results.index(root, records)}
    headlines = results.headlines(records)
    return {**index, "README.md": headlines} if headlines else index


def write_tables(root, records):
    """Writes all files and tables of the tree that are generated from results."""
    known = {name: record for name, record in records.items() if record is not None}
    if known:
        write_json(os.path.join(root, JSON_IN_TREE), {"programs": known})
        with open(os.path.join(root, REPORT_IN_TREE), "w", encoding="utf-8") as file:
            file.write(results.report(records))
    for name, text in texts(root, records).items():
        if not results.fill(os.path.join(root, name), text):
            print(f"{name} has no {results.BEGIN} ... {results.END}: not filled")


def recorded(root):
    """{program: its latest result}, of any commit, as the tree records them."""
    path = os.path.join(root, JSON_IN_TREE)
    stored = common.read_json(path)["programs"] if os.path.exists(path) else {}
    return {name: record for name, record in stored.items() if record is not None}


def with_recorded(root, records):
    """For every program of the tree the latest of `records` and the recorded ones, or None if there is none. A record
    without a verdict and without parts replaces no other."""
    stored = recorded(root)

    def latest(name):
        found = [record for record in (records.get(name), stored.get(name)) if record]
        return max(found, key=lambda record: (results.was_run(record) or bool(record.get("parts")), record["date"]), default=None)

    return {name: latest(name) for name in results.programs(root)}


def check(root):
    """The files whose tables differ from the tables that results and docstrings give."""
    records = with_recorded(root, {})
    wrong = []
    for name, text in texts(root, records).items():
        with open(os.path.join(root, name), encoding="utf-8") as file:
            content = file.read()
        if results.BEGIN in content and f"{results.BEGIN}\n\n{text}\n\n{results.END}" not in content:
            wrong.append(name)
    if any(records.values()):
        with open(os.path.join(root, REPORT_IN_TREE), encoding="utf-8") as file:
            if file.read() != results.report(records):
                wrong.append(REPORT_IN_TREE)
    return wrong


@contextlib.contextmanager
def only_runner(root):
    """Holds a lock, because concurrent runners would disturb each other's measurements."""
    path = os.path.join(root, "build", "acceptance", "lock")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit("another acceptance run is under way in this tree: wait for its end")
        yield


def commit_of(root, options):
    if options.commit:
        return git(root, "rev-parse", "--verify", options.commit + "^{commit}")
    if not options.allow_dirty and not options.report and not options.list:
        changed = git(root, "status", "--porcelain")
        if changed:
            sys.exit(f"files differ from HEAD, commit them or use --allow-dirty:\n{changed}")
    return git(root, "rev-parse", "HEAD")


def execute_all(run, chosen, options):
    """Runs the programs that have no result yet; prints a line for each program."""
    for number, name in enumerate(chosen, 1):
        record = results.read(run.results, [name])[name]
        if options.again or not results.was_run(record):
            print(f"[{number}/{len(chosen)}] {name} ...", flush=True)
            record = run.execute(name, options.timeout_hours * 3600, options.again)
        print(f"[{number}/{len(chosen)}] {name}: {results.state(record)} ({record['wall_seconds']:.0f} s)", flush=True)


def main(root, arguments):
    options = parse_arguments(arguments)
    if options.check:
        wrong = check(root)
        for name in wrong:
            print(f"{name} differs from results and docstrings: run acceptance/run --tables")
        return 1 if wrong else 0
    if options.tables:
        write_tables(root, with_recorded(root, {}))
        return 0
    run = Run(root, commit_of(root, options))
    with only_runner(root) if not options.list else contextlib.nullcontext():
        run.prepare()
        run.take_recorded()
        names = results.programs(run.tree)
        chosen = select(names, options.programs)
        if not options.list and not options.report:
            execute_all(run, chosen, options)
        records = results.read(run.results, names)
        if options.list:
            for name in chosen:
                print(f"{name}: {results.state(records[name])}")
            return 0
        report_path = os.path.join(run.folder, "acceptance.md")
        with open(report_path, "w", encoding="utf-8") as file:
            file.write(results.report(records))
        if options.report or not options.programs:
            write_tables(root, with_recorded(root, records))
            report_path = os.path.join(root, REPORT_IN_TREE)
    print(f"{results.summary({name: records[name] for name in chosen})}\nAll bars: {report_path}")
    return 0 if all(results.was_run(records[name]) for name in chosen) else 1
