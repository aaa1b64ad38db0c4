"""Three broker processes, three replicas, ``min.insync.replicas=2``, producers and groups of two
clients, and brokers, controller, coordinator and coordination that die, stop or are cut off:
nothing acknowledged is lost, nothing is there twice, and groups go on.

The same on Moldau's own coordination process and on a real ZooKeeper.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.cluster_load import ClusterLoad
from tests.support.waiting import eventually
from tests.support.watched_cluster import PARTITIONS, SETTINGS, WatchedCluster
from tests.support.zookeeper import ZooKeeper

from moldau.testing.cluster import MoldauCluster


@pytest.fixture(scope="module", params=["own coordination", "ZooKeeper"])
def moldau_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WatchedCluster]:
    directory: Path = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        zookeeper = None
        if request.param == "ZooKeeper":
            zookeeper = stack.enter_context(ZooKeeper(directory / "zookeeper"))
        processes = MoldauCluster(
            directory,
            overrides=SETTINGS,
            zookeeper_connect=None if zookeeper is None else f"{zookeeper.address}/moldau",
        )
        stack.enter_context(processes)
        yield WatchedCluster(processes, zookeeper)


@pytest.fixture
def cluster(moldau_cluster: WatchedCluster) -> WatchedCluster:
    """By the other name a test that fails shows the logs of all of it."""
    return moldau_cluster


@pytest.fixture
def topic(cluster: WatchedCluster, request: pytest.FixtureRequest) -> str:
    return cluster.processes.create_topic(request.node.originalname, PARTITIONS)


@pytest.fixture
def load(cluster: WatchedCluster, topic: str) -> Iterator[ClusterLoad]:
    with ClusterLoad(cluster.processes.bootstrap_servers, topic) as load:
        load.goes_on()
        yield load


def test_a_leader_is_killed(cluster: WatchedCluster, topic: str, load: ClusterLoad) -> None:
    cluster.processes.brokers[cluster.leader_of(topic)].kill()
    load.goes_on()
    cluster.heal(topic)
    load.goes_on()
    load.reckon()


def test_the_controller_is_killed(cluster: WatchedCluster, topic: str, load: ClusterLoad) -> None:
    cluster.processes.brokers[cluster.controller()].kill()
    load.goes_on()
    cluster.heal(topic)
    cluster.processes.create_topic(f"{topic}-afterwards")
    load.goes_on()
    load.reckon()


def test_a_coordinator_of_groups_is_killed(
    cluster: WatchedCluster, topic: str, load: ClusterLoad
) -> None:
    cluster.processes.brokers[cluster.coordinator_of(f"{topic}-classic")].kill()
    load.goes_on()
    cluster.heal(topic)
    load.reckon()


def test_coordination_is_killed_and_comes_back(
    cluster: WatchedCluster, topic: str, load: ClusterLoad
) -> None:
    cluster.restart_coordination()
    load.goes_on()
    cluster.processes.create_topic(f"{topic}-afterwards")
    cluster.heal(topic)
    load.reckon()


def test_two_brokers_are_killed_at_once(
    cluster: WatchedCluster, topic: str, load: ClusterLoad
) -> None:
    leader = cluster.leader_of(topic)
    for node in (leader, leader % 3 + 1):
        cluster.processes.brokers[node].kill()
    cluster.heal(topic)
    load.goes_on()
    load.reckon()


def test_all_brokers_are_killed_at_once(
    cluster: WatchedCluster, topic: str, load: ClusterLoad
) -> None:
    for broker in cluster.processes.brokers.values():
        broker.kill()
    cluster.heal(topic)
    load.goes_on()
    load.reckon()


def test_a_leader_is_stopped_for_longer_than_its_session(
    cluster: WatchedCluster, topic: str, load: ClusterLoad
) -> None:
    stopped = cluster.leader_of(topic)
    pid = cluster.processes.brokers[stopped].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: cluster.leader_of(topic) != stopped, "nobody else leads")
        load.goes_on()
    finally:
        os.kill(pid, signal.SIGCONT)
    cluster.heal(topic)
    load.goes_on()
    load.reckon()


def test_a_rolling_restart(cluster: WatchedCluster, topic: str, load: ClusterLoad) -> None:
    for broker in cluster.processes.brokers.values():
        assert broker.terminate() == 0
        load.goes_on(10)
        broker.start()
        eventually(lambda: cluster.is_whole(topic), f"{topic} does not become whole")
    load.goes_on()
    load.reckon()


def test_leaders_move_before_a_broker_stops(cluster: WatchedCluster, topic: str) -> None:
    """A controlled shutdown leaves nothing without a leader, not even for a moment that a session
    would take to end.
    """
    leaving = cluster.leader_of(topic)
    assert cluster.processes.brokers[leaving].terminate() == 0
    eventually(
        lambda: all(cluster.leader_of(topic, number) not in (leaving, -1) for number in range(4)),
        "partitions are left without a leader",
    )
    cluster.heal(topic)
