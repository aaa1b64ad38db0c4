"""Three brokers side by side: a cluster as one target, which partitions have on every broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from tests.support.apache_kafka import ApacheKafkaCluster

from bench import requests
from bench.targets import KAFKA_FLAGS, SETTINGS, Kafka, Kind, Moldau, Target
from moldau.testing.cluster import MoldauCluster
from moldau.wire.api import ApiKey
from moldau.wire.make import make

BROKERS = (1, 2, 3)

_FIRST = make(PartitionData, partition_index=0)

CLUSTER_SETTINGS = {
    **SETTINGS,
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",
    # What a cluster notices a death by is its default on either side, and a figure of its own.
}


class ThreeMoldau:
    """Three brokers and the process that coordinates them."""

    name = Moldau.name
    replicas: ClassVar[Sequence[int]] = BROKERS

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self._cluster = MoldauCluster(
            directory, brokers=len(BROKERS), overrides={**CLUSTER_SETTINGS, **(settings or {})}
        )

    def addresses(self) -> dict[int, str]:
        return {node: broker.bootstrap_servers for node, broker in self._cluster.brokers.items()}

    @property
    def address(self) -> str:
        return self.addresses()[BROKERS[0]]

    @property
    def pid(self) -> int:
        return self._cluster.brokers[BROKERS[0]].pid

    @property
    def pids(self) -> Sequence[int]:
        running = [broker for broker in self._cluster.brokers.values() if broker.alive]
        return [*(broker.pid for broker in running), self._cluster.coordination.pid]

    def controller(self) -> int:
        """Which broker's controller is in office."""
        request = make(
            DescribeClusterRequest,
            include_cluster_authorized_operations=False,
            include_fenced_brokers=False,
        )
        answer = requests.call(self.address, ApiKey.DESCRIBE_CLUSTER, 0, request)
        return int(answer.controller_id)

    @property
    def data_dir(self) -> Path:
        return self._cluster.brokers[BROKERS[0]].data_dir

    def start(self) -> None:
        self._cluster.start()

    def kill(self, node: int) -> None:
        self._cluster.brokers[node].kill()

    def revive(self, node: int) -> None:
        self._cluster.brokers[node].start()

    def stop(self) -> None:
        self._cluster.stop()


class ThreeKafka:
    """Three nodes, each broker and controller, with the defaults of Kafka."""

    name = Kafka.name
    replicas: ClassVar[Sequence[int]] = BROKERS

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        defaults = {"broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "2000"}
        self._cluster = ApacheKafkaCluster(
            directory,
            {**defaults, **CLUSTER_SETTINGS, **(settings or {})},
            flags=KAFKA_FLAGS,
        )

    def addresses(self) -> dict[int, str]:
        return {node: broker.bootstrap for node, broker in self._cluster.nodes.items()}

    @property
    def address(self) -> str:
        return self.addresses()[BROKERS[0]]

    @property
    def pid(self) -> int:
        return self._cluster.nodes[BROKERS[0]].pid

    @property
    def pids(self) -> Sequence[int]:
        return [broker.pid for broker in self._cluster.nodes.values() if broker.running]

    def controller(self) -> int:
        """Which of the nodes leads the quorum; what clients are told is any broker."""
        log = make(TopicData, topic_name="__cluster_metadata", partitions=(_FIRST,))
        request = make(DescribeQuorumRequest, topics=(log,))
        answer = requests.call(self.address, ApiKey.DESCRIBE_QUORUM, 0, request)
        return int(answer.topics[0].partitions[0].leader_id)

    @property
    def data_dir(self) -> Path:
        return self._cluster.nodes[BROKERS[0]].data_dir

    def start(self) -> None:
        self._cluster.start()

    def kill(self, node: int) -> None:
        self._cluster.nodes[node].kill()

    def revive(self, node: int) -> None:
        self._cluster.nodes[node].start()

    def stop(self) -> None:
        self._cluster.kill()


Cluster = ThreeMoldau | ThreeKafka

CLUSTERS: dict[Kind, type[ThreeMoldau | ThreeKafka]] = {
    Moldau: ThreeMoldau,
    Kafka: ThreeKafka,
}


@contextmanager
def clusters(
    kinds: Sequence[Kind], settings: Mapping[str, str] | None = None
) -> Iterator[list[Cluster]]:
    """One cluster of each kind, not started yet; stopped, and their data deleted, at the end."""
    with TemporaryDirectory(prefix="moldau-bench-") as directory, ExitStack() as stack:
        targets: list[Cluster] = []
        for number, kind in enumerate(kinds):
            target = CLUSTERS[kind](Path(directory, str(number)), settings)
            stack.callback(target.stop)
            targets.append(target)
        yield targets


def as_targets(some: Sequence[Cluster]) -> list[Target]:
    """A cluster is a target, whose loads go to the leader."""
    return list(some)
