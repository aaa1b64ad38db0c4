"""Small requests that come to much: what a stranger sends costs no more than its limits say.

Each case once took seconds of everybody's time, gigabytes, or the topic.
"""

from __future__ import annotations

import struct
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from tests.support.hostile import MIB, Cost, cost_of
from tests.support.wire import WireClient, one_batch

from moldau.client.consumer import Consumer
from moldau.errors import ErrorCode
from moldau.model import TopicPartition
from moldau.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, write_crc
from moldau.records.compression import Compression, compress
from moldau.records.varint import encode_varint
from moldau.testing.broker import MoldauProcess
from moldau.wire.api import ApiKey
from moldau.wire.produce import PartitionProduceResult

GZIP, SNAPPY, LZ4, ZSTD = (
    Compression.GZIP,
    Compression.SNAPPY,
    Compression.LZ4,
    Compression.ZSTD,
)
MANY = 200_000
TINY = b"\x0c\0\0\0\x01\x01\0"
HOUR = 3_600_000

LOOP_MS = 50
WAIT_MS = 1000
"""Of a request that goes to a thread on two busy cores; ``LOOP_MS`` is the limit that matters."""
MEMORY = 64 * MIB


def encoded(delta: int, key: bytes | None = None, value: bytes = b"", *, later: int = 0) -> bytes:
    body = b"\0" + encode_varint(later) + encode_varint(delta)
    body += b"\x01" if key is None else encode_varint(len(key)) + key
    body += encode_varint(len(value)) + value + b"\0"
    return encode_varint(len(body)) + body


def batch(
    payload: bytes,
    count: int,
    codec: Compression = Compression.NONE,
    *,
    base: int = 0,
    last: int = 0,
) -> bytearray:
    """A header that says what it is told, around bytes that are compressed already."""
    base = base or now_ms()
    result = bytearray(HEADER_SIZE) + payload
    length = len(result) - LOG_OVERHEAD
    HEADER.pack_into(
        result, 0, 0, length, -1, 2, 0, codec, count - 1, base, last or base, -1, -1, -1, count
    )
    write_crc(result, 0, len(result))
    return result


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture(scope="module")
def many() -> bytes:
    """As many records as one likes to make, each as small as can be."""
    return b"".join(map(encoded, range(MANY)))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoldauProcess]:
    with MoldauProcess(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
async def client(broker: MoldauProcess) -> AsyncIterator[WireClient]:
    async with await WireClient.connect(broker.bootstrap_servers) as connected:
        yield connected


async def topic(
    client: WireClient, name: str, configs: dict[str, str] | None = None, *, partitions: int = 1
) -> str:
    await client.create_topic(name, partitions, configs=configs)
    return name


async def send(
    broker: MoldauProcess, client: WireClient, name: str, records: bytearray
) -> PartitionProduceResult:
    """Produces, and makes sure that this costs nobody anything."""
    result, cost = await cost_of(broker, partial(client.produce, name, records))
    check(cost)
    return result


def check(cost: Cost) -> None:
    assert cost.loop_ms < LOOP_MS
    assert cost.wait_ms < WAIT_MS
    assert cost.memory < MEMORY


every_kind_of_topic = pytest.mark.parametrize(
    "configs",
    [{}, {"cleanup.policy": "compact"}, {"compression.type": "gzip"}],
    ids=["plain", "compacted", "recompressed"],
)

# Records that are not there ----------------------------------------------------------------------


async def test_a_header_that_claims_records_changes_nothing(
    broker: MoldauProcess, client: WireClient
) -> None:
    """Once stored: 2^31 offsets and a segment with every request, and consumers stuck."""
    name = await topic(client, "claims")
    assert (await client.produce(name, one_batch(b"before"))).base_offset == 0
    for _ in range(300):
        result = await client.produce(name, batch(b"garbage", 2**31 - 1))
        assert result.error_code == ErrorCode.INVALID_RECORD
    assert (await client.produce(name, one_batch(b"after"))).base_offset == 1
    directory = broker.data_dir / f"{name}-0"
    assert len(list(directory.glob("*.log"))) == 1
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        values: list[Any] = []
        while len(values) < 2:
            for records in consumer.poll(timeout=10).values():
                values += [record.value for record in records]
    assert values == [b"before", b"after"]


@pytest.mark.parametrize("codec", [ZSTD, GZIP, LZ4])
@every_kind_of_topic
async def test_nothing_but_zeros_ends_at_the_first_record(
    broker: MoldauProcess, client: WireClient, codec: Compression, configs: dict[str, str]
) -> None:
    """Once 255 MB of memory, and as much for each of the twenty in a request."""
    name = await topic(client, f"zeros-{codec.label}-{'-'.join(configs)}", configs)
    payload = compress(codec, bytes(200 * MIB))
    result = await send(broker, client, name, batch(payload, 1, codec, last=now_ms() + 2 * HOUR))
    assert result.error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [ZSTD, GZIP])
@pytest.mark.parametrize("count", [2_000_000, 30_000_000])
async def test_millions_of_the_same_record_end_at_the_second(
    broker: MoldauProcess, client: WireClient, codec: Compression, count: int
) -> None:
    """Once 9 seconds, 1.9 GB and an answer of 293 MB for 1.4 KB."""
    name = await topic(client, f"same-{codec.label}-{count}")
    records = batch(compress(codec, TINY * count), count, codec, base=now_ms() + 2 * HOUR)
    result = await send(broker, client, name, records)
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert not result.record_errors


