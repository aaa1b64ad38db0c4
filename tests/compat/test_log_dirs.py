"""Several log directories: where partitions go, and moving them while they are used."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from tests.support import java
from tests.support.clients.java import JavaClient
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau.client.admin import (
    Admin,
    ConfigChange,
    ConfigResource,
    NewTopic,
    Replica,
    ResourceType,
)
from moldau.errors import ErrorCode
from moldau.model import TopicPartition

TOOLS = "Kafka's tools"
NODE = 1


@pytest.fixture
def dirs(tmp_path: Path) -> list[str]:
    return [str(tmp_path / name) for name in ("disk0", "disk1", "disk2")]


@pytest.fixture
def broker(new_target: Callable[[dict[str, str]], Target], dirs: list[str]) -> Target:
    return new_target(
        {
            "log.dirs": ",".join(dirs),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
        }
    )


@pytest.fixture
def admin(broker: Target) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        yield admin


def create(admin: Admin, topic: str, partitions: int = 1) -> None:
    (outcome,) = admin.create_topics([NewTopic(topic, partitions)])
    outcome.get()


def homes(admin: Admin, topic: str) -> dict[int, str]:
    """The directory of each partition."""
    return {
        partition.partition: log_dir.path
        for log_dir in admin.describe_log_dirs()
        for partition in log_dir.sizes
        if partition.topic == topic
    }


def code_of_move(admin: Admin, topic: str, partition: int, path: str) -> ErrorCode | None:
    (outcome,) = admin.alter_replica_log_dirs({Replica(topic, partition, NODE): path})
    return None if outcome.error is None else outcome.error.code


def test_new_partitions_go_where_the_fewest_are(admin: Admin, dirs: list[str]) -> None:
    create(admin, "spread", 9)
    eventually(lambda: len(homes(admin, "spread")) == 9)
    assert Counter(homes(admin, "spread").values()) == Counter(dirs * 3)


def test_errors_of_moves(admin: Admin, dirs: list[str]) -> None:
    create(admin, "t", 2)
    eventually(lambda: len(homes(admin, "t")) == 2)
    assert code_of_move(admin, "t", 0, "/no/such/directory") is ErrorCode.LOG_DIR_NOT_FOUND
    assert code_of_move(admin, "t", 0, dirs[0] + "/") is ErrorCode.LOG_DIR_NOT_FOUND
    assert code_of_move(admin, "t", 9, dirs[0]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of_move(admin, "absent", 0, dirs[0]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of_move(admin, "t", 0, homes(admin, "t")[0]) is None


def test_a_partition_is_made_where_it_was_wanted_before(admin: Admin, dirs: list[str]) -> None:
    create(admin, "first", 1)
    eventually(lambda: len(homes(admin, "first")) == 1)
    crowded = homes(admin, "first")[0]
    assert code_of_move(admin, "later", 0, crowded) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create(admin, "later", 1)
    eventually(lambda: homes(admin, "later") == {0: crowded})


def cordon(admin: Admin, value: str) -> ErrorCode | None:
    change = ConfigChange("cordoned.log.dirs", value)
    (outcome,) = admin.alter_configs({ConfigResource(ResourceType.BROKER, str(NODE)): [change]})
    return None if outcome.error is None else outcome.error.code


def code_of_creation(admin: Admin, topic: str) -> ErrorCode | None:
    (outcome,) = admin.create_topics([NewTopic(topic)], validate_only=True)
    return None if outcome.error is None else outcome.error.code


def test_cordoned_directories_get_no_new_partitions(admin: Admin, dirs: list[str]) -> None:
    assert cordon(admin, "/no/such/directory") is ErrorCode.INVALID_REQUEST
    assert cordon(admin, f"*,{dirs[0]}") is ErrorCode.INVALID_REQUEST
    create(admin, "before", 3)
    eventually(lambda: Counter(homes(admin, "before").values()) == Counter(dirs))
    at_home = {home: number for number, home in homes(admin, "before").items()}

    assert cordon(admin, f"{dirs[0]},{dirs[1]}") is None
    refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    eventually(lambda: code_of_move(admin, "before", at_home[dirs[0]], dirs[0]) is refused)
    assert code_of_move(admin, "before", at_home[dirs[2]], dirs[1]) is refused
    cordoned = {log_dir.path for log_dir in admin.describe_log_dirs() if log_dir.cordoned}
    assert cordoned == set(dirs[:2])
    create(admin, "after", 4)
    eventually(lambda: list(homes(admin, "after").values()) == [dirs[2]] * 4)

    assert cordon(admin, "*") is None
    full = ErrorCode.INVALID_REPLICATION_FACTOR
    eventually(lambda: code_of_creation(admin, "none") is full)
    (grown,) = admin.create_partitions({"after": 5})
    assert grown.error is not None
    assert grown.error.code is full
    assert set(homes(admin, "before").values()) == set(dirs)

    assert cordon(admin, "") is None
    eventually(lambda: code_of_creation(admin, "none") is None)
    create(admin, "again", 2)
    eventually(lambda: set(homes(admin, "again").values()) == set(dirs[:2]))


@pytest.mark.compat("LogDirsCommand", TOOLS)
def test_the_java_client_moves_a_replica_and_kafkas_tool_shows_it(
    broker: Target, admin: Admin, dirs: list[str]
) -> None:
    create(admin, "moved")
    client = JavaClient(broker.bootstrap)
    eventually(lambda: client.replica_directory("moved") in dirs)
    before = client.replica_directory("moved")
    after = next(path for path in dirs if path != before)
    client.move_replica("moved", after)
    eventually(lambda: client.replica_directory("moved") == after)
    client.close()
    server = ("--bootstrap-server", broker.bootstrap)
    output = java.run_tool(java.LOG_DIRS, *server, "--describe", "--topic-list", "moved")
    shown = json.loads(output.decode().splitlines()[-1])
    (node,) = shown["brokers"]
    found = {
        log_dir["logDir"]: [(p["partition"], p["isFuture"]) for p in log_dir["partitions"]]
        for log_dir in node["logDirs"]
        if log_dir["partitions"]
    }
    assert found == {after: [("moved-0", False)]}


RECORDS = 20_000


def test_a_move_under_load_loses_doubles_and_reorders_nothing(
    broker: Target, admin: Admin, dirs: list[str]
) -> None:
    create(admin, "busy")
    eventually(lambda: homes(admin, "busy"))
    received: list[int] = []
    reading = threading.Thread(
        target=read_all, args=(broker.bootstrap, "busy", received), daemon=True
    )
    writing = threading.Thread(target=write_all, args=(broker.bootstrap, "busy"))
    reading.start()
    writing.start()
    moves = 0
    while writing.is_alive() or moves < 3:
        before = homes(admin, "busy")[0]
        after = dirs[(dirs.index(before) + 1) % len(dirs)]
        assert code_of_move(admin, "busy", 0, after) is None
        eventually(partial(_is_in, admin, after))
        moves += 1
    writing.join()
    reading.join(150)
    assert not reading.is_alive()
    assert received == list(range(RECORDS))
    again: list[int] = []
    read_all(broker.bootstrap, "busy", again)
    assert again == received
    assert TopicPartition("busy", 0) not in {
        partition for log_dir in admin.describe_log_dirs() for partition in log_dir.future
    }


def _is_in(admin: Admin, directory: str) -> bool:
    return homes(admin, "busy") == {0: directory}


def write_all(bootstrap: str, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2}
    )
    failures: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    for number in range(RECORDS):
        while True:
            try:
                producer.produce(topic, str(number).encode() * 20, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 100 == 0:
            producer.flush(150)
    producer.flush(150)
    assert not failures, failures[:3]


def read_all(bootstrap: str, topic: str, received: list[int]) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{id(received)}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    while len(received) < RECORDS:
        for message in consumer.consume(500, 1.0):
            assert message.error() is None, message.error()
            value = message.value().decode()
            received.append(int(value[: len(value) // 20]))
    consumer.close()
