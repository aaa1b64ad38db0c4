"""Three broker processes, three replicas, ``min.insync.replicas=2``, under load, and a network that
parts them: brokers from each other, from coordination, from clients, in one direction or in both.
A leader that is cut off acknowledges nothing more at ``acks=all``; once the network is whole again
everything acknowledged is there, once, the replicas are equal, and groups have gone on.

The processes are on one machine; what they say to each other goes through
``tests/support/partitioned_network.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.support.cluster_load import (
    PATIENCE_S,
    ClusterLoad,
    ConfluentSender,
    Sender,
    encode,
    read_all,
)
from tests.support.groups import commit
from tests.support.partitioned_network import Network
from tests.support.process import free_ports
from tests.support.waiting import eventually
from tests.support.watched_cluster import PARTITIONS, SETTINGS, WatchedCluster
from tests.support.wire import WireClient, one_batch
from tests.support.zookeeper import ZooKeeper

from moldau.errors import ErrorCode
from moldau.testing.cluster import MoldauCluster
from moldau.wire.api import ApiKey

COORDINATION = "coordination"
REFUSALS: set[int] = {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
}


class CutCluster(WatchedCluster):
    """A cluster whose brokers reach each other, and coordination, by ways that can be cut; so do
    clients, but for what a test asks of one broker.
    """

    def __init__(
        self, processes: MoldauCluster, zookeeper: ZooKeeper | None, network: Network
    ) -> None:
        self.network = network
        self.ways: dict[int, str] = {}
        store = processes.coordination if zookeeper is None else zookeeper
        for (node, broker), port in zip(processes.brokers.items(), free_ports(3), strict=True):
            broker.port = port
            self.ways[node] = network.way(str(node), lambda broker=broker: broker.address)  # type: ignore[misc]
            broker.overrides["advertised.listeners"] = f"PLAINTEXT://{self.ways[node]}"
            connect = network.way(COORDINATION, lambda: store.address, str(node))
            broker.overrides["zookeeper.connect"] = f"{connect}/moldau"
        super().__init__(processes, zookeeper)

    def others(self, node: int) -> list[int]:
        return [each for each in self.processes.brokers if each != node]

    def cut_off(self, node: int, *, resets: bool = False) -> None:
        """Separate the broker from the other brokers and from coordination."""
        for party in (*map(str, self.others(node)), COORDINATION):
            self.network.separate(str(node), party, resets=resets)

    def heal(self, topic: str) -> None:
        self.network.heal()
        super().heal(topic)

    # What one broker says ------------------------------------------------------------------------

    def _seen_by(self, node: int, topic: str) -> Any:
        async def ask() -> Any:
            async with await WireClient.connect(self.processes.brokers[node].address) as client:
                return await client.call(ApiKey.METADATA, topics=[{"name": topic}])

        return asyncio.run(ask())

    def state_seen_by(self, node: int, topic: str, partition: int = 0) -> tuple[int, list[int]]:
        """Leader and in-sync replicas."""
        (described,) = self._seen_by(node, topic).topics
        (state,) = [one for one in described.partitions if one.partition_index == partition]
        return int(state.leader_id), sorted(state.isr_nodes)

    def controller_seen_by(self, node: int, topic: str) -> int:
        return int(self._seen_by(node, topic).controller_id)

    def partition_of(self, node: int, topic: str) -> int:
        """One that the broker leads."""
        return next(each for each in range(PARTITIONS) if self.leader_of(topic, each) == node)

    def produce(
        self, node: int, topic: str, partition: int, value: bytes, *, acks: int = -1
    ) -> int:
        """Append by this broker and no other."""

        async def ask() -> int:
            async with await WireClient.connect(self.processes.brokers[node].address) as client:
                told = await client.produce(
                    topic, one_batch(value), partition=partition, acks=acks, timeout_ms=500
                )
                return told.error_code

        return asyncio.run(ask())

    def coordinator_seen_by(self, node: int, group: str) -> int:
        """-1 while there is none."""

        async def ask() -> int:
            async with await WireClient.connect(self.processes.brokers[node].address) as client:
                found = await client.call(
                    ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=[group]
                )
                return int(found.coordinators[0].node_id)

        return asyncio.run(ask())

    def commits(self, node: int, group: str, topic: str, offset: int) -> bool:
        """Whether this broker, and no other, says that it has committed the offset."""

        async def ask() -> bool:
            async with await WireClient.connect(self.processes.brokers[node].address) as client:
                told = await commit(client, group, topic, {0: offset})
                return bool(told.topics[0].partitions[0].error_code == ErrorCode.NONE)

        return asyncio.run(ask())

    def commit(self, group: str, topic: str, offset: int, *, asked: int) -> int:
        """Commit by whoever coordinates, as the broker that is asked says; returns who it is."""
        coordinator = -1

        def is_committed() -> bool:
            nonlocal coordinator
            coordinator = self.coordinator_seen_by(asked, group)
            return coordinator > 0 and self.commits(coordinator, group, topic, offset)

        eventually(is_committed, "nobody commits")
        return coordinator

    def replicas_are_equal(self, topic: str) -> bool:
        """Whether all brokers have the same bytes on disk."""
        for partition in range(PARTITIONS):
            logs = {
                b"".join(
                    segment.read_bytes()
                    for segment in sorted((broker.data_dir / f"{topic}-{partition}").glob("*.log"))
                )
                for broker in self.processes.brokers.values()
            }
            if len(logs) != 1:
                return False
        return True


OWN, ZOOKEEPER = "own coordination", "ZooKeeper"
on_own_coordination = pytest.mark.parametrize("store", [OWN], indirect=True)
on_both = pytest.mark.parametrize("store", [OWN, ZOOKEEPER], indirect=True)


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest) -> str:
    """What coordinates the brokers."""
    return str(request.param)


@pytest.fixture(scope="module")
def moldau_cluster(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CutCluster]:
    directory: Path = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        zookeeper = None
        if store == ZOOKEEPER:
            zookeeper = stack.enter_context(ZooKeeper(directory / "zookeeper"))
        network = stack.enter_context(Network())
        processes = MoldauCluster(
            directory, overrides={**SETTINGS, "offsets.commit.timeout.ms": 1000}
        )
        cluster = CutCluster(processes, zookeeper, network)
        stack.enter_context(processes)
        yield cluster


@pytest.fixture
def cluster(moldau_cluster: CutCluster) -> Iterator[CutCluster]:
    """By the other name a test that fails shows the logs of all of it."""
    yield moldau_cluster
    moldau_cluster.network.heal()


@pytest.fixture
def topic(cluster: CutCluster, request: pytest.FixtureRequest) -> str:
    name = request.node.name.translate(str.maketrans("[] ", "___"))
    return cluster.processes.create_topic(name, PARTITIONS)


@pytest.fixture
def load(cluster: CutCluster, topic: str) -> Iterator[ClusterLoad]:
    with ClusterLoad(cluster.processes.bootstrap_servers, topic) as load:
        load.goes_on()
        yield load


def reckon(cluster: CutCluster, topic: str, load: ClusterLoad) -> None:
    cluster.heal(topic)
    load.goes_on()
    load.reckon()
    eventually(lambda: cluster.replicas_are_equal(topic), "the replicas are not equal")


@on_own_coordination
def test_a_leader_without_its_followers(cluster: CutCluster, topic: str, load: ClusterLoad) -> None:
    """It is also the controller, so that its word counts: it is the last one in sync, and says that
    there are not enough. What waits by then is not acknowledged.
    """
    leader = cluster.controller()
    partition = cluster.partition_of(leader, topic)
    for other in cluster.others(leader):
        cluster.network.separate(str(leader), str(other))
    assert cluster.produce(leader, topic, partition, encode("early", 0)) in REFUSALS
    eventually(
        lambda: cluster.state_seen_by(leader, topic, partition) == (leader, [leader]),
        "its followers stay in sync",
    )
    refusal = cluster.produce(leader, topic, partition, encode("late", 0))
    assert refusal == ErrorCode.NOT_ENOUGH_REPLICAS
    reckon(cluster, topic, load)


@on_both
def test_a_leader_that_only_clients_reach(cluster: CutCluster, topic: str, store: str) -> None:
    """It goes on believing that it leads, and so do clients that reach nobody else; it acknowledges
    nothing to them. Another leads meanwhile, and what the first one took is gone afterwards.

    On one store connections stand still, on the other they are reset.
    """
    resets = store == ZOOKEEPER
    zombie = cluster.leader_of(topic)
    load = ClusterLoad(cluster.processes.bootstrap_servers, topic)
    minority: Sender = ConfluentSender(cluster.ways[zombie], topic, "minority")
    load.senders.append(minority)
    with load:
        load.goes_on()
        cluster.cut_off(zombie, resets=resets)
        for other in cluster.others(zombie):
            cluster.network.separate(minority.name, str(other), resets=resets)
        alone = cluster.produce(zombie, topic, 0, encode("alone", 0), acks=1)
        assert alone == ErrorCode.NONE
        for other in cluster.others(zombie):
            eventually(
                lambda other=other: cluster.state_seen_by(other, topic)[0] not in (zombie, -1),  # type: ignore[misc]
                "nobody else leads",
            )
        assert cluster.state_seen_by(zombie, topic)[0] == zombie
        assert cluster.produce(zombie, topic, 0, encode("refused", 0)) in REFUSALS
        load.goes_on(but=[minority])
        reckon(cluster, topic, load)
    assert not {("alone", 0), ("refused", 0)} & set(
        read_all(cluster.processes.bootstrap_servers, topic).values()
    )


@on_own_coordination
def test_a_coordinator_that_only_clients_reach(cluster: CutCluster, topic: str) -> None:
    """What it says to be committed is not; so it does not say so."""
    group = f"{topic}-group"
    zombie = cluster.commit(group, topic, 1, asked=1)
    cluster.cut_off(zombie)
    assert not cluster.commits(zombie, group, topic, 2)
    other = cluster.others(zombie)[0]
    eventually(
        lambda: cluster.coordinator_seen_by(other, group) not in (zombie, -1),
        "nobody else coordinates",
    )
    cluster.commit(group, topic, 3, asked=other)
    assert not cluster.commits(zombie, group, topic, 4)
    cluster.heal(topic)
    # The first may be asked before it has heard that another coordinates.
    eventually(lambda: committed(cluster.processes.bootstrap_servers, group, topic) == 3)


def committed(bootstrap: str, group: str, topic: str) -> int | None:
    """None if whoever was asked does not know."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group}, logger=None)
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
    except KafkaException:
        return None
    finally:
        consumer.close()
    return int(found.offset)


