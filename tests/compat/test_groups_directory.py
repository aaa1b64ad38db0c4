"""Groups and offsets that Apache Kafka stored are taken over with its directory.

With ``--target=kafka`` Kafka opens its own directory again, which proves what the test expects.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from tests.compat.group_configs import CLIENT_METRICS, DELETE, SET, GroupConfigs
from tests.support.apache_kafka import ApacheKafka
from tests.support.clients.base import Sample
from tests.support.clients.confluent import QUIET, ConfluentKafka
from tests.support.moldau import MoldauOnConfig
from tests.support.target import Target

TOPIC = "read"
SESSION_TIMEOUT = "consumer.session.timeout.ms"
RECORDS = 20
TIMEOUT_S = 120
NOT_YET = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


def consumer(bootstrap: str, group: str, **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **QUIET,
            **settings,
        }
    )


def read(member: Consumer, count: int) -> list[int]:
    """Offsets of the next records, read one by one."""
    offsets = []
    for _ in range(count):
        message = member.poll(TIMEOUT_S)
        assert message is not None, "nothing came"
        assert message.error() is None
        offsets.append(message.offset())
    return offsets


def read_and_commit(bootstrap: str, group: str, count: int, **settings: Any) -> None:
    member = consumer(bootstrap, group, **settings)
    member.subscribe([TOPIC])
    assert read(member, count) == list(range(count))
    member.commit(offsets=[TopicPartition(TOPIC, 0, count)], asynchronous=False)
    member.close()


def commit_in_transactions(bootstrap: str, group: str) -> None:
    """One committed, one aborted, one left open."""
    member = consumer(bootstrap, group)
    metadata = member.consumer_group_metadata()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "x", **QUIET})
    producer.init_transactions(TIMEOUT_S)
    for offset, end in (
        (7, producer.commit_transaction),
        (9, producer.abort_transaction),
        (11, None),
    ):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition(TOPIC, 0, offset)], metadata, TIMEOUT_S
        )
        if end is not None:
            end(TIMEOUT_S)
    member.close()


def committed(bootstrap: str, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(TOPIC, 0)])]
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        (found,) = admin.list_consumer_group_offsets(asked, require_stable=False).values()
        try:
            (partition,) = found.result(TIMEOUT_S).topic_partitions
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.2)  # a coordinator that has just started is still reading
        else:
            return int(partition.offset)


@pytest.fixture(scope="module")
def reopened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    directory = tmp_path_factory.mktemp("groups-of-kafka")
    kafka = ApacheKafka(directory, {"transaction.state.log.min.isr": "1"})
    kafka.start()
    broker: Target = kafka
    try:
        client = ConfluentKafka(kafka.bootstrap)
        client.create_topic(TOPIC, 1, {})
        client.write(TOPIC, [Sample(b"%d" % n, b"v%d" % n) for n in range(RECORDS)], "none")
        read_and_commit(kafka.bootstrap, "classic", 4)
        read_and_commit(kafka.bootstrap, "modern", 6, **{"group.protocol": "consumer"})
        commit_in_transactions(kafka.bootstrap, "transactional")
        read_and_commit(kafka.bootstrap, "deleted", 2)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap, **QUIET})
        for future in admin.delete_consumer_groups(["deleted"]).values():
            future.result(TIMEOUT_S)
        settings = GroupConfigs(kafka.bootstrap)
        assert settings.change("modern", (SESSION_TIMEOUT, SET, "50000")) == "NONE"
        assert settings.change("a/b", (SESSION_TIMEOUT, SET, "51000")) == "NONE"
        assert settings.change("a/b", (SESSION_TIMEOUT, DELETE, None)) == "NONE"
        assert settings.change("all", ("metrics", SET, "*"), kind=CLIENT_METRICS) == "NONE"
        settings.close()
        kafka.stop()
        if request.config.getoption("--target") == "moldau":
            broker = MoldauOnConfig(kafka.properties_file, kafka.data_dir)
        broker.start()
        yield broker
        broker.stop()
    finally:
        kafka.kill()
        shutil.rmtree(directory)


@pytest.mark.compat("Groups in a directory of Apache Kafka", "Storage")
@pytest.mark.parametrize(
    ("group", "offset"), [("classic", 4), ("modern", 6), ("transactional", 7), ("deleted", -1001)]
)
def test_committed_offsets_are_there(reopened: Target, group: str, offset: int) -> None:
    assert committed(reopened.bootstrap, group) == offset


@pytest.mark.compat("Groups in a directory of Apache Kafka", "Storage")
def test_settings_of_groups_are_there(reopened: Target) -> None:
    settings = GroupConfigs(reopened.bootstrap)
    assert settings.listed() == {"modern"}
    assert settings.describe("modern")[SESSION_TIMEOUT].value == "50000"
    assert settings.listed(CLIENT_METRICS) == {"all"}
    settings.close()


@pytest.mark.compat("Groups in a directory of Apache Kafka", "Storage")
def test_groups_are_known_by_their_kind(reopened: Target) -> None:
    admin = AdminClient({"bootstrap.servers": reopened.bootstrap, **QUIET})
    committed(reopened.bootstrap, "classic")  # the coordinator has read them
    listed = admin.list_consumer_groups().result(TIMEOUT_S)
    kinds = {one.group_id: one.type.name.lower() for one in listed.valid}
    assert kinds["classic"] == "classic"
    assert kinds["modern"] == "consumer"
    assert "deleted" not in kinds


@pytest.mark.compat("Groups in a directory of Apache Kafka", "Storage")
@pytest.mark.parametrize(("group", "protocol"), [("classic", "classic"), ("modern", "consumer")])
def test_members_go_on_where_they_were(reopened: Target, group: str, protocol: str) -> None:
    start = committed(reopened.bootstrap, group)
    member = consumer(reopened.bootstrap, group, **{"group.protocol": protocol})
    member.subscribe([TOPIC])
    assert read(member, 2) == [start, start + 1]
    member.close()
