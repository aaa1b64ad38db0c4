"""DeleteRecords: the new start of a log is visible everywhere, and outlives a crash."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest
from tests.cluster.test_broker_offsets import EARLIEST, EARLIEST_LOCAL, delete_records, list_offset
from tests.support.faulty_disk import FaultyDisk
from tests.support.in_process import InProcessBroker, eventually
from tests.support.process import free_port
from tests.support.wire import WireClient, one_batch, values_of

from moldau.errors import ErrorCode
from moldau.log.files.checkpoints import read_offsets
from moldau.machine.real.disk import OsDisk
from moldau.model import TopicPartition
from moldau.testing.broker import MoldauProcess

OK = ErrorCode.NONE


async def fill(client: WireClient, count: int, topic: str = "t") -> None:
    for number in range(count):
        result = await client.produce(topic, one_batch(b"%d" % number))
        assert result.error_code == 0


async def test_a_crash_right_after_the_answer_brings_nothing_back(tmp_path: Path) -> None:
    with MoldauProcess(tmp_path, port=free_port()) as broker:
        async with await WireClient.connect(broker.bootstrap_servers) as client:
            await client.create_topic("t")
            await fill(client, 10)
            assert await delete_records(client, 7) == (OK, 7)
            broker.kill()
        broker.start()
        async with await WireClient.connect(broker.bootstrap_servers) as client:
            assert await list_offset(client, EARLIEST) == (OK, 7, -1)
            assert await list_offset(client, EARLIEST_LOCAL) == (OK, 7, -1)
            fetched = await client.fetch("t", 6)
            assert fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert values_of(await client.fetch("t", 7)) == [b"7", b"8", b"9"]


async def test_deleting_everything_outlives_a_crash_too(tmp_path: Path) -> None:
    with MoldauProcess(tmp_path, port=free_port()) as broker:
        async with await WireClient.connect(broker.bootstrap_servers) as client:
            await client.create_topic("t")
            await fill(client, 10)
            assert await delete_records(client, -1) == (OK, 10)
            broker.kill()
        broker.start()
        async with await WireClient.connect(broker.bootstrap_servers) as client:
            assert await list_offset(client, EARLIEST) == (OK, 10, -1)
            await fill(client, 1)
            fetched = await client.fetch("t", 10)
            assert (values_of(fetched), fetched.log_start_offset) == ([b"0"], 10)


async def test_requests_that_come_together_share_writes(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t", 20)
    for partition in range(20):
        await client.produce("t", one_batch(b"a", b"b"), partition=partition)
    clients = [await broker.connect() for _ in range(20)]
    answers = await asyncio.gather(
        *(delete_records(one, 1, partition=number) for number, one in enumerate(clients))
    )
    assert answers == [(OK, 1)] * 20
    path = broker.data_dir / "log-start-offset-checkpoint"
    written = read_offsets(OsDisk(), str(path))
    assert written == {TopicPartition("t", number): 1 for number in range(20)}


async def test_a_disk_that_cannot_write_the_start_down_is_said_so(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with InProcessBroker(tmp_path, disk=disk) as broker:
        client = await broker.connect()
        await client.create_topic("t")
        await fill(client, 3)
        disk.fail("write", f"{broker.data_dir}/log-start-offset-checkpoint", errno.EIO)
        assert await delete_records(client, 2) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        disk.heal()


async def test_whole_segments_leave_the_disk(broker: InProcessBroker, client: WireClient) -> None:
    await client.create_topic(
        "t", configs={"internal.segment.bytes": "200", "file.delete.delay.ms": "0"}
    )
    await fill(client, 9)
    directory = broker.data_dir / "t-0"
    assert len(list(directory.glob("*.log"))) >= 4
    assert await delete_records(client, -1) == (OK, 9)
    await eventually(lambda: not list(directory.glob("*.deleted")), "the removal")
    assert len(list(directory.glob("*.log"))) == 1


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "code", "low_watermark"),
    [
        ("t", 0, 0, OK, 3),
        ("t", 0, 3, OK, 3),
        ("t", 0, 4, OK, 4),
        ("t", 0, 11, ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        ("t", 0, -2, ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        ("t", 1, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("nowhere", 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("compacted", 0, 0, ErrorCode.POLICY_VIOLATION, -1),
        ("compacted", 0, 99, ErrorCode.POLICY_VIOLATION, -1),
        ("kept", 0, 1, OK, 1),
        ("both", 0, 1, OK, 1),
    ],
)
async def test_what_may_be_deleted(
    client: WireClient, topic: str, partition: int, offset: int, code: ErrorCode, low_watermark: int
) -> None:
    policies = {"compacted": "compact", "kept": "", "both": "compact,delete"}
    await client.create_topic("t")
    await fill(client, 10)
    assert await delete_records(client, 3) == (OK, 3)
    if topic in policies:
        await client.create_topic(topic, configs={"cleanup.policy": policies[topic]})
        await fill(client, 2, topic)
    found = await delete_records(client, offset, topic=topic, partition=partition)
    assert found == (code, low_watermark)


async def test_an_answer_under_way_outlives_its_files(
    broker: InProcessBroker, client: WireClient
) -> None:
    """The reader takes nothing from its socket until the segments that it asked for are gone."""
    await client.create_topic(
        "t", configs={"segment.bytes": str(16 << 20), "file.delete.delay.ms": "0"}
    )
    values = [bytes([number]) * 900_000 for number in range(12)]
    for value in values:
        assert (await client.produce("t", one_batch(value))).error_code == 0
    log = broker.partition("t").log
    slow = await WireClient.connect(broker.address, limit=4096)
    sent = slow.send_fetch({"t": {0: 0}}, max_bytes=1 << 24, partition_max_bytes=1 << 24)
    assert values_of(await client.fetch("t", 11)) == values[-1:]  # the broker has seen the other
    log.roll(0)
    assert await delete_records(client, -1) == (OK, 12)
    directory = broker.data_dir / "t-0"
    await eventually(lambda: not list(directory.glob("*.deleted")), "the removal")
    assert [path.stat().st_size for path in directory.glob("*.log")] == [0]
    answer = await slow.receive_fetch(sent)
    ((_, _, (fetched,)),) = answer.topics
    assert values_of(fetched) == values
    await slow.close()
