"""Nothing in a coordinator is decided by the hash of a string or the address of an object."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from random import Random

from tests.unit.groups.migration import simulated as mixed
from tests.unit.groups.migration.runner import ShardRunner
from tests.unit.groups.test_replay import STEPS, Script

from moldau.groups.settings import MigrationPolicy
from moldau.outcome import Outcome

SEEDS = 6


def digest() -> str:
    """Of all records and replies of some lives of groups, in their order."""
    summary = sha256()
    act = ShardRunner.act

    def observed(runner: ShardRunner, outcome: Outcome) -> None:
        summary.update(repr((outcome.records, outcome.replies)).encode())
        act(runner, outcome)

    ShardRunner.act = observed  # type: ignore[assignment]  # this process does nothing else
    for seed in range(SEEDS):
        random = Random(seed)
        script = Script()
        for _ in range(150):
            fails = random.random() < 0.1
            script.step(random.choice(STEPS), random.choice((0, 0, 1)), random.randrange(99), fails)
        world = mixed.World(
            cooperative=seed % 2 == 1,
            interval_ms=0,
            policy=MigrationPolicy.BIDIRECTIONAL,
            delay_ms=0,
        )
        world.run(
            (random.choice(mixed.TROUBLES), random.randrange(99), random.choice(mixed.TICKS))
            for _ in range(15)
        )
    return summary.hexdigest()


def test_the_same_requests_lead_to_the_same_records_and_replies_in_every_process() -> None:
    script = "from tests.simulation.test_group_determinism import digest; print(digest())"
    path = os.pathsep.join(sys.path)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in (1, 2, 3)
    ]
    digests = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(digests) == 1