@on_own_coordination
@pytest.mark.parametrize("hears", [True, False], ids=["that nobody hears", "that hears nobody"])
def test_a_leader(cluster: CutCluster, topic: str, load: ClusterLoad, hears: bool) -> None:
    """Half a connection is none: its session ends, and another leads."""
    leader = cluster.leader_of(topic)
    for party in (*map(str, cluster.others(leader)), COORDINATION):
        ways = (str(leader), party) if hears else (party, str(leader))
        cluster.network.cut(*ways)
    other = cluster.others(leader)[0]
    eventually(
        lambda: cluster.state_seen_by(other, topic)[0] not in (leader, -1), "nobody else leads"
    )
    assert cluster.produce(leader, topic, 0, encode("refused", 0)) in REFUSALS
    load.goes_on()
    reckon(cluster, topic, load)


@on_both
def test_a_controller_without_coordination(
    cluster: CutCluster, topic: str, load: ClusterLoad
) -> None:
    """Another is in charge; the first one hears of it from the others, which it still reaches."""
    controller = cluster.controller()
    cluster.network.separate(str(controller), COORDINATION)
    other = cluster.others(controller)[0]
    eventually(
        lambda: cluster.controller_seen_by(other, topic) not in (controller, -1),
        "nobody else is in charge",
    )
    load.goes_on()
    reckon(cluster, topic, load)
    cluster.processes.create_topic(f"{topic}-afterwards")
