"""Load for ``moldau bench``: batches encoded once and sent over and over, answers only counted.

The point is to make the server the limit, so records are neither built nor read one by one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from moldau.client.metadata import TopicInfo
from moldau.fetch import FetchParams, PartitionFetch, fetch
from moldau.model import TopicPartition
from moldau.records.batch import iter_headers
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Compression
from moldau.request_errors import check
from moldau.wire.api import ApiKey
from moldau.wire.produce import (
    ProduceResponse,
    decode_produce_response,
    encode_produce_request,
)

if TYPE_CHECKING:
    from moldau.client.client import Client
    from moldau.net.broker_connection import BrokerConnection, Parts

Advance = Callable[[int], object]
"""Told how many more records are done."""


@dataclass(slots=True)
class Measured:
    """What a run added up to."""

    records: int = 0
    requests: int = 0
    size: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)

    def add(self, records: int, size: int, latency: float) -> None:
        self.records += records
        self.requests += 1
        self.size += size
        self.latencies.append(latency)

    def as_dict(self) -> dict[str, float | int]:
        seconds = self.seconds or 1e-9
        ordered = sorted(self.latencies)
        return {
            "records": self.records,
            "requests": self.requests,
            "bytes": self.size,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self.records / seconds),
            "requests_per_second": round(self.requests / seconds),
            "megabytes_per_second": round(self.size / seconds / 1e6, 2),
            "latency_p50_ms": round(percentile(ordered, 0.50) * 1000, 3),
            "latency_p99_ms": round(percentile(ordered, 0.99) * 1000, 3),
            "latency_max_ms": round(percentile(ordered, 1.0) * 1000, 3),
        }


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that ``share`` of the ordered values do not exceed (nearest rank)."""
    if not ordered:
        return 0.0
    rank = max(1, -(-len(ordered) * share // 1))
    return ordered[min(len(ordered), int(rank)) - 1]


def encode_load(size: int, batch_size: int, compression: Compression) -> tuple[bytearray, int]:
    """One batch of records of ``size`` bytes, about ``batch_size`` large, and its record count."""
    builder = BatchBuilder(compression=compression)
    now = time.time_ns() // 1_000_000
    while builder.count == 0 or builder.size + size + 8 <= batch_size:
        # Half random, so that codecs have something to do and something to gain.
        value = os.urandom(size // 2).ljust(size, b"m")
        builder.append(now, None, value)
    count = builder.count
    return builder.build(), count


async def produce_load(
    client: Client,
    topic: TopicInfo,
    *,
    records: int,
    batch: bytearray,
    batch_records: int,
    in_flight: int,
    acks: int,
    advance: Advance,
) -> Measured:
    """Send the batch until ``records`` are stored, to every partition in turn."""
    partitions = await _connections(client, topic, "main")
    measured = Measured()
    requests = -(-records // batch_records)
    work = iter(islice(cycle(partitions), requests))

    async def worker() -> None:
        for number, connection in work:
            sent = time.perf_counter()
            encode = _encode_produce(topic, number, batch, acks)
            if acks == 0:
                await connection.send_oneway(ApiKey.PRODUCE, encode)
            else:
                answer = await connection.exchange(ApiKey.PRODUCE, encode, _decode_produce)
                result = answer.topics[0][2][0]
                check(result.error_code, result.error_message)
            measured.add(batch_records, len(batch), time.perf_counter() - sent)
            advance(batch_records)

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    measured.seconds = time.perf_counter() - started
    return measured


def _encode_produce(
    topic: TopicInfo, partition: int, batch: bytearray, acks: int
) -> Callable[[int, int, str], Parts]:
    def encode(version: int, correlation_id: int, client_id: str) -> Parts:
        load = [(topic.name, topic.topic_id, [(partition, batch)])]
        return encode_produce_request(version, correlation_id, client_id, None, acks, 30_000, load)

    return encode


def _decode_produce(version: int, frame: memoryview) -> ProduceResponse:
    return decode_produce_response(version, frame)[1]


async def fetch_load(
    client: Client, topic: TopicInfo, *, records: int | None, max_bytes: int, advance: Advance
) -> Measured:
    """Read all partitions to their ends (or until ``records`` came), one fetch each at a time."""
    from moldau.client.admin import OffsetSpec

    keys = [TopicPartition(topic.name, number) for number in topic.partitions]
    starts = await client.admin.list_offsets(dict.fromkeys(keys, OffsetSpec.EARLIEST))
    ends = await client.admin.list_offsets(dict.fromkeys(keys, OffsetSpec.LATEST))
    measured = Measured()

    async def read(number: int, connection: BrokerConnection) -> None:
        key = TopicPartition(topic.name, number)
        offset, end = starts[key].offset, ends[key].offset
        while offset < end and (records is None or measured.records < records):
            sent = time.perf_counter()
            data = await _fetch(connection, key, topic.topic_id, offset, max_bytes)
            latency = time.perf_counter() - sent
            count = 0
            for _, header in iter_headers(data):
                count += header.records_count
                offset = header.next_offset
            measured.add(count, len(data), latency)
            advance(count)

    connections = await _connections(client, topic, "fetch")
    started = time.perf_counter()
    await asyncio.gather(*(read(number, connection) for number, connection in connections))
    measured.seconds = time.perf_counter() - started
    return measured


async def _fetch(
    connection: BrokerConnection,
    partition: TopicPartition,
    topic_id: UUID,
    offset: int,
    max_bytes: int,
) -> Any:
    params = FetchParams(max_wait_ms=500, min_bytes=1, max_bytes=max_bytes)
    wanted = {partition: PartitionFetch(topic_id, offset, max_bytes)}
    answer = await fetch(connection, wanted, params)
    check(answer.error_code)
    result = answer.partitions[partition]
    check(result.error_code)
    return result.records or b""


async def _connections(
    client: Client, topic: TopicInfo, lane: Any
) -> list[tuple[int, BrokerConnection]]:
    return [
        (number, await client.cluster.connection(info.leader, lane))
        for number, info in topic.partitions.items()
    ]
