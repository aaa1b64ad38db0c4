"""A cluster of processes, and what clients are told about it while its brokers die."""

from __future__ import annotations

import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata
from tests.support.cluster_load import PATIENCE_S
from tests.support.waiting import eventually
from tests.support.zookeeper import ZooKeeper

from moldau.testing.cluster import MoldauCluster

SESSION_MS = 3000
SETTINGS = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    "replica.lag.time.max.ms": 3000,
    "offsets.topic.num.partitions": 4,
}
PARTITIONS = 4


class WatchedCluster:
    """The processes, and what is asked about them."""

    def __init__(self, processes: MoldauCluster, zookeeper: ZooKeeper | None) -> None:
        self.processes = processes
        self.zookeeper = zookeeper
        # Not for long of one broker, which may be the one that is stopped.
        self._admin = AdminClient(
            {"bootstrap.servers": processes.bootstrap_servers, "socket.timeout.ms": 2000}
        )

    def logs(self) -> str:
        return self.processes.logs()

    def _metadata(self) -> ClusterMetadata:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._admin.list_topics(timeout=4)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise

    def leader_of(self, topic: str, partition: int = 0) -> int:
        return int(self._metadata().topics[topic].partitions[partition].leader)

    def controller(self) -> int:
        return int(self._metadata().controller_id)

    def coordinator_of(self, group: str) -> int:
        future = self._admin.describe_consumer_groups([group])[group]
        return int(future.result(60).coordinator.id)

    def is_whole(self, topic: str) -> bool:
        """Whether every replica of the topic is in sync."""
        described = self._metadata().topics[topic]
        return len(described.partitions) == PARTITIONS and all(
            len(each.isrs) == 3 for each in described.partitions.values()
        )

    def heal(self, topic: str) -> None:
        if self.zookeeper is None and not self.processes.coordination.alive:
            self.processes.coordination.start()
        for broker in self.processes.brokers.values():
            if not broker.alive:
                broker.start()
        eventually(lambda: self.is_whole(topic), f"{topic} does not become whole")

    def restart_coordination(self) -> None:
        """kill -9, and the same again."""
        if self.zookeeper is None:
            self.processes.coordination.kill()
            self.processes.coordination.start()
        else:
            self.zookeeper.kill()
            self.zookeeper.start()