# Many records ------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [ZSTD, GZIP, SNAPPY, LZ4])
async def test_of_many_records_that_are_refused_a_hundred_are_named(
    broker: MoldauProcess, client: WireClient, codec: Compression, many: bytes
) -> None:
    payload = compress(codec, many)
    assert len(payload) < 1_000_000
    plain = await topic(client, f"untimely-{codec.label}")
    compacted = await topic(client, f"keyless-{codec.label}", {"cleanup.policy": "compact"})
    result = await send(
        broker, client, plain, batch(payload, MANY, codec, base=now_ms() + 2 * HOUR)
    )
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in result.record_errors] == list(range(100))
    result = await send(broker, client, compacted, batch(payload, MANY, codec))
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in result.record_errors] == list(range(100))


async def test_many_records_are_taken_searched_and_read(
    broker: MoldauProcess, client: WireClient
) -> None:
    """The last of them has the time that is looked for."""
    name = await topic(client, "searched")
    start = now_ms()
    payload = b"".join(encoded(n, later=50 if n == MANY - 1 else 0) for n in range(MANY))
    # It says that its newest record is far newer: the broker puts that right.
    records = batch(compress(ZSTD, payload), MANY, ZSTD, base=start, last=start + HOUR // 2)
    assert (await send(broker, client, name, records)).error_code == 0

    async def find(timestamp: int) -> tuple[int, int]:
        answer = await client.call(
            ApiKey.LIST_OFFSETS,
            7,
            replica_id=-1,
            isolation_level=0,
            topics=[
                {
                    "name": name,
                    "partitions": [
                        {
                            "partition_index": 0,
                            "current_leader_epoch": -1,
                            "timestamp": timestamp,
                        }
                    ],
                }
            ],
        )
        found = answer.topics[0].partitions[0]
        return found.offset, found.timestamp

    for timestamp, offset in ((start + 50, MANY - 1), (-3, MANY - 1), (start + 51, -1)):
        found, cost = await cost_of(broker, partial(find, timestamp))
        assert found == (offset, start + 50 if offset >= 0 else -1)
        check(cost)


# Large values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [ZSTD, GZIP, LZ4])
@every_kind_of_topic
async def test_a_batch_may_hold_thirty_times_what_it_may_take(
    broker: MoldauProcess, client: WireClient, codec: Compression, configs: dict[str, str]
) -> None:
    name = await topic(client, f"large-{codec.label}-{'-'.join(configs)}", configs)
    payload = compress(codec, encoded(0, b"key", bytes(30 * MIB)))
    result = await send(broker, client, name, batch(payload, 1, codec))
    assert (result.error_code, result.base_offset) == (0, 0)


@pytest.mark.parametrize(("codec", "size"), [(ZSTD, 255), (GZIP, 255), (LZ4, 200)])
@every_kind_of_topic
async def test_a_batch_that_holds_more_is_too_large(
    broker: MoldauProcess,
    client: WireClient,
    codec: Compression,
    size: int,
    configs: dict[str, str],
) -> None:
    name = await topic(client, f"larger-{codec.label}-{'-'.join(configs)}", configs)
    payload = compress(codec, encoded(0, b"key", bytes(size * MIB)))
    result = await send(broker, client, name, batch(payload, 1, codec))
    assert result.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "decompress" in (result.error_message or "")


async def test_each_batch_of_a_request_has_a_limit_of_its_own(
    broker: MoldauProcess, client: WireClient
) -> None:
    """A hundred of them come to three gigabytes: their client waits, others do not."""
    name = await topic(client, "each", partitions=100)
    records = batch(compress(ZSTD, encoded(0, b"key", bytes(30 * MIB))), 1, ZSTD)

    async def attack() -> list[int]:
        sent = client.send_produce({name: {index: bytearray(records) for index in range(100)}})
        answer = await client.receive_produce(sent)
        return [result.error_code for _, _, results in answer.topics for result in results]

    codes, cost = await cost_of(broker, attack)
    assert codes == 100 * [0]
    # It takes seconds; what the event loop does meanwhile it does for the others.
    assert cost.wait_ms < WAIT_MS
    assert cost.memory < MEMORY


async def test_a_partition_is_named_once(broker: MoldauProcess, client: WireClient) -> None:
    name = await topic(client, "twice", partitions=2)
    records = bytes(one_batch(b"v"))
    one = struct.pack(">i", 0) + encode_varint_unsigned(len(records) + 1) + records + b"\0"
    other = struct.pack(">i", 1) + encode_varint_unsigned(len(records) + 1) + records + b"\0"
    sent = client.send_produce({name: {0: bytearray(records)}})
    assert (await client.receive_produce(sent)).topics[0][2][0].error_code == 0
    body = struct.pack(">hhih", 0, 9, 77, -1) + b"\0" + b"\0" + struct.pack(">hi", 1, 1000)
    body += b"\x02" + encode_varint_unsigned(len(name) + 1) + name.encode()
    body += encode_varint_unsigned(22) + one * 20 + other + b"\0\0"
    client.write(struct.pack(">i", len(body)) + body)
    answer = await client.receive_produce(77, 9)
    [(_, _, results)] = answer.topics
    assert [(result.index, result.error_code, result.base_offset) for result in results] == [
        (0, ErrorCode.INVALID_REQUEST, -1),
        (1, 0, 0),
    ]
    assert (await client.produce(name, one_batch(b"v"))).base_offset == 1


def encode_varint_unsigned(number: int) -> bytes:
    result = bytearray()
    while number >= 0x80:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    result.append(number)
    return bytes(result)
