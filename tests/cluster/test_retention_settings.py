"""Settings of the log take effect while the broker runs: a topic's own, and the broker's defaults.

Each row says what to look at, what it shows by default and what it shows with the setting. It is
set and taken back, on the topic and as the default of all brokers.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from tests.cluster.test_broker_configs import BROKER, DELETE, DONE, SET, TOPIC, change, settle
from tests.cluster.test_broker_offsets import EARLIEST, LATEST, list_offset
from tests.support.in_process import InProcessBroker, eventually
from tests.support.wire import WireClient, one_batch, records_of

from moldau.errors import ErrorCode
from moldau.records.batch import read_header
from moldau.records.compression import Compression
from moldau.wire.api import ApiKey
from moldau.wire.primitives import error_from

DAY_MS = 86_400_000
FAST_CHECKS = {
    "log.retention.check.interval.ms": "20",
    "log.initial.task.delay.ms": "0",
    "log.segment.delete.delay.ms": "0",
}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


# What can be seen over the wire ------------------------------------------------------------------


async def stored_codec(client: WireClient, topic: str) -> Compression:
    """How a batch that comes uncompressed is stored."""
    result = await client.produce(topic, one_batch(b"x" * 1000, timestamp=now_ms()))
    fetched = await client.fetch(topic, result.base_offset)
    return Compression(read_header(bytes(fetched.records or b"")).compression)  # type: ignore[arg-type]


async def codec_that_came(client: WireClient, topic: str) -> Compression:
    """How a batch that comes in gzip is stored."""
    batch = one_batch(b"x" * 1000, timestamp=now_ms(), compression=Compression.GZIP)
    result = await client.produce(topic, batch)
    fetched = await client.fetch(topic, result.base_offset)
    return Compression(read_header(bytes(fetched.records or b"")).compression)  # type: ignore[arg-type]


async def has_append_time(client: WireClient, topic: str) -> bool:
    before = now_ms()
    result = await client.produce(topic, one_batch(b"x", timestamp=before - 5000))
    (record,) = records_of(await client.fetch(topic, result.base_offset))
    assert record.timestamp == (
        before - 5000 if result.log_append_time_ms == -1 else record.timestamp
    )
    return result.log_append_time_ms >= before


async def of_yesterday(client: WireClient, topic: str) -> ErrorCode:
    batch = one_batch(b"a", b"b", timestamp=now_ms() - DAY_MS)
    result = await client.produce(topic, batch)
    if result.error_code:
        assert [index for index, _ in result.record_errors] == [0, 1]
    return error_from(result.error_code)


async def of_tomorrow(client: WireClient, topic: str) -> ErrorCode:
    result = await client.produce(topic, one_batch(b"a", timestamp=now_ms() + DAY_MS))
    return error_from(result.error_code)


async def of_5000_bytes(client: WireClient, topic: str) -> ErrorCode:
    result = await client.produce(topic, one_batch(b"x" * 5000, timestamp=now_ms()))
    return error_from(result.error_code)


async def without_key(client: WireClient, topic: str) -> ErrorCode:
    result = await client.produce(topic, one_batch(b"x", key=None, timestamp=now_ms()))
    return error_from(result.error_code)


async def deleted_by_hand(client: WireClient, topic: str) -> ErrorCode:
    answer = await client.call(
        ApiKey.DELETE_RECORDS,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": -1}]}],
        timeout=5000,
    )
    ((found,),) = [one.partitions for one in answer.topics]
    return error_from(found.error_code)


Look = Callable[[WireClient, str], Awaitable[Any]]


class Row(NamedTuple):
    topic_setting: str
    broker_setting: str
    value: str
    look: Look
    by_default: Any
    with_it: Any


OK = ErrorCode.NONE
ROWS = [
    Row(
        "compression.type",
        "compression.type",
        "zstd",
        stored_codec,
        Compression.NONE,
        Compression.ZSTD,
    ),
    Row(
        "compression.type",
        "compression.type",
        "lz4",
        codec_that_came,
        Compression.GZIP,
        Compression.LZ4,
    ),
    Row(
        "compression.type",
        "compression.type",
        "uncompressed",
        codec_that_came,
        Compression.GZIP,
        Compression.NONE,
    ),
    Row(
        "message.timestamp.type",
        "log.message.timestamp.type",
        "LogAppendTime",
        has_append_time,
        False,
        True,
    ),
    Row(
        "message.timestamp.before.max.ms",
        "log.message.timestamp.before.max.ms",
        "3600000",
        of_yesterday,
        OK,
        ErrorCode.INVALID_TIMESTAMP,
    ),
    Row(
        "message.timestamp.after.max.ms",
        "log.message.timestamp.after.max.ms",
        str(2 * DAY_MS),
        of_tomorrow,
        ErrorCode.INVALID_TIMESTAMP,
        OK,
    ),
    Row(
        "max.message.bytes",
        "message.max.bytes",
        "3000",
        of_5000_bytes,
        OK,
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
    Row(
        "cleanup.policy", "log.cleanup.policy", "compact", without_key, OK, ErrorCode.INVALID_RECORD
    ),
    Row(
        "cleanup.policy",
        "log.cleanup.policy",
        "compact",
        deleted_by_hand,
        OK,
        ErrorCode.POLICY_VIOLATION,
    ),
]


def name_of(row: Row) -> str:
    return f"{row.topic_setting}-{row.look.__name__}"


@pytest.mark.parametrize("level", ["topic", "all brokers"])
@pytest.mark.parametrize("row", ROWS, ids=name_of)
async def test_a_setting_holds_from_the_next_request_on(
    broker: InProcessBroker, client: WireClient, row: Row, level: str
) -> None:
    await client.create_topic("t")
    assert await row.look(client, "t") == row.by_default
    on_topic = level == "topic"
    kind, resource = (TOPIC, "t") if on_topic else (BROKER, "")
    name = row.topic_setting if on_topic else row.broker_setting
    assert await change(client, kind, resource, (name, SET, row.value)) == DONE
    await settle(broker)
    assert await row.look(client, "t") == row.with_it
    assert await change(client, kind, resource, (name, DELETE, None)) == DONE
    await settle(broker)
    assert await row.look(client, "t") == row.by_default


# What can be seen on disk and in the log ---------------------------------------------------------


async def fill(client: WireClient, count: int = 1, *, size: int = 100, age_ms: int = 0) -> None:
    for _ in range(count):
        batch = one_batch(b"x" * size, timestamp=now_ms() - age_ms)
        assert (await client.produce("t", batch)).error_code == 0


async def rolls_at_a_megabyte(broker: InProcessBroker, client: WireClient) -> bool:
    log = broker.partition("t").log
    before = len(log.segments)
    await fill(client, 2, size=900_000)
    return len(log.segments) > before


async def rolls_in_five_seconds(broker: InProcessBroker, client: WireClient) -> bool:
    """By the records' own clock."""
    log = broker.partition("t").log
    log.roll(now_ms())
    before = len(log.segments)
    await fill(client, age_ms=10_000)
    await fill(client, age_ms=5_000)
    return len(log.segments) > before


