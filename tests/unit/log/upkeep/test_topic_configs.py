"""Copies of topics' settings: where they are, when they are written, what becomes of bad ones."""

from __future__ import annotations

import errno
import random

import pytest
from tests.support.log_manager import A0, A1, B0, CONFIG, TOPIC_ID, Broker

from moldau.log import TopicSettings
from moldau.log.errors import CorruptCheckpointError
from moldau.log.files.topic_config import (
    StoredTopicConfig,
    encode_topic_config,
    read_topic_config,
)
from moldau.testing.disk import MemoryDisk

SETTINGS = {"cleanup.policy": "compact", "x": "ü\n"}


@pytest.fixture
async def broker() -> Broker:
    broker = Broker(MemoryDisk(random.Random(3)))
    await broker.start()
    for partition in (A0, A1, B0):
        broker.manager.get_or_create(partition, TOPIC_ID, CONFIG)
    return broker


def disk(broker: Broker) -> MemoryDisk:
    assert isinstance(broker.disk, MemoryDisk)
    return broker.disk


def copy(broker: Broker, directory: str = "/d1/a-0") -> StoredTopicConfig:
    return read_topic_config(disk(broker), directory)


def test_a_copy_is_read_as_it_was_written_and_every_flipped_bit_is_noticed() -> None:
    plain = MemoryDisk()
    plain.makedirs("/p")
    stored = StoredTopicConfig(TOPIC_ID, 3, SETTINGS)
    plain.write("/p/topic.config", encode_topic_config(stored))
    assert read_topic_config(plain, "/p") == stored
    for position in range(plain.size("/p/topic.config")):
        plain.flip_bit("/p/topic.config", position, 3)
        with pytest.raises(CorruptCheckpointError):
            read_topic_config(plain, "/p")
        plain.flip_bit("/p/topic.config", position, 3)


async def test_the_lowest_partition_of_a_topic_has_the_copy(broker: Broker) -> None:
    await broker.manager.topic_configs.keep({"a": TopicSettings(0, SETTINGS)})
    assert copy(broker) == (TOPIC_ID, 0, SETTINGS)
    assert not disk(broker).exists("/d1/a-1/topic.config")
    assert not disk(broker).exists("/d1/b-x-0/topic.config")


async def test_a_changed_copy_survives_a_power_cut(broker: Broker) -> None:
    disk(broker).sync_dir("/d1")
    disk(broker).sync_dir("/d1/a-0")
    await broker.manager.topic_configs.keep({"a": TopicSettings(1, SETTINGS)})
    assert read_topic_config(disk(broker).power_cut(), "/d1/a-0") == (TOPIC_ID, 1, SETTINGS)


async def test_what_is_there_is_not_written_again(broker: Broker) -> None:
    copies = broker.manager.topic_configs
    await copies.keep({"a": TopicSettings(1, SETTINGS)})
    assert await copies.read() == {"a": StoredTopicConfig(TOPIC_ID, 1, SETTINGS)}
    before = disk(broker).operations["write"]
    await copies.keep({"a": TopicSettings(1, SETTINGS)})
    assert disk(broker).operations["write"] == before


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
async def test_a_copy_that_cannot_be_written_goes_and_comes_back(
    broker: Broker, error: int
) -> None:
    copies = broker.manager.topic_configs
    await copies.keep({"a": TopicSettings(0, {})})
    disk(broker).fail(error, operations=frozenset({"write"}))
    await copies.keep({"a": TopicSettings(1, SETTINGS)})
    # An old one would tell that the store has lost something.
    assert not disk(broker).exists("/d1/a-0/topic.config")
    assert broker.manager.online_dirs == ["/d1"]
    disk(broker).heal()
    await broker.clock.advance(120)
    assert copy(broker) == (TOPIC_ID, 1, SETTINGS)


async def test_a_disk_that_fails_takes_its_directory_offline(broker: Broker) -> None:
    disk(broker).fail(errno.EIO, operations=frozenset({"write"}))
    await broker.manager.topic_configs.keep({"a": TopicSettings(1, SETTINGS)})
    assert broker.manager.online_dirs == []


async def test_a_damaged_copy_is_none(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    copies = broker.manager.topic_configs
    await copies.keep({"a": TopicSettings(0, {}), "b-x": TopicSettings(4, SETTINGS)})
    disk(broker).flip_bit("/d1/a-0/topic.config", 20, 1)
    assert await copies.read() == {"b-x": StoredTopicConfig(TOPIC_ID, 4, SETTINGS)}
    assert "checksum" in caplog.text
    await copies.keep({"a": TopicSettings(0, {})})
    assert copy(broker) == (TOPIC_ID, 0, {})


async def test_a_deleted_topic_leaves_nothing_to_write(broker: Broker) -> None:
    copies = broker.manager.topic_configs
    await copies.keep({"a": TopicSettings(0, {})})
    for partition in (A0, A1):
        broker.manager.delete(partition)
    await broker.manager.sync_deletions()
    await copies.partition_moved("a")
    assert not disk(broker).exists("/d1/a-0")


async def test_a_deletion_survives_a_power_cut(broker: Broker) -> None:
    disk(broker).sync_filesystem("/d1")
    broker.manager.delete(A0)
    await broker.manager.sync_deletions()
    names = disk(broker).power_cut().listdir("/d1")
    assert "a-0" not in names
    assert any(name.startswith("a-0.") for name in names)


async def test_a_log_that_cannot_be_renamed_is_served_as_before(broker: Broker) -> None:
    disk(broker).fail(errno.EIO, operations=frozenset({"rename"}))
    with pytest.raises(Exception, match="cannot rename"):
        broker.manager.delete(A0)
    assert broker.manager.get(A0) is not None
