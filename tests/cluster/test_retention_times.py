"""Offsets by time: every answer is the one that reading all records would give.

Timestamps are out of order within batches, between batches and between segments; the log start may
lie inside a batch.
"""

from __future__ import annotations

import random

import pytest
from tests.cluster.test_broker_offsets import MAX_TIMESTAMP, delete_records, list_offset
from tests.support.in_process import InProcessBroker
from tests.support.wire import WireClient

from moldau.errors import ErrorCode
from moldau.records.builder import build_batch
from moldau.records.compression import Compression
from moldau.records.record import Record

OK = ErrorCode.NONE
FIRST_MS = 1_700_000_000_000


def expected(times: list[int], start: int, wanted: int) -> tuple[int, int]:
    for offset in range(start, len(times)):
        if times[offset] >= wanted:
            return offset, times[offset]
    return -1, -1


@pytest.mark.parametrize("seed", range(6))
async def test_a_time_finds_the_first_record_from_the_log_start_on(
    broker: InProcessBroker, client: WireClient, seed: int
) -> None:
    chance = random.Random(seed)
    settings = {"internal.segment.bytes": "700", "index.interval.bytes": "100"}
    await client.create_topic("t", configs={**settings, "retention.ms": "-1"})
    times: list[int] = []
    for _ in range(40):
        batch = [
            FIRST_MS + 20 * len(times) + chance.randrange(-300, 300)
            for _ in range(chance.randrange(1, 5))
        ]
        codec = chance.choice([Compression.NONE, Compression.ZSTD])
        records = [Record(0, timestamp, b"k", b"v" * 20) for timestamp in batch]
        result = await client.produce("t", build_batch(records, compression=codec))
        assert (result.error_code, result.base_offset) == (OK, len(times))
        times += batch
    start = 0
    for _ in range(3):
        for wanted in {*times, *(one + 1 for one in times), 0, max(times) + 1}:
            if times[start:] and wanted <= max(times[:start], default=-1):
                continue  # Kafka looks no further than the segment that once had such a record
            found = await list_offset(client, wanted)
            assert found == (OK, *expected(times, start, wanted)), wanted
        largest = max(times)
        if times.index(largest) >= start:
            found = await list_offset(client, MAX_TIMESTAMP)
            assert found == (OK, times.index(largest), largest)
        start += chance.randrange(1, 30)
        assert await delete_records(client, start) == (OK, start)


async def write(client: WireClient, *batches: tuple[int, ...], **settings: str) -> None:
    keep = {"retention.ms": "-1", **{key.replace("_", "."): text for key, text in settings.items()}}
    await client.create_topic("t", configs=keep)
    for times in batches:
        records = [Record(0, time, b"k", b"v") for time in times]
        assert (await client.produce("t", build_batch(records))).error_code == 0


async def test_the_largest_time_is_found_even_before_the_log_start(client: WireClient) -> None:
    """As long as its segment is there: so does Kafka."""
    await write(client, (FIRST_MS + 5,), (FIRST_MS,), (FIRST_MS + 5,))
    assert await delete_records(client, 1) == (OK, 1)
    assert await list_offset(client, MAX_TIMESTAMP) == (OK, 0, FIRST_MS + 5)
    assert await list_offset(client, FIRST_MS + 5) == (OK, 2, FIRST_MS + 5)
    assert await delete_records(client, -1) == (OK, 3)
    assert await list_offset(client, FIRST_MS) == (OK, -1, -1)


async def test_records_without_a_time_are_found_by_no_time(client: WireClient) -> None:
    await write(client, (-1,), (-1, -1))
    assert await list_offset(client, 0) == (OK, -1, -1)
    assert await list_offset(client, MAX_TIMESTAMP) == (OK, 0, -1)
    records = [Record(0, FIRST_MS, b"k", b"v"), Record(0, -1, b"k", b"v")]
    assert (await client.produce("t", build_batch(records))).base_offset == 3
    assert await list_offset(client, 0) == (OK, 3, FIRST_MS)
    assert await list_offset(client, MAX_TIMESTAMP) == (OK, 3, FIRST_MS)


async def test_with_append_times_a_batch_has_one_time(client: WireClient) -> None:
    await write(client, (1, 2), (3,), message_timestamp_type="LogAppendTime")
    code, offset, timestamp = await list_offset(client, FIRST_MS)
    assert (code, offset) == (OK, 0)
    assert timestamp > FIRST_MS
    code, offset, largest = await list_offset(client, MAX_TIMESTAMP)
    assert code is OK
    assert offset == (2 if largest > timestamp else 0)
