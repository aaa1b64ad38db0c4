"""Everything in a life follows from its seed: another process lives the same one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from moldau.testing.simulation.lives.one_broker import OneBrokerLife

PROGRAM = """
import sys
from moldau.testing.simulation.lives.one_broker import OneBrokerLife
for seed in sys.argv[1:]:
    print(seed, OneBrokerLife(int(seed)).run().digest)
"""


def digests(seeds: list[str], hash_seed: str) -> dict[str, str]:
    """Of all events of some lives, in a process that hashes strings in its own way."""
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, *seeds],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return dict(line.split() for line in said.stdout.splitlines())


def test_other_processes_live_the_same_lives() -> None:
    seeds = [str(seed) for seed in range(1, 7)]
    told = digests(seeds, "1")
    assert len({*told.values()}) == len(seeds)
    # In another order, too: no life leaves anything behind for the next.
    assert digests(seeds[::-1], "4711") == told


@pytest.mark.parametrize("seed", [2, 5])
def test_who_looks_on_changes_nothing(seed: int) -> None:
    lives = [OneBrokerLife(seed, keep_events=keeps) for keeps in (False, True)]
    assert len({life.run().digest for life in lives}) == 1
