"""The clusters that the clients are tested against: each test runs on Moldau and on Apache Kafka.

``cluster`` is the session's broker of either kind (``-k moldau`` picks one). Tests that end brokers
have their own: ``own_moldau``, or ``kafka_cluster`` with three Apache Kafka nodes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec, TopicMetadata
from tests.support.apache_kafka import ApacheKafka, ApacheKafkaCluster
from tests.support.moldau import Moldau
from tests.support.process import START_TIMEOUT_S, free_port
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau.testing.broker import MoldauProcess

NewTopicFactory = Callable[..., str]

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "100",
    "offsets.topic.num.partitions": "1",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "500",
}
"""Quick groups. Sessions may be short, for members that are to die, and are not by themselves: a
machine that stands still for some seconds must not cost the others their places."""

KAFKA_SETTINGS = {
    **SETTINGS,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
"""What timed out is aborted soon."""

_running: dict[str, Target] = {}


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Target]]:
    """Starts the broker of a kind when the first test asks for it."""

    def get(kind: str) -> Target:
        if kind not in _running:
            directory = tmp_path_factory.mktemp(kind)
            target: Target = (
                Moldau(directory, SETTINGS)
                if kind == "moldau"
                else ApacheKafka(directory, KAFKA_SETTINGS)
            )
            target.start()
            _running[kind] = target
        return _running[kind]

    yield get
    while _running:
        _running.popitem()[1].kill()


@pytest.fixture(params=["moldau", "kafka"])
def cluster(request: pytest.FixtureRequest, clusters: Callable[[str], Target]) -> Target:
    """A running cluster of one broker: ``cluster.bootstrap``."""
    return clusters(request.param)


@pytest.fixture
def kafka(clusters: Callable[[str], Target]) -> Target:
    """Apache Kafka alone, for what Moldau does not do yet."""
    return clusters("kafka")


@pytest.fixture
def new_topic(cluster: Target) -> NewTopicFactory:
    """Creates topics in ``cluster`` and gives their names: ``new_topic(partitions=3)``."""
    return topic_factory(cluster.bootstrap)


@pytest.fixture
def own_moldau(tmp_path: Path) -> Iterator[MoldauProcess]:
    """A Moldau broker of the test's own, to be killed and restarted; it keeps its port."""
    with MoldauProcess(
        tmp_path / "own", port=free_port(), overrides=SETTINGS, start_timeout=START_TIMEOUT_S
    ) as broker:
        yield broker


@pytest.fixture(scope="session")
def shared_kafka_cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ApacheKafkaCluster]:
    with ApacheKafkaCluster(tmp_path_factory.mktemp("kafka-cluster"), SETTINGS) as three:
        yield three


@pytest.fixture
def kafka_cluster(shared_kafka_cluster: ApacheKafkaCluster) -> Iterator[ApacheKafkaCluster]:
    """Three Apache Kafka nodes; what a test killed runs again afterwards."""
    yield shared_kafka_cluster
    for node in shared_kafka_cluster.nodes.values():
        if not node.running:
            node.start()


def is_led(topic: TopicMetadata | None, partitions: int) -> bool:
    led = [] if topic is None else [one for one in topic.partitions.values() if one.leader >= 0]
    return len(led) == partitions


def _is_created(admin: AdminClient, topic: NewTopic) -> bool:
    """False while a broker of the cluster is away for a moment, and replicas have no place."""
    try:
        admin.create_topics([topic])[topic.topic].result(60)
    except KafkaException as failure:
        code = failure.args[0].code()
        if code not in (KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.TOPIC_ALREADY_EXISTS):
            raise
        return bool(code == KafkaError.TOPIC_ALREADY_EXISTS)  # by an answer that was lost
    return True


def _is_served(admin: AdminClient, topic: str, partitions: int) -> bool:
    """Brokers of Apache Kafka tell of leaders a moment before these have their logs."""
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    try:
        for future in admin.list_offsets(wanted).values():
            future.result(60)
    except KafkaException:
        return False
    return True


def topic_factory(bootstrap: str) -> NewTopicFactory:
    # Another client creates the topics: these tests are about ours.
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(partitions: int = 1, replication: int = 1, **configs: Any) -> str:
        name = f"client-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        topic = NewTopic(name, partitions, replication, config=settings)
        eventually(lambda: _is_created(admin, topic))
        # The controller has it; the brokers hear of it in their own time.
        eventually(lambda: is_led(admin.list_topics(timeout=60).topics.get(name), partitions))
        eventually(lambda: _is_served(admin, name, partitions))
        return name

    return create
