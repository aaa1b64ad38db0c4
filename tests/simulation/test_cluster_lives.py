"""Lives of three brokers keep all promises: as their seeds draw them, and where it is tight."""

from __future__ import annotations

import pytest
from tests.simulation.cluster_circumstances import (
    ANY_CLUSTER,
    CLUSTER_CUTS,
    CLUSTER_GROUPS,
    CLUSTER_KILLS,
    CLUSTER_TOPICS,
    CONTROLLERS,
    COORDINATORS,
    DIVERGENCE,
    EARSHOT,
    ISOLATION,
    LAST_IN_SYNC,
    STORE,
)
from tests.simulation.cluster_faults import clean_seeds
from tests.simulation.living import check_life


@pytest.mark.parametrize("seed", range(1, 31))
def test_any_life_of_a_cluster(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, ANY_CLUSTER, request.node.nodeid)


@pytest.mark.parametrize("seed", clean_seeds(CLUSTER_KILLS))
def test_kills_of_one_or_all(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, CLUSTER_KILLS, request.node.nodeid)


@pytest.mark.parametrize("seed", range(1, 13))
def test_power_cuts_of_one(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, CLUSTER_CUTS, request.node.nodeid)


@pytest.mark.parametrize("seed", clean_seeds(LAST_IN_SYNC))
def test_power_cuts_of_the_last_in_sync(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, LAST_IN_SYNC, request.node.nodeid)


@pytest.mark.parametrize("seed", clean_seeds(DIVERGENCE))
def test_leaders_that_do_not_know_of_each_other(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, DIVERGENCE, request.node.nodeid)


@pytest.mark.parametrize("seed", clean_seeds(ISOLATION))
def test_brokers_that_reach_nobody(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, ISOLATION, request.node.nodeid)


@pytest.mark.parametrize("seed", clean_seeds(STORE))
def test_a_store_that_dies_and_forgets(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, STORE, request.node.nodeid)


@pytest.mark.parametrize("seed", range(1, 11))
def test_controllers_that_were_replaced(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, CONTROLLERS, request.node.nodeid)


@pytest.mark.parametrize("seed", clean_seeds(EARSHOT))
def test_brokers_that_do_not_hear_the_controller(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, EARSHOT, request.node.nodeid)


@pytest.mark.parametrize("seed", range(1, 13))
def test_topics_that_come_and_go(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, CLUSTER_TOPICS, request.node.nodeid)


@pytest.mark.parametrize("seed", range(1, 13))
def test_coordinators_that_change(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, CLUSTER_GROUPS, request.node.nodeid)


@pytest.mark.parametrize("seed", clean_seeds(COORDINATORS))
def test_coordinators_that_were_replaced(seed: int, request: pytest.FixtureRequest) -> None:
    check_life(seed, COORDINATORS, request.node.nodeid)
