"""Disks that fill up or fail under a running broker: Kafka's storage error, and life goes on."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.faulty_disk import FaultyDisk
from tests.support.in_process import InProcessBroker, eventually
from tests.support.wire import WireClient, one_batch, values_of

from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey
from moldau.wire.primitives import error_from

LONG_MS = 600_000
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


class Disks:
    """A broker with two log directories, each on a "disk" of its own."""

    def __init__(self, tmp_path: Path) -> None:
        self.disk = FaultyDisk()
        self.directories = [tmp_path / "disk0", tmp_path / "disk1"]
        settings = {"log.dirs": ",".join(map(str, self.directories))}
        self.broker = InProcessBroker(tmp_path, settings, self.disk)

    def home(self, topic: str, partition: int = 0) -> Path:
        """The directory of a partition."""
        return Path(self.broker.partition(topic, partition).log.directory)


@pytest.fixture
async def disks(tmp_path: Path) -> AsyncIterator[Disks]:
    disks = Disks(tmp_path)
    async with disks.broker:
        yield disks
        disks.disk.heal()


@pytest.fixture
async def client(disks: Disks) -> WireClient:
    """A client that has made "bad" and "good", on different disks, with a record in each."""
    client = await disks.broker.connect()
    for topic in ("bad", "good"):
        await client.create_topic(topic)
        await client.produce(topic, one_batch(b"before"))
    assert disks.home("bad").parent != disks.home("good").parent
    return client


async def expect_storage_error(client: WireClient, topic: str) -> None:
    """Everything that needs the partition's disk is answered with Kafka's error."""
    produced = await client.produce(topic, one_batch(b"v"))
    assert (produced.error_code, produced.base_offset) == (STORAGE_ERROR, -1)
    fetched = await client.fetch(topic, max_wait_ms=LONG_MS)
    assert fetched.error_code == STORAGE_ERROR
    offsets = await client.call(
        ApiKey.LIST_OFFSETS,
        replica_id=-1,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "timestamp": 5}]}],
    )
    assert offsets.topics[0].partitions[0].error_code is STORAGE_ERROR


@pytest.mark.parametrize("error", [errno.EROFS, errno.EIO], ids=["read-only", "broken"])
async def test_a_failed_append_takes_its_directory_offline_and_no_other(
    disks: Disks, client: WireClient, error: int
) -> None:
    for topic in ("third", "fourth"):
        await client.create_topic(topic)
        await client.produce(topic, one_batch(b"before"))
    home = disks.home("bad").parent
    beside = next(topic for topic in ("third", "fourth") if disks.home(topic).parent == home)
    disks.disk.fail("append", disks.home("bad"), error)
    await expect_storage_error(client, "bad")
    disks.disk.heal()
    await expect_storage_error(client, "bad")  # offline until the next start, as with Kafka
    await expect_storage_error(client, beside)
    assert (await client.produce("good", one_batch(b"after"))).base_offset == 1
    assert values_of(await client.fetch("good")) == [b"before", b"after"]
    assert await failed_directories(client) == {home}
    await disks.broker.restart()
    client = await disks.broker.connect()
    for topic in ("bad", beside):
        assert values_of(await client.fetch(topic)) == [b"before"]


async def failed_directories(client: WireClient) -> set[Path]:
    answer = await client.call(ApiKey.DESCRIBE_LOG_DIRS, topics=None)
    assert {error_from(result.error_code) for result in answer.results} <= {
        ErrorCode.NONE,
        STORAGE_ERROR,
    }
    return {Path(result.log_dir) for result in answer.results if result.error_code}


async def test_metadata_shows_what_a_failed_directory_took(
    disks: Disks, client: WireClient
) -> None:
    disks.disk.fail("append", disks.home("bad"), errno.EIO)
    await client.produce("bad", one_batch(b"x"))
    metadata = disks.broker.parts.metadata.topics
    await eventually(lambda: metadata["bad"].partitions[0].leader == -1)
    answer = await client.call(
        ApiKey.METADATA, topics=[{"name": "bad"}, {"name": "good"}], allow_auto_topic_creation=False
    )
    shown = {
        topic.name: (
            error_from(topic.partitions[0].error_code),
            topic.partitions[0].leader_id,
            list(topic.partitions[0].offline_replicas),
        )
        for topic in answer.topics
    }
    assert shown == {
        "bad": (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1]),
        "good": (ErrorCode.NONE, 1, []),
    }
    disks.disk.heal()
    await disks.broker.restart()
    client = await disks.broker.connect()
    assert (await client.produce("bad", one_batch(b"after"))).base_offset == 1


async def test_a_full_disk_refuses_appends_and_is_read_until_there_is_room(
    disks: Disks, client: WireClient
) -> None:
    consumer = await disks.broker.connect()
    waiting = asyncio.create_task(consumer.fetch("bad", 1, max_wait_ms=LONG_MS))
    await eventually(lambda: disks.broker.partition("bad").parked == 1)
    for operation in ("append", "write"):
        disks.disk.fail(operation, disks.home("bad").parent, errno.ENOSPC)
    for _ in range(3):
        refused = await client.produce("bad", one_batch(b"x"))
        assert (refused.error_code, refused.base_offset) == (STORAGE_ERROR, -1)
    await disks.broker.parts.logs.checkpoint()
    assert disks.disk.attempts
    assert values_of(await client.fetch("bad")) == [b"before"]
    assert await failed_directories(client) == set()
    assert (await client.produce("good", one_batch(b"after"))).error_code == 0
    disks.disk.heal()
    assert (await client.produce("bad", one_batch(b"after"))).base_offset == 1
    assert values_of(await waiting) == [b"after"]
    assert values_of(await client.fetch("bad")) == [b"before", b"after"]


async def test_the_last_directory_that_fails_ends_the_broker(
    disks: Disks, client: WireClient
) -> None:
    ended = asyncio.Event()
    disks.broker.server.on_all_offline = ended.set
    disks.disk.fail("append", disks.home("bad"), errno.EIO)
    await client.produce("bad", one_batch(b"x"))
    assert not disks.broker.server.all_offline
    disks.disk.fail("append", disks.home("good"), errno.EIO)
    await client.produce("good", one_batch(b"x"))
    await asyncio.wait_for(ended.wait(), 60)
    assert disks.broker.server.all_offline


async def test_the_failed_append_is_nowhere_after_a_restart(
    disks: Disks, client: WireClient
) -> None:
    disks.disk.fail("append", disks.home("bad"), errno.ENOSPC)
    assert (await client.produce("bad", one_batch(b"lost"))).error_code == STORAGE_ERROR
    disks.disk.heal()
    await disks.broker.restart()
    client = await disks.broker.connect()
    assert values_of(await client.fetch("bad")) == [b"before"]
    assert (await client.produce("bad", one_batch(b"after"))).base_offset == 1


async def test_a_partition_that_fails_in_a_request_does_not_fail_the_others_of_it(
    disks: Disks, client: WireClient
) -> None:
    disks.disk.fail("append", disks.home("bad"), errno.EIO)
    sent = client.send_produce({"bad": {0: one_batch(b"x")}, "good": {0: one_batch(b"after")}})
    answer = await client.receive_produce(sent)
    codes = {name: results[0].error_code for name, _, results in answer.topics}
    assert codes == {"bad": STORAGE_ERROR, "good": 0}


async def test_a_long_poll_hears_of_the_failure_at_once(disks: Disks, client: WireClient) -> None:
    consumer = await disks.broker.connect()
    waiting = asyncio.create_task(consumer.fetch("bad", 1, max_wait_ms=LONG_MS))
    await eventually(lambda: disks.broker.partition("bad").parked == 1)
    disks.disk.fail("append", disks.home("bad"), errno.EIO)
    await client.produce("bad", one_batch(b"x"))
    assert (await waiting).error_code == STORAGE_ERROR


async def test_acks_0_on_a_failed_disk_closes_the_connection(
    disks: Disks, client: WireClient
) -> None:
    disks.disk.fail("append", disks.home("bad"), errno.EIO)
    producer = await disks.broker.connect()
    producer.send_produce({"bad": {0: one_batch(b"x")}}, acks=0)
    assert await producer.wait_closed_by_peer() == b""
    assert (await client.produce("good", one_batch(b"after"))).error_code == 0


async def test_an_answer_that_waits_for_a_sync_that_fails_is_an_error(
    disks: Disks, client: WireClient
) -> None:
    await client.create_topic("durable", configs={"flush.messages": "1"})
    assert (await client.produce("durable", one_batch(b"kept"))).error_code == 0
    disks.disk.fail("sync", disks.home("durable"), errno.EIO)
    result = await client.produce("durable", one_batch(b"maybe"))
    assert (result.error_code, result.base_offset) == (STORAGE_ERROR, -1)
    assert disks.disk.attempts, "it did try"
    disks.disk.heal()
    # After a failed sync nobody knows what is on the disk: no second try may claim success.
    assert (await client.produce("durable", one_batch(b"v"))).error_code == STORAGE_ERROR
    await disks.broker.restart()
    client = await disks.broker.connect()
    found = values_of(await client.fetch("durable"))
    assert found[0] == b"kept"
    assert found[1:] in ([], [b"maybe"])


async def test_pipelined_answers_behind_a_failing_sync_come_in_order(
    disks: Disks, client: WireClient
) -> None:
    await client.create_topic("durable", configs={"flush.messages": "1"})
    disks.disk.fail("sync", disks.home("durable"), errno.EIO)
    failing = client.send_produce({"durable": {0: one_batch(b"x")}})
    behind = client.send_produce({"good": {0: one_batch(b"after")}})
    assert (await client.receive_produce(failing)).topics[0][2][0].error_code == STORAGE_ERROR
    assert (await client.receive_produce(behind)).topics[0][2][0].base_offset == 1


async def test_a_segment_that_cannot_be_rolled_for_lack_of_room_goes_on_later(
    disks: Disks, client: WireClient
) -> None:
    await client.create_topic("rolling", configs={"internal.segment.bytes": "200"})
    assert (await client.produce("rolling", one_batch(b"x" * 50))).error_code == 0
    disks.disk.fail("open", disks.home("rolling"), errno.ENOSPC)
    assert (await client.produce("rolling", one_batch(b"x" * 50))).error_code == STORAGE_ERROR
    assert (await client.produce("good", one_batch(b"after"))).error_code == 0
    disks.disk.heal()
    assert (await client.produce("rolling", one_batch(b"y" * 50))).base_offset == 1
    assert len(disks.broker.partition("rolling").log.segments) == 2


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
async def test_a_partition_that_cannot_be_made_in_one_directory_is_made_in_another(
    disks: Disks, client: WireClient, error: int
) -> None:
    disks.disk.fail("makedirs", disks.directories[0], error)
    await client.create_topic("spread", 4)
    for n in range(4):
        assert (await client.produce("spread", one_batch(b"v"), partition=n)).error_code == 0
        assert disks.home("spread", n).parent == disks.directories[1]
    broken = {disks.directories[0]} if error == errno.EIO else set()
    assert await failed_directories(client) == broken


async def test_a_directory_whose_checkpoints_fail_goes_offline_as_a_whole(
    disks: Disks, client: WireClient
) -> None:
    home = disks.home("bad").parent
    disks.disk.fail("write", home / "recovery-point-offset-checkpoint", errno.EIO)
    await client.produce("bad", one_batch(b"v"))
    await disks.broker.parts.logs.flush(disks.broker.partition("bad").log)
    await disks.broker.parts.logs.checkpoint()
    await expect_storage_error(client, "bad")
    healthy = disks.home("good").parent
    assert await failed_directories(client) == {home}
    await client.create_topic("later", 3)
    for n in range(3):
        assert (await client.produce("later", one_batch(b"v"), partition=n)).error_code == 0
        assert disks.home("later", n).parent == healthy


async def test_a_topic_on_a_failed_disk_can_be_deleted(disks: Disks, client: WireClient) -> None:
    disks.disk.fail("append", disks.home("bad"), errno.EIO)
    await client.produce("bad", one_batch(b"x"))
    answer = await client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "bad"}], timeout=60_000)
    assert answer.responses[0].error_code == 0
    produced = await client.produce("bad", one_batch(b"v"))
    assert produced.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_broker_with_a_failed_disk_stops_and_starts_again(
    disks: Disks, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    home, healthy = disks.home("bad").parent, disks.home("good").parent
    disks.disk.fail("sync", disks.home("bad"), errno.EIO)
    disks.disk.fail("append", disks.home("bad"), errno.EIO)
    await client.produce("bad", one_batch(b"x"))
    await disks.broker.stop()
    assert not (home / ".kafka_cleanshutdown").exists(), "it must be checked at the next start"
    assert (healthy / ".kafka_cleanshutdown").exists()
    disks.disk.heal()
    await disks.broker.start()
    client = await disks.broker.connect()
    for topic in ("bad", "good"):
        assert values_of(await client.fetch(topic)) == [b"before"]


async def test_a_disk_that_is_gone_at_the_start_leaves_the_other_serving(
    disks: Disks, client: WireClient
) -> None:
    """The first directory also holds what the cluster agreed on: the second one may be missing."""
    on_second = "bad" if disks.home("bad").parent == disks.directories[1] else "good"
    on_first = "good" if on_second == "bad" else "bad"
    await disks.broker.stop()
    disks.disk.fail("listdir", disks.directories[1], errno.EIO)
    await disks.broker.start()
    client = await disks.broker.connect()
    assert values_of(await client.fetch(on_first)) == [b"before"]
    missing = await client.fetch(on_second)
    assert missing.error_code == STORAGE_ERROR
    produced = await client.produce(on_second, one_batch(b"v"))
    assert produced.error_code == STORAGE_ERROR, "no second log may be begun elsewhere"
