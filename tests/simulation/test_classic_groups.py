"""Classic groups under long churn: see ``tests/unit/groups/classic/simulated.py``."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.groups.classic.simulated import TICKS, TROUBLES, Churn


@pytest.mark.parametrize("seed", range(40))
def test_a_group_settles_after_long_churn(seed: int) -> None:
    random = Random(seed)
    # Arrivals keep up with departures, so that there is a group to make trouble for.
    troubles = [*TROUBLES, "start", "start", "start_static"]
    churn = Churn(max_size=random.choice([4, 100]), delay_ms=random.choice([0, 3000]))
    churn.run(
        (random.choice(troubles), random.randrange(100), random.choice(TICKS)) for _ in range(300)
    )
