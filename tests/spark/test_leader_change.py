"""Leaders and coordinators that move in the middle of a job, on three nodes of Apache Kafka."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, PartitionMetadata
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from tests.client.conftest import kafka_cluster, shared_kafka_cluster, topic_factory
from tests.spark import exactly_once_faults
from tests.spark.exactly_once_faults import Fault, held, plan_faults, register, start_copy, waiting
from tests.spark.records import committed_rows, produce
from tests.support.apache_kafka import ApacheKafkaCluster
from tests.support.waiting import eventually

from moldau.client.admin.admin import Admin
from moldau.errors import KafkaError

__all__ = ["kafka_cluster", "shared_kafka_cluster"]

PARTITIONS = 3
PER_PARTITION = 400
ROWS = [
    (part, offset, b"%d" % offset + b" " * 300)
    for part in range(PARTITIONS)
    for offset in range(PER_PARTITION)
]


class Job:
    """Two topics of three replicas, one with records, and the brokers under them."""

    def __init__(self, cluster: ApacheKafkaCluster, plan: Path) -> None:
        self.cluster = cluster
        self.plan = plan
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        new_topic = topic_factory(cluster.bootstrap)
        self.topic, self.copy = (new_topic(partitions=PARTITIONS, replication=3) for _ in range(2))
        rows = [{"value": value, "partition": part} for part, _, value in ROWS]
        produce(cluster.bootstrap, self.topic, rows, **{"batch.size": 10000})

    def partitions(self, topic: str) -> list[PartitionMetadata]:
        """As a broker knows them that is there: none while a connection breaks."""
        try:
            return list(
                self._admin.list_topics(topic, timeout=60).topics[topic].partitions.values()
            )
        except KafkaException:
            return []

    def kill_leader(self, topic: str) -> None:
        """Of the first partition."""

        def killed() -> bool:
            leader = next((one.leader for one in self.partitions(topic) if one.id == 0), -1)
            node = self.cluster.nodes.get(leader)
            if node is None or not node.running:
                return False  # there is another one in a moment
            node.kill()
            return True

        eventually(killed, f"{topic} has no leader", timeout=120)

    def move_leaders(self) -> None:
        """Every node runs again, and leads what it led first."""
        for node in self.cluster.nodes.values():
            if not node.running:
                node.start()
        with Admin(bootstrap_servers=self.cluster.bootstrap) as admin:

            def moved() -> bool:
                # Another controller may still have to be elected.
                with contextlib.suppress(KafkaError):
                    admin.elect_leaders()
                leaders = [one.leader == one.replicas[0] for one in self.partitions(self.topic)]
                return len(leaders) == PARTITIONS and all(leaders)

            eventually(moved, timeout=200)

    def when_waiting(self, disturb: Callable[[], None]) -> None:
        """Once a task has come to its step; others may come to theirs meanwhile."""
        eventually(lambda: waiting(self.plan), "no task comes to its step", timeout=200)
        sign = waiting(self.plan)[0]
        disturb()
        sign.unlink()


@pytest.fixture
def job(kafka_cluster: ApacheKafkaCluster, tmp_path: Path) -> Job:
    cloudpickle.register_pickle_by_value(exactly_once_faults)  # type: ignore[no-untyped-call]
    return Job(kafka_cluster, tmp_path / "plan")


def test_leaders_that_die_and_move(job: Job, spark: SparkSession, tmp_path: Path) -> None:
    server = {"kafka.bootstrap.servers": job.cluster.bootstrap}
    small = {"kafka.max.partition.fetch.bytes": "20000"}
    rows = (
        spark.read.format("moldau")
        .schema("value BINARY, partition INT, offset BIGINT")
        .options(**server, **small, subscribe=job.topic)
        .load()
    )
    plan_faults(job.plan, [Fault("rows of 0", "waiter")])
    with ThreadPoolExecutor() as threads:
        slow = rows.mapInArrow(partial(held, str(job.plan)), rows.schema)
        collected = threads.submit(slow.collect)
        job.when_waiting(partial(job.kill_leader, job.topic))
        found = collected.result(300)
    assert sorted((row.partition, row.offset, bytes(row.value)) for row in found) == ROWS

    register(spark)
    faults = [Fault("task 0 sending", "waiter"), Fault("task 1 after", "waiter")]
    plan_faults(job.plan, faults)
    query = start_copy(spark, job.cluster.bootstrap, job.topic, job.copy, tmp_path, rows=400)
    job.when_waiting(job.move_leaders)
    # All rows of the batch are written, but not one is committed: another coordinator does that.
    job.when_waiting(partial(job.kill_leader, "__transaction_state"))
    assert query.awaitTermination(300)
    copied = committed_rows(job.cluster.bootstrap, job.copy, PARTITIONS, len(ROWS))
    assert [(row.partition, row.value) for row in copied] == [
        (part, value) for part, _, value in ROWS
    ]