async def is_flushed(broker: InProcessBroker, client: WireClient) -> bool:
    """When the append is acknowledged."""
    log = broker.partition("t").log
    await fill(client)
    return log.recovery_point == log.log_end_offset


async def has_index_entries(broker: InProcessBroker, client: WireClient) -> bool:
    log = broker.partition("t").log
    before = log.segments[-1].offset_index.count
    await fill(client, 3, size=200)
    return log.segments[-1].offset_index.count > before


async def is_preallocated(broker: InProcessBroker, client: WireClient) -> bool:
    log = broker.partition("t").log
    await fill(client)
    log.roll(now_ms())
    path = broker.data_dir / "t-0" / f"{log.segments[-1].base_offset:020d}.log"
    return path.stat().st_size > 0 or path.stat().st_blocks > 0


async def min_isr(broker: InProcessBroker, _client: WireClient) -> int:
    return broker.partition("t").log.config.min_insync_replicas


class Inside(NamedTuple):
    topic_setting: str
    broker_setting: str
    value: str
    look: Callable[[InProcessBroker, WireClient], Awaitable[Any]]
    by_default: Any
    with_it: Any


INSIDE = [
    Inside("segment.bytes", "log.segment.bytes", "1048576", rolls_at_a_megabyte, False, True),
    Inside("segment.ms", "log.roll.ms", "4000", rolls_in_five_seconds, False, True),
    Inside("flush.messages", "log.flush.interval.messages", "1", is_flushed, False, True),
    Inside("index.interval.bytes", "log.index.interval.bytes", "1", has_index_entries, False, True),
    Inside("preallocate", "log.preallocate", "true", is_preallocated, False, True),
    Inside("min.insync.replicas", "min.insync.replicas", "2", min_isr, 1, 2),
]


@pytest.mark.parametrize("level", ["topic", "all brokers"])
@pytest.mark.parametrize("row", INSIDE, ids=lambda row: row.topic_setting)
async def test_a_setting_holds_from_the_next_append_on(
    broker: InProcessBroker, client: WireClient, row: Inside, level: str
) -> None:
    await client.create_topic("t")
    assert await row.look(broker, client) == row.by_default
    on_topic = level == "topic"
    kind, resource = (TOPIC, "t") if on_topic else (BROKER, "")
    name = row.topic_setting if on_topic else row.broker_setting
    assert await change(client, kind, resource, (name, SET, row.value)) == DONE
    assert await row.look(broker, client) == row.with_it
    assert await change(client, kind, resource, (name, DELETE, None)) == DONE
    if row.look is is_flushed:
        await fill(client)  # the first after a flush
    assert await row.look(broker, client) == row.by_default


