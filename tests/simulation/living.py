"""Lives for tests: one that breaks a promise fails the test with its story."""

from __future__ import annotations

import gc

import pytest
from tests.simulation.circumstances import ANY, Circumstances

from moldau.testing.simulation.lives.one_broker import OneBrokerLife
from moldau.testing.simulation.lives.outcome import Outcome
from moldau.testing.simulation.running import REPLAY
from moldau.testing.simulation.timeline import tell


def live(seed: int, circumstances: Circumstances) -> Outcome:
    try:
        return OneBrokerLife(seed, adjust=circumstances.adjust).run()
    finally:
        # What is left of a life goes round in circles, and was not collected while it lasted.
        gc.collect(1)


def check_life(seed: int, circumstances: Circumstances, test: str) -> None:
    """Live, and tell the story of a life that breaks a promise; ``test`` lives it again."""
    if not live(seed, circumstances).violations:
        return
    life = OneBrokerLife(seed, keep_events=True, adjust=circumstances.adjust)
    violations = life.run().violations
    again = f"{REPLAY} {seed}" if circumstances is ANY else f"pytest '{test}'"
    story = tell(violations, life.simulation.recorder.events)
    pytest.fail("\n".join([f"Seed {seed}: {life.plan}", *story, again]), pytrace=False)
