"""Several disks under a running broker: one that fills up, replicas that change disks."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.support.in_process import InProcessBroker, eventually
from tests.support.small_disk import small_disk
from tests.support.wire import WireClient, one_batch, values_of

from moldau.client.admin import Admin, NewTopic
from moldau.errors import ErrorCode
from moldau.testing.broker import MoldauProcess
from moldau.wire.api import ApiKey

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
DISK_BYTES = 2_000_000
VALUE_BYTES = 50_000
TOPIC = 2
QUICK = {
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "0",
}
SMALL_SEGMENTS = {"internal.segment.bytes": "200000", "retention.ms": "-1"}


class SmallDisk:
    """A broker whose second directory is on a disk of 2 MB, with a topic on either disk."""

    def __init__(self, broker: InProcessBroker, client: WireClient, path: Path) -> None:
        self.broker = broker
        self.client = client
        self.path = path
        self.acknowledged: list[bytes] = []

    async def fill_up(self) -> None:
        while (value := await self.produce()) is not None:
            assert len(self.acknowledged) < 100, value

    async def produce(self) -> bytes | None:
        """A record of its own, if the disk has room for it."""
        value = b"%06d" % len(self.acknowledged) + os.urandom(VALUE_BYTES)
        result = await self.client.produce("small", one_batch(value))
        if result.error_code == STORAGE_ERROR:
            return None
        assert result.error_code == 0
        assert result.base_offset == len(self.acknowledged)
        self.acknowledged.append(value)
        return value

    async def read(self, client: WireClient | None = None) -> list[bytes]:
        """Everything from the start of the log on."""
        values: list[bytes] = []
        log = self.broker.partition("small").log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            found = await (client or self.client).fetch("small", offset)
            assert found.error_code == 0
            batch = [value for value in values_of(found) if value is not None]
            values += batch
            offset += len(batch)
        return values

    async def alter(self, **settings: str) -> None:
        answer = await self.client.call(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            resources=[
                {
                    "resource_type": TOPIC,
                    "resource_name": "small",
                    "configs": [
                        {"name": name.replace("_", "."), "config_operation": 0, "value": value}
                        for name, value in settings.items()
                    ],
                }
            ],
        )
        assert answer.responses[0].error_code == 0


@asynccontextmanager
async def running(tmp_path: Path, *, mount: bool) -> AsyncIterator[SmallDisk]:
    path = tmp_path / "small-disk"
    with small_disk(path, DISK_BYTES, mount=mount) as disk:
        settings = {"log.dirs": f"{tmp_path / 'large-disk'},{path}", **QUICK}
        async with InProcessBroker(tmp_path, settings, disk) as broker:
            client = await broker.connect()
            await client.create_topic("large", configs=SMALL_SEGMENTS)
            await client.create_topic("small", configs=SMALL_SEGMENTS)
            assert Path(broker.partition("small").log.directory).parent == path
            yield SmallDisk(broker, client, path)


MOUNT = pytest.mark.parametrize("mount", [True, False], ids=["tmpfs", "quota"])


@MOUNT
async def test_a_full_disk_is_read_and_other_disks_are_written(tmp_path: Path, mount: bool) -> None:
    async with running(tmp_path, mount=mount) as small:
        await small.fill_up()
        assert len(small.acknowledged) > 20
        for _ in range(3):
            assert await small.produce() is None
        assert await small.read() == small.acknowledged
        assert (await small.client.produce("large", one_batch(b"v"))).error_code == 0
        answer = await small.client.call(ApiKey.DESCRIBE_LOG_DIRS, topics=None)
        shown = {Path(one.log_dir): one for one in answer.results}
        assert shown[small.path].error_code == 0
        assert shown[small.path].total_bytes <= DISK_BYTES * 1.1
        assert shown[small.path].usable_bytes < VALUE_BYTES + 4096


@MOUNT
async def test_appends_are_taken_again_once_retention_has_made_room(
    tmp_path: Path, mount: bool
) -> None:
    async with running(tmp_path, mount=mount) as small:
        await small.fill_up()
        await small.alter(retention_bytes="1000000")
        log = small.broker.partition("small").log
        await eventually(lambda: log.log_start_offset > 0)
        await eventually(lambda: not list(small.path.rglob("*.deleted")))
        for _ in range(5):
            assert await small.produce() is not None
        await small.alter(retention_bytes="-1")  # nothing goes any more while it is read
        kept = await small.read()
        assert kept == small.acknowledged[-len(kept) :]
        assert len(kept) == len(small.acknowledged) - log.log_start_offset


@MOUNT
async def test_deleting_a_topic_makes_room_for_the_others(tmp_path: Path, mount: bool) -> None:
    async with running(tmp_path, mount=mount) as small:
        await small.client.create_topic("third", configs=SMALL_SEGMENTS)
        await small.client.create_topic("bulky", configs=SMALL_SEGMENTS)
        assert Path(small.broker.partition("bulky").log.directory).parent == small.path
        for _ in range(20):
            result = await small.client.produce("bulky", one_batch(os.urandom(VALUE_BYTES)))
            assert result.error_code == 0
        await small.fill_up()
        await small.client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "bulky"}], timeout=60_000)
        await eventually(lambda: not list(small.path.glob("bulky*")))
        for _ in range(5):
            assert await small.produce() is not None
        assert await small.read() == small.acknowledged


@MOUNT
async def test_nothing_is_lost_when_the_broker_ends_with_a_full_disk(
    tmp_path: Path, mount: bool
) -> None:
    async with running(tmp_path, mount=mount) as small:
        await small.fill_up()
        await small.broker.restart()
        client = await small.broker.connect()
        assert await small.read(client) == small.acknowledged


@pytest.mark.parametrize(("mount", "version"), [(True, 1), (False, 2)], ids=["tmpfs", "quota"])
async def test_a_replica_moves_away_from_a_full_disk(
    tmp_path: Path, mount: bool, version: int
) -> None:
    async with running(tmp_path, mount=mount) as small:
        await small.fill_up()
        large = tmp_path / "large-disk"
        wanted = [{"path": str(large), "topics": [{"name": "small", "partitions": [0]}]}]
        answer = await small.client.call(
            ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=wanted, version=version
        )
        assert answer.results[0].partitions[0].error_code == 0
        partition = small.broker.partition("small")
        await eventually(lambda: Path(partition.log.directory).parent == large)
        for _ in range(5):
            assert await small.produce() is not None
        assert await small.read() == small.acknowledged
        await eventually(lambda: not list(small.path.glob("small*")))


async def test_a_move_into_a_full_disk_waits_for_room(tmp_path: Path) -> None:
    async with running(tmp_path, mount=True) as small:
        await small.fill_up()
        await small.client.produce("large", one_batch(os.urandom(VALUE_BYTES * 3)))
        wanted = [{"path": str(small.path), "topics": [{"name": "large", "partitions": [0]}]}]
        answer = await small.client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=wanted)
        # There may not even be room for the directory of the copy.
        assert answer.results[0].partitions[0].error_code in (0, STORAGE_ERROR)
        produced = await small.client.produce("large", one_batch(b"meanwhile"))
        assert produced.base_offset == 1
        answer = await small.client.call(ApiKey.DESCRIBE_LOG_DIRS, topics=None)
        assert {one.error_code for one in answer.results} == {0}


def test_a_broker_without_any_directory_left_ends_and_says_why(tmp_path: Path) -> None:
    """As Kafka does. The directory is taken from under the broker, which a roll notices."""
    broker = MoldauProcess(tmp_path / "broker")
    broker.start()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        (outcome,) = admin.create_topics([NewTopic("t", 1, configs=SMALL_SEGMENTS)])
        outcome.get()
    shutil.rmtree(broker.data_dir)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    while broker.alive:
        producer.produce("t", os.urandom(VALUE_BYTES))
        producer.flush(0.2)
    assert broker.terminate() == 1, "what it ended with by itself"
    assert "all log directories have failed" in broker.logs()
    producer.purge()


async def test_the_copy_of_the_settings_goes_where_the_replica_goes(tmp_path: Path) -> None:
    """There and back again."""
    homes = [tmp_path / "one", tmp_path / "two"]
    settings = {"log.dirs": ",".join(map(str, homes))}
    async with InProcessBroker(tmp_path, settings) as broker:
        client = await broker.connect()
        await client.create_topic("t", configs={"cleanup.policy": "compact"})
        if not (homes[0] / "t-0").exists():
            homes.reverse()
        for home in (homes[1], homes[0]):
            wanted = [{"path": str(home), "topics": [{"name": "t", "partitions": [0]}]}]
            answer = await client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=wanted)
            assert not answer.results[0].partitions[0].error_code
            copy = home / "t-0" / "topic.config"
            await eventually(partial(_says, copy, b"compact"), f"{copy} was not written")


def _says(file: Path, word: bytes) -> bool:
    try:
        return word in file.read_bytes()
    except FileNotFoundError:
        return False
