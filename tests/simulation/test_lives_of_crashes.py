"""Lives keep all promises, however brokers end."""

from __future__ import annotations

import pytest
from tests.simulation.circumstances import CRASHES, LOSSES, RESTARTS
from tests.simulation.faults import clean_seeds
from tests.simulation.living import check_life


@pytest.mark.parametrize("seed", clean_seeds(CRASHES))
def test_crashes_of_all_kinds(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, CRASHES, request.node.nodeid)


@pytest.mark.parametrize("seed", clean_seeds(LOSSES))
def test_power_cuts_that_take_what_was_not_synced(
    seed: int, request: pytest.FixtureRequest
) -> None:
    check_life(seed, LOSSES, request.node.nodeid)


@pytest.mark.parametrize("seed", clean_seeds(RESTARTS))
def test_power_cuts_after_clean_starts(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, RESTARTS, request.node.nodeid)
