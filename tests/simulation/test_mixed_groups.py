"""Groups of classic and modern members under long churn: see ``groups/migration/simulated.py``."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.groups.migration.simulated import SETTLE_MS, TICK_MS, TICKS, TROUBLES, World

from moldau.groups.settings import MigrationPolicy


@pytest.mark.parametrize("seed", range(24))
def test_a_group_of_both_protocols_settles_after_long_churn(seed: int) -> None:
    random = Random(seed)
    world = World(
        cooperative=seed % 2 == 1,
        interval_ms=random.choice([0, 1000]),
        policy=random.choice([MigrationPolicy.BIDIRECTIONAL] * 3 + [MigrationPolicy.UPGRADE]),
        delay_ms=random.choice([0, 3000]),
    )
    # Arrivals keep up with departures, so that there is a group to make trouble for.
    troubles = [*TROUBLES, "start_classic", "start_modern", "start_modern"]
    world.run(
        (random.choice(troubles), random.randrange(100), random.choice(TICKS)) for _ in range(80)
    )


@pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])
def test_a_group_is_upgraded_and_downgraded_member_by_member(cooperative: bool) -> None:
    world = World(
        cooperative=cooperative, interval_ms=1000, policy=MigrationPolicy.BIDIRECTIONAL, delay_ms=0
    )
    for number in range(3):
        world.start_classic(None, number)
    for _ in range(3):
        world.time_passes(SETTLE_MS // TICK_MS)
        world.check_settled()
        world.check_log()
        world.all_change_protocol(world.consumers[0], 6)
    assert world.kinds_seen == ["classic", "consumer", "classic", "consumer"]
