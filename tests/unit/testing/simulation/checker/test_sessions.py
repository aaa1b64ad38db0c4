"""Sessions: a store that starts again waits for everybody."""

from __future__ import annotations

import pytest
from tests.unit.testing.simulation.checker.told import Told

from moldau.testing.simulation.checker.history import LostSession
from moldau.testing.simulation.checker.sessions import NO_GRACE


@pytest.mark.parametrize(("at", "broken"), [(12.9, [NO_GRACE]), (13.0, [])])
def test_silence_counts_from_the_start_of_the_store(at: float, broken: list[str]) -> None:
    told = Told()
    told.history.lost_sessions.append(LostSession(at, "broker-1", 3.0, store_began_at=10.0))
    assert told.broken == broken
