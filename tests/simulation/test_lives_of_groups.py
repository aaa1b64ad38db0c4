"""Lives keep all promises: what is synced stays, and members get what they commit."""

from __future__ import annotations

import pytest
from tests.simulation.circumstances import GROUPS, SYNCED
from tests.simulation.faults import clean_seeds
from tests.simulation.living import check_life


@pytest.mark.parametrize("seed", clean_seeds(SYNCED))
def test_power_cuts_that_take_nothing(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, SYNCED, request.node.nodeid)


@pytest.mark.parametrize("seed", clean_seeds(GROUPS))
def test_members_that_come_and_go(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, GROUPS, request.node.nodeid)