@pytest.mark.parametrize("broker", [{"log.flush.scheduler.interval.ms": "10"}], indirect=True)
@pytest.mark.parametrize("level", ["topic", "all brokers"])
async def test_flush_ms_holds_for_what_is_not_flushed_yet(
    broker: InProcessBroker, client: WireClient, level: str
) -> None:
    await client.create_topic("t", configs={"flush.ms": str(DAY_MS)} if level == "topic" else {})
    await change(client, BROKER, "", ("log.flush.interval.ms", SET, str(DAY_MS)))
    await fill(client, 3)
    log = broker.partition("t").log
    assert log.recovery_point < log.log_end_offset
    if level == "topic":
        assert await change(client, TOPIC, "t", ("flush.ms", SET, "1")) == DONE
    else:
        assert await change(client, BROKER, "", ("log.flush.interval.ms", SET, "1")) == DONE
    await eventually(lambda: log.recovery_point == log.log_end_offset, "the flush")


# Retention ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("broker", [FAST_CHECKS], indirect=True)
@pytest.mark.parametrize(
    ("topic_setting", "broker_setting", "value"),
    [
        ("retention.ms", "log.retention.ms", str(DAY_MS)),
        ("retention.bytes", "log.retention.bytes", "0"),
    ],
)
@pytest.mark.parametrize("level", ["topic", "this broker", "all brokers"])
async def test_retention_holds_at_the_next_check(
    broker: InProcessBroker,
    client: WireClient,
    topic_setting: str,
    broker_setting: str,
    value: str,
    level: str,
) -> None:
    await client.create_topic("t")
    await client.create_topic("own", configs={topic_setting: "-1"})
    for topic in ("t", "own"):
        await client.produce(topic, one_batch(b"a", b"b", timestamp=now_ms() - 2 * DAY_MS))
    log = broker.partition("t").log
    assert log.log_start_offset == 0
    kind, resource, name = {
        "topic": (TOPIC, "t", topic_setting),
        "this broker": (BROKER, "1", broker_setting),
        "all brokers": (BROKER, "", broker_setting),
    }[level]
    assert await change(client, kind, resource, (name, SET, value)) == DONE
    await eventually(lambda: log.log_start_offset == 2, "the deletion")
    assert await list_offset(client, EARLIEST) == (OK, 2, -1)
    assert await list_offset(client, LATEST) == (OK, 2, -1)
    assert (await client.fetch("t", 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    files = broker.data_dir / "t-0"
    await eventually(lambda: not list(files.glob("*.deleted")), "the removal of the files")
    assert [path.name for path in files.glob("*.log")] == ["00000000000000000002.log"]
    assert await list_offset(client, EARLIEST, topic="own") == (OK, 0, -1)


@pytest.mark.parametrize("broker", [FAST_CHECKS], indirect=True)
async def test_a_policy_without_delete_keeps_old_records_until_it_has_delete_again(
    broker: InProcessBroker, client: WireClient
) -> None:
    keep = {"cleanup.policy": "compact", "retention.ms": "1000"}
    await client.create_topic("t", configs=keep)
    await client.create_topic("shown", configs={"retention.ms": "1000"})
    for topic in ("t", "shown"):
        await client.produce(topic, one_batch(b"a", timestamp=now_ms() - DAY_MS))
    shown, log = broker.partition("shown").log, broker.partition("t").log
    await eventually(lambda: shown.log_start_offset == 1, "the deletion")
    assert log.log_start_offset == 0
    both = ("cleanup.policy", SET, "compact,delete")
    assert await change(client, TOPIC, "t", both) == DONE
    await eventually(lambda: log.log_start_offset == 1, "the deletion")


@pytest.mark.parametrize("broker", [FAST_CHECKS], indirect=True)
async def test_files_wait_for_the_delay_that_held_when_they_were_deleted(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t", configs={"file.delete.delay.ms": str(DAY_MS)})
    await fill(client, age_ms=2 * DAY_MS)
    await change(client, TOPIC, "t", ("retention.ms", SET, "1000"))
    log = broker.partition("t").log
    await eventually(lambda: log.log_start_offset == 1, "the deletion")
    files = broker.data_dir / "t-0"
    first = files / "00000000000000000000.log.deleted"
    assert first.exists()
    await change(client, TOPIC, "t", ("file.delete.delay.ms", SET, "0"))
    await fill(client, age_ms=2 * DAY_MS)
    await eventually(lambda: log.log_start_offset == 2, "the deletion")
    await eventually(lambda: len(list(files.glob("*.log.deleted"))) == 1, "the removal")
    assert first.exists()
