"""The examples run, started as their texts say, and print what every rank has got."""

import pathlib
import sys

import pytest
from job_of_functions import Rank, free_port

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"
LINES = {
    "allgather_numpy.py": lambda rank: f"rank {rank}: 100 101",
    "overlap_asyncio.py": lambda rank: f"rank {rank}: sum 3, greeted by rank {1 - rank}",
}


def test_everyExample_isTested():
    assert {path.name for path in EXAMPLES.iterdir() if path.suffix == ".py"} == set(LINES)


@pytest.mark.parametrize("name", LINES)
def test_example_onTwoRanks_printsItsLine(name):
    port = free_port()
    ranks = [Rank([sys.executable, str(EXAMPLES / name)], rank, 2, port, {}) for rank in range(2)]
    try:
        for number, rank in enumerate(ranks):
            text = rank.end()
            assert rank.process.returncode == 0, text
            assert LINES[name](number) in text.splitlines(), text
    finally:
        for rank in ranks:
            rank.remove()
