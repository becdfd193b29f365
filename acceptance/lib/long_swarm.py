"""Long runs of the swarm, in pieces that an interrupted run keeps, and the planted bugs of the swarm."""

import os
import re

import common

PIECE = 20_000
PIECE_TIMEOUT_S = 3600
PLANTED = os.path.join(common.ROOT, "tests", "swarm", "planted")
PLANTED_UNIT = os.path.join(PLANTED, "unit")


def run_piece(verdict, first, last, *options):
    with common.machine():
        status, output, errors = common.output_of([common.TUTTI, "sim", "swarm", *options, "--no-shrink",
                                                   "--seeds", f"{first}..{last}"], timeout=PIECE_TIMEOUT_S)
    if status != 0:
        print(output + errors)
    done = re.search(r"^(\d+) seeds,.*digest (\w+)$", output, re.M)
    drawn = re.search(r"^drawn: .*$", output, re.M)
    failed = re.search(r"^seed \d+ fails: .*$", output, re.M)
    seeds = int(done.group(1)) if done else 0
    verdict.bar(f"seeds {first} to {last}: {failed.group(0)[:300] if failed else 'no seed fails'}",
                status == 0 and seeds == last - first + 1, seeds, f"exactly {last - first + 1}", "seeds")
    verdict.figure(f"seeds {first} to {last}: digest {done.group(2) if done else 'none'}; {seeds} run; "
                   f"{drawn.group(0) if drawn else 'no counts'}")


def run_seeds(verdict, seeds, features, min_drawn, *options):
    """Adds the bars that seeds 1 to `seeds` run without a failure, and that at least `min_drawn` of them draw each feature."""
    for first in range(1, seeds + 1, PIECE):
        last = first + PIECE - 1
        verdict.part(f"seeds {first} to {last}", lambda first=first, last=last: run_piece(verdict, first, last, *options))
    for feature in features:
        verdict.at_least(f"seeds that draw {feature}", total_of(verdict, rf"\b(\d+) {feature}\b"), min_drawn, "seeds")
    verdict.at_least("datagrams of strangers, each refused", total_of(verdict, r"(\d+) datagrams of strangers refused"), 1)
    verdict.equal("seeds run without a failure", total_of(verdict, r"; (\d+) run;"), seeds, "seeds")


def run_planted(verdict, bugs):
    common.build(*[f"planted_{bug}" for bug in bugs])
    for bug in bugs:
        status, output, _ = common.output_of([os.path.join(common.BUILD, "tests", "swarm", f"planted_{bug}")], timeout=1200)
        verdict.bar(f"{bug}: {output.splitlines()[0][:150] if output else 'no output'}", status == 0 and "caught by seed" in output)


def run_planted_unit(verdict, names=None):
    """Adds the bars that each bug in PLANTED/unit, or each of these, fails the test that its file names."""
    bugs = names or _bugs_in(PLANTED_UNIT)
    common.build(*[f"planted_{bug}" for bug in bugs])
    for bug in bugs:
        with open(os.path.join(PLANTED_UNIT, f"{bug}.txt"), encoding="utf-8") as file:
            test = re.search(r"^expects (\S+)$", file.read(), re.M).group(1)
        status, output, _ = common.output_of([os.path.join(common.BUILD, "tests", "swarm", f"planted_{bug}")], timeout=600)
        verdict.bar(f"planted bug {bug}: {test} fails", status != 0 and f"FAILED  ] {test}" in output)


def _bugs_in(folder):
    return sorted(name[:-4] for name in os.listdir(folder) if name.endswith(".txt"))


def planted_bugs():
    """The names of all bugs that the swarm must catch."""
    return _bugs_in(PLANTED)


def total_of(verdict, pattern):
    """The sum of a number over the figures of all pieces."""
    return sum(int(match.group(1)) for text in verdict.figures for match in [re.search(pattern, text)] if match)
