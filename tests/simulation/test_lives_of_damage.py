"""Lives keep all promises although the store is damaged, the disk full, the clock wrong."""

from __future__ import annotations

import pytest
from tests.simulation.circumstances import CLOCK_JUMPS, DAMAGES, FULL_AT_THE_END, KEPT
from tests.simulation.faults import clean_seeds
from tests.simulation.living import check_life


@pytest.mark.parametrize("seed", clean_seeds(DAMAGES))
def test_damage_to_the_store(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, DAMAGES, request.node.nodeid)


@pytest.mark.parametrize("seed", clean_seeds(KEPT))
def test_damage_where_defaults_delete(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, KEPT, request.node.nodeid)


@pytest.mark.parametrize("seed", clean_seeds(CLOCK_JUMPS))
def test_clocks_that_jump(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, CLOCK_JUMPS, request.node.nodeid)


@pytest.mark.parametrize("seed", clean_seeds(FULL_AT_THE_END))
def test_kills_on_a_full_disk(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, FULL_AT_THE_END, request.node.nodeid)
