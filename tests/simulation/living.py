"""Lives for tests: one that breaks a promise fails the test with its story."""

from __future__ import annotations

import gc

import pytest
from tests.simulation.circumstances import ANY, Circumstances
from tests.simulation.cluster_circumstances import ANY_CLUSTER

from moldau.testing.simulation.lives.cluster import ClusterLife
from moldau.testing.simulation.lives.life import Life
from moldau.testing.simulation.lives.one_broker import OneBrokerLife
from moldau.testing.simulation.lives.outcome import Outcome
from moldau.testing.simulation.running import replay_command
from moldau.testing.simulation.timeline import tell


def begin(seed: int, circumstances: Circumstances, *, keep_events: bool = False) -> Life:
    """Returns a life that is still to be lived."""
    kind = ClusterLife if circumstances.cluster else OneBrokerLife
    return kind(seed, keep_events=keep_events, adjust=circumstances.adjust)


def live(seed: int, circumstances: Circumstances) -> Outcome:
    try:
        return begin(seed, circumstances).run()
    finally:
        # What is left of a life goes round in circles, and was not collected while it lasted.
        gc.collect(1)


def check_life(seed: int, circumstances: Circumstances, test: str) -> None:
    """Live, and tell the story of a life that breaks a promise; ``test`` lives it again."""
    if not live(seed, circumstances).violations:
        return
    life = begin(seed, circumstances, keep_events=True)
    violations = life.run().violations
    again = f"pytest '{test}'"
    if circumstances in (ANY, ANY_CLUSTER):
        again = replay_command(seed, cluster=circumstances.cluster)
    story = tell(violations, life.simulation.recorder.events)
    pytest.fail("\n".join([f"Seed {seed}: {life.plan}", *story, again]), pytrace=False)
