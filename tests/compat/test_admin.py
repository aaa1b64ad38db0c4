"""Topics, partitions, settings, offsets and the cluster, through each client's admin calls.

What one client changes, another one sees: the check goes through confluent-kafka where it can.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from tests.compat.conftest import ClientPool
from tests.compat.kinds import WRITERS, offering
from tests.support.clients.base import Client, ClientError, Sample
from tests.support.clients.confluent import ConfluentKafka
from tests.support.clients.java import JavaClient
from tests.support.samples import samples
from tests.support.target import Target

_numbers = count()


@pytest.fixture
def topic_name() -> str:
    return f"admin-{next(_numbers)}"


@pytest.fixture
def observer(clients: ClientPool) -> ConfluentKafka:
    return clients.get(ConfluentKafka)


@pytest.fixture
def topic(topic_name: str, observer: ConfluentKafka) -> str:
    observer.create_topic(topic_name, 1)
    return topic_name


def eventually(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """A controller answers before every broker has heard of the change and cleaned up."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.01)


@pytest.mark.compat("Create topic", "{client}")
@pytest.mark.parametrize("client", offering("create_topic"))
def test_create_topic_with_partitions_and_configs(
    client: type[Client], clients: ClientPool, observer: ConfluentKafka, topic_name: str
) -> None:
    configs = {"retention.ms": "7200000", "cleanup.policy": "compact,delete"}
    clients.get(client).create_topic(topic_name, 3, configs)
    eventually(lambda: topic_name in observer.list_topics())
    assert observer.partition_count(topic_name) == 3
    assert {name: observer.topic_config(topic_name, name) for name in configs} == configs


@pytest.mark.parametrize("client", offering("create_topic"))
def test_create_an_existing_topic_is_refused(
    client: type[Client], clients: ClientPool, topic: str
) -> None:
    if client.name == "kafkajs":  # tells by its return value, not by an error
        clients.get(client).create_topic(topic, 1)
        return
    with pytest.raises(ClientError, match=r"(?i)topic.?already.?exists"):
        clients.get(client).create_topic(topic, 1)


@pytest.mark.compat("Topic created by first use", "{client}")
@pytest.mark.parametrize("client", WRITERS)
def test_the_first_record_creates_the_topic(
    client: type[Client], clients: ClientPool, observer: ConfluentKafka, topic_name: str
) -> None:
    clients.get(client).write(topic_name, [Sample(b"key", b"value")], "none")
    assert observer.latest_offset(topic_name) == 1


@pytest.mark.compat("List topics", "{client}")
@pytest.mark.parametrize("client", offering("list_topics"))
def test_list_topics(client: type[Client], clients: ClientPool, topic: str) -> None:
    eventually(lambda: topic in clients.get(client).list_topics())


@pytest.mark.compat("Describe topic", "{client}")
@pytest.mark.parametrize("client", offering("partition_count"))
def test_describe_topic(
    client: type[Client], clients: ClientPool, observer: ConfluentKafka, topic_name: str
) -> None:
    observer.create_topic(topic_name, 4)
    assert clients.get(client).partition_count(topic_name) == 4


@pytest.mark.compat("Create partitions", "{client}")
@pytest.mark.parametrize("client", offering("create_partitions"))
def test_create_partitions(
    client: type[Client], clients: ClientPool, observer: ConfluentKafka, topic: str
) -> None:
    clients.get(client).create_partitions(topic, 5)
    eventually(lambda: observer.partition_count(topic) == 5)


@pytest.mark.compat("Describe topic configs", "{client}")
@pytest.mark.parametrize("client", offering("topic_config"))
def test_describe_topic_config(
    client: type[Client], clients: ClientPool, observer: ConfluentKafka, topic_name: str
) -> None:
    observer.create_topic(topic_name, 1, {"retention.ms": "12345678"})
    assert clients.get(client).topic_config(topic_name, "retention.ms") == "12345678"
    assert clients.get(client).topic_config(topic_name, "segment.bytes") == "1073741824"
    assert clients.get(client).topic_config(topic_name, "cleanup.policy") == "delete"


