"""Real brokers short of disk space or descriptors: nothing is lost, and there is a way out."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.small_disk import small_disk
from tests.support.waiting import eventually
from tests.support.wire import WireClient

from moldau import Consumer, Producer, TopicPartition
from moldau.client.admin import Admin, ConfigChange, ConfigResource, NewTopic, ResourceType
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.real.disk import OsDisk
from moldau.testing.broker import MoldauProcess
from moldau.wire.api import ApiKey

DISK_BYTES = 8 << 20
EAGER = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "0",
    "log.segment.bytes": str(1 << 20),
}


@pytest.fixture
def full(tmp_path: Path) -> Iterator[tuple[MoldauProcess, int]]:
    """A broker whose only disk is full to the last byte, and how many records it has taken."""
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        if type(disk) is not OsDisk:
            pytest.skip("a disk that a process can fill has to be mounted")
        data = tmp_path / "disk" / "data"
        broker = MoldauProcess(tmp_path / "broker", overrides={**EAGER, "log.dirs": str(data)})
        broker.start()
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for name in ("large", "small"):
                admin.create_topics([NewTopic(name, 1)])[0].get()
        taken = sum(fill(broker, size) for size in (100_000, 5000, 100))
        with (data / "filler").open("wb", buffering=0) as filler:
            fill_up(filler.fileno())
        yield broker, taken
        if broker.alive:
            broker.kill()


def fill(broker: MoldauProcess, size: int) -> int:
    """Send records until one is refused; returns how many were taken."""
    taken = 0
    with Producer(
        bootstrap_servers=broker.bootstrap_servers, retries=0, enable_idempotence=False, acks=1
    ) as producer:
        while True:
            try:
                producer.send("large", os.urandom(size)).result(60)
            except KafkaError:
                return taken
            taken += 1


def fill_up(file: int) -> None:
    for size in (65536, 4096, 1):
        try:
            while os.write(file, bytes(size)):
                pass
        except OSError:
            continue


def offsets(broker: MoldauProcess, topic: str) -> tuple[int, int]:
    partition = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        start = consumer.beginning_offsets([partition])[partition]
        return start, consumer.end_offsets([partition])[partition]


def is_taken(broker: MoldauProcess, topic: str) -> bool:
    with Producer(bootstrap_servers=broker.bootstrap_servers, retries=0) as producer:
        try:
            producer.send(topic, b"more").result(60)
        except KafkaError:
            return False
        return True


def test_a_broker_killed_on_a_full_disk_starts_on_it_again_and_again(
    full: tuple[MoldauProcess, int],
) -> None:
    broker, taken = full
    for _ in range(3):
        broker.kill()
        broker.start()
        assert offsets(broker, "large") == (0, taken)
    assert not is_taken(broker, "small")


def test_a_topic_for_which_there_is_no_room_is_refused(full: tuple[MoldauProcess, int]) -> None:
    broker, _ = full
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        journal = Path(broker.overrides["log.dirs"]) / "coordination.journal"
        before = journal.read_bytes()
        for _ in range(3):
            (refused,) = admin.create_topics([NewTopic("new", 1)])
            assert refused.error is not None
            assert refused.error.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert journal.read_bytes() == before, "whoever tries again uses up the journal's room"
        assert "new" not in {topic.name for topic in admin.list_topics()}
        (grown,) = admin.create_partitions({"small": 2})
        assert grown.error is not None
        assert grown.error.code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_full_disk_answers_whatever_needs_no_room(full: tuple[MoldauProcess, int]) -> None:
    broker, taken = full
    async with await WireClient.connect(broker.bootstrap_servers) as client:
        answer = await client.call(
            ApiKey.METADATA, 9, topics=[{"name": "auto"}], allow_auto_topic_creation=True
        )
        assert answer.topics[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        found = await client.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
        assert found.coordinators[0].error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        made = await client.call(ApiKey.INIT_PRODUCER_ID, 2, producer_id=-1, producer_epoch=-1)
        assert made.error_code is ErrorCode.NONE
        cut = [{"name": "large", "partitions": [{"partition_index": 0, "offset": -1}]}]
        deleted = await client.call(ApiKey.DELETE_RECORDS, 2, topics=cut, timeout=10_000)
        assert deleted.topics[0].partitions[0].error_code is ErrorCode.NONE
    assert offsets(broker, "large") == (taken, taken)


@pytest.mark.parametrize("killed", [False, True], ids=["running", "killed"])
def test_deleting_a_topic_makes_room_on_a_full_disk(
    full: tuple[MoldauProcess, int], killed: bool
) -> None:
    broker, _ = full
    if killed:
        broker.kill()
        broker.start()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topics(["large"])[0].get()
    eventually(lambda: is_taken(broker, "small"))
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("new", 1)])[0].get()


@pytest.mark.parametrize("killed", [False, True], ids=["running", "killed"])
def test_a_lower_retention_makes_room_on_a_full_disk(
    full: tuple[MoldauProcess, int], killed: bool
) -> None:
    broker, taken = full
    if killed:
        broker.kill()
        broker.start()
    resource_ = ConfigResource(ResourceType.TOPIC, "large")
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_configs({resource_: [ConfigChange("retention.bytes", "1000000")]})[0].get()
    eventually(lambda: offsets(broker, "large")[0] > 0)
    eventually(lambda: is_taken(broker, "small"))
    assert offsets(broker, "large")[1] == taken
    # What was set while nothing could be written beside the partitions is, in time.
    kept = Path(broker.overrides["log.dirs"]) / "large-0" / "topic.config"
    broker.terminate()
    broker.start()
    assert '"retention.bytes":"1000000"' in kept.read_text()


def test_a_broker_without_descriptors_refuses_and_goes_on(tmp_path: Path) -> None:
    with (
        MoldauProcess(tmp_path) as broker,
        ExitStack() as connections,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        admin.create_topics([NewTopic("t", 1)])[0].get()
        topic = ConfigResource(ResourceType.TOPIC, "t")
        admin.alter_configs({topic: [ConfigChange("retention.ms", "1")]})[0].get()
        descriptors = Path(f"/proc/{broker.pid}/fd")
        limit = len(list(descriptors.iterdir())) + 10
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (limit, limit))
        for _ in range(30):
            connection = socket.create_connection((broker.host, broker.port), timeout=60)
            connections.enter_context(connection)
        eventually(lambda: "Too many open files" in broker.logs(100))
        # Large enough for a snapshot, for which there is no descriptor.
        value = ",".join(f"{number}:1" for number in range(1000))
        for _ in range(3):
            change = ConfigChange("leader.replication.throttled.replicas", value)
            admin.alter_configs({topic: [change]})[0].get()
        connections.close()
        eventually(lambda: len(list(descriptors.iterdir())) < limit - 5)
        admin.create_topics([NewTopic("u", 1)])[0].get()
        assert broker.alive
        assert "stops" not in broker.logs(100)
        assert "offline" not in broker.logs(100)
