"""Lives of three brokers keep all promises: as their seeds draw them, and where it is tight."""

from __future__ import annotations

import pytest
from tests.simulation.cluster_circumstances import ANY_CLUSTER
from tests.simulation.living import check_life


@pytest.mark.parametrize("seed", range(1, 41))
def test_any_life_of_a_cluster(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, ANY_CLUSTER, request.node.nodeid)