@pytest.mark.compat("Alter topic configs", "{client}")
@pytest.mark.parametrize("client", offering("alter_topic_config"))
def test_alter_topic_config(
    client: type[Client], clients: ClientPool, observer: ConfluentKafka, topic: str
) -> None:
    clients.get(client).alter_topic_config(topic, "retention.ms", "3600000")
    eventually(lambda: observer.topic_config(topic, "retention.ms") == "3600000")


@pytest.mark.compat("Describe broker configs", "{client}")
@pytest.mark.parametrize("client", offering("broker_config"))
def test_describe_broker_config(client: type[Client], clients: ClientPool, target: Target) -> None:
    assert clients.get(client).broker_config("log.dirs") == str(target.data_dir)
    assert clients.get(client).broker_config("log.retention.hours") == "168"


@pytest.mark.compat("Delete records", "{client}")
@pytest.mark.parametrize("client", offering("delete_records"))
def test_delete_records(
    client: type[Client], clients: ClientPool, observer: ConfluentKafka, topic: str
) -> None:
    observer.write(topic, [Sample(b"%d" % n, b"value") for n in range(10)], "none")
    clients.get(client).delete_records(topic, 7)
    assert observer.earliest_offset(topic) == 7
    assert observer.latest_offset(topic) == 10


@pytest.mark.compat("List offsets", "{client}")
@pytest.mark.parametrize(
    "client", offering("earliest_offset", "latest_offset", "offset_for_timestamp")
)
def test_list_offsets(
    client: type[Client], clients: ClientPool, observer: ConfluentKafka, topic: str
) -> None:
    given = samples()
    observer.write(topic, given, "none")
    observer.delete_records(topic, 2)
    lister = clients.get(client)
    assert lister.earliest_offset(topic) == 2
    assert lister.latest_offset(topic) == len(given)
    for offset in (2, 7, len(given) - 1):
        timestamp = given[offset].timestamp_ms
        assert timestamp is not None
        assert lister.offset_for_timestamp(topic, timestamp) == offset
        # Between two records: the later one.
        assert lister.offset_for_timestamp(topic, timestamp - 1) == offset


def test_the_offset_of_the_largest_timestamp(
    clients: ClientPool, observer: ConfluentKafka, topic: str
) -> None:
    given = samples()
    observer.write(topic, [given[3], given[9], given[5]], "lz4")
    assert clients.get(JavaClient).max_timestamp_offset(topic) == 1


def test_idempotent_producers_are_listed(
    clients: ClientPool, observer: ConfluentKafka, topic: str
) -> None:
    observer.write(topic, [Sample(None, b"value")], "none")
    observer.write(topic, [Sample(None, b"value")], "none")
    assert len(set(clients.get(JavaClient).producer_ids(topic))) == 2


@pytest.mark.compat("Describe cluster", "{client}")
@pytest.mark.parametrize("client", offering("node_ids"))
def test_describe_cluster(client: type[Client], clients: ClientPool, target: Target) -> None:
    assert clients.get(client).node_ids() == target.node_ids


@pytest.mark.compat("Describe log directories", "{client}")
@pytest.mark.parametrize("client", offering("log_size"))
def test_describe_log_dirs(
    client: type[Client], clients: ClientPool, observer: ConfluentKafka, topic: str, target: Target
) -> None:
    observer.write(topic, samples(), "none")
    assert clients.get(client).log_size(topic) == _size_on_disk(target.data_dir / f"{topic}-0")


@pytest.mark.compat("Delete topic", "{client}")
@pytest.mark.parametrize("client", offering("delete_topic"))
def test_delete_topic(
    client: type[Client], clients: ClientPool, observer: ConfluentKafka, topic: str, target: Target
) -> None:
    observer.write(topic, [Sample(b"key", b"value")], "none")
    clients.get(client).delete_topic(topic)
    eventually(lambda: topic not in observer.list_topics())
    eventually(lambda: not (target.data_dir / f"{topic}-0").exists())


def _size_on_disk(directory: Path) -> int:
    return sum(segment.stat().st_size for segment in directory.glob("*.log"))
