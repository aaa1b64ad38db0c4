"""Produce over the wire: acknowledgements, refusals, idempotence, order."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from uuid import UUID

import pytest
from crc32c import crc32c
from tests.support.batches import (
    CONTROL,
    GZIP,
    LOG_APPEND_TIME,
    Batch,
    encode_record,
    encode_varint,
    old_message,
)
from tests.support.in_process import InProcessBroker, eventually
from tests.support.kafka_instead import KafkaInstead
from tests.support.wire import (
    WireClient,
    base_offsets,
    one_batch,
    records_of,
    values_of,
)

from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey
from moldau.wire.primitives import error_from
from moldau.wire.produce import encode_produce_request

UNKNOWN_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


# Acknowledgements --------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [1, -1])
async def test_acknowledged_appends_say_where_they_landed(client: WireClient, acks: int) -> None:
    await client.create_topic("t")
    first = await client.produce("t", one_batch(b"a", b"b"), acks=acks)
    second = await client.produce("t", one_batch(b"c"), acks=acks)
    assert [(r.error_code, r.base_offset) for r in (first, second)] == [(0, 0), (0, 2)]
    assert values_of(await client.fetch("t")) == [b"a", b"b", b"c"]


async def test_acks_0_appends_and_is_not_answered(client: WireClient) -> None:
    await client.create_topic("t")
    client.send_produce({"t": {0: one_batch(b"silent")}}, acks=0)
    # The next answer on this connection belongs to the next request.
    answered = await client.produce("t", one_batch(b"loud"), acks=1)
    assert answered.base_offset == 1
    assert values_of(await client.fetch("t")) == [b"silent", b"loud"]


async def test_acks_0_with_an_error_closes_the_connection(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    client.send_produce({"t": {0: one_batch(b"kept")}}, acks=0)
    client.send_produce({"nowhere": {0: one_batch(b"lost")}}, acks=0)
    assert await client.wait_closed_by_peer() == b""
    other = await broker.connect()
    assert values_of(await other.fetch("t")) == [b"kept"]


@pytest.mark.parametrize("acks", [2, -2, 32767])
async def test_other_acks_are_refused(client: WireClient, acks: int) -> None:
    await client.create_topic("t")
    result = await client.produce("t", one_batch(b"v"), acks=acks)
    assert result.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert (await client.fetch("t")).high_watermark == 0


async def test_acks_all_never_needs_more_replicas_than_there_are(client: WireClient) -> None:
    await client.create_topic("t", configs={"min.insync.replicas": "2"})
    assert (await client.produce("t", one_batch(b"v"), acks=-1)).error_code == 0


async def test_partitions_of_one_request_succeed_and_fail_alone(client: WireClient) -> None:
    await client.create_topic("t", 2)
    await client.create_topic("u")
    sent = client.send_produce(
        {
            "t": {0: one_batch(b"0"), 7: one_batch(b"7"), 1: one_batch(b"1")},
            "nowhere": {0: one_batch(b"x")},
            "u": {0: Batch([(b"k", b"v")], crc_change=1).encode()},
        }
    )
    answer = await client.receive_produce(sent)
    found = {
        (name, result.index): (error_from(result.error_code), result.base_offset)
        for name, _, results in answer.topics
        for result in results
    }
    assert found == {
        ("t", 0): (ErrorCode.NONE, 0),
        ("t", 7): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("t", 1): (ErrorCode.NONE, 0),
        ("nowhere", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("u", 0): (ErrorCode.CORRUPT_MESSAGE, -1),
    }


async def test_a_request_without_topics_is_answered(client: WireClient) -> None:
    assert (await client.receive_produce(client.send_produce({}))).topics == []


# The records of a batch --------------------------------------------------------------------------

ONE = encode_record(0)
INNER = {
    "garbage": (b"garbage", 1),
    "no records": (b"", 1),
    "a record too few": (ONE, 2),
    "a record too many": (ONE + encode_record(1), 1),
    "very many": (b"garbage", 2**31 - 1),
    "half a record": (ONE[:-2], 1),
    "bytes behind": (ONE + b"\0", 1),
    "a size too small": (encode_record(0, size_change=-1), 1),
    "a size too large": (encode_record(0, size_change=1) + b"\0", 1),
    "a negative size": (encode_varint(-1) + ONE[1:], 1),
    "a negative number of headers": (encode_record(0, headers=b"\x01"), 1),
    "headers that are not there": (encode_record(0, headers=b"\x02"), 1),
    "a header without a name": (encode_record(0, headers=b"\x02\x01\x00"), 1),
    "a number without an end": (b"\xff" * 20, 1),
}


KAFKA_SAYS = {
    # Its reader of integers has an exception of its own.
    ("a number without an end", 0): ErrorCode.UNKNOWN_SERVER_ERROR,
    # It does not look at the sizes of compressed records; its consumers cannot read them.
    ("a size too small", GZIP): ErrorCode.NONE,
    ("a negative size", GZIP): ErrorCode.NONE,
}


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("case", INNER)
async def test_a_batch_whose_records_do_not_add_up_is_refused(
    broker: InProcessBroker | KafkaInstead, client: WireClient, case: str, codec: int
) -> None:
    await client.create_topic("t")
    payload, count = INNER[case]
    batch = Batch([], payload=payload, count=count, last_offset_delta=count - 1, attributes=codec)
    result = await client.produce("t", bytearray(batch.encode()))
    if (case, codec) in KAFKA_SAYS and isinstance(broker, KafkaInstead):
        assert error_from(result.error_code) == KAFKA_SAYS[case, codec]
        return
    assert error_from(result.error_code) == ErrorCode.INVALID_RECORD
    assert (await client.produce("t", one_batch(b"v"))).base_offset == 0


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("deltas", [(0, 2), (1, 2), (1, 0), (0, 0), (-1, 0)])
async def test_offset_deltas_count_from_zero(
    broker: InProcessBroker | KafkaInstead, client: WireClient, deltas: tuple[int, int], codec: int
) -> None:
    await client.create_topic("t")
    payload = b"".join(map(encode_record, deltas))
    batch = Batch([], payload=payload, count=2, last_offset_delta=1, attributes=codec)
    result = await client.produce("t", bytearray(batch.encode()))
    if isinstance(broker, KafkaInstead):
        # It stores what consumers then stumble over; compressed, it fails at putting them right.
        refused = ErrorCode.UNKNOWN_SERVER_ERROR if codec else ErrorCode.NONE
        assert error_from(result.error_code) == refused
        return
    assert error_from(result.error_code) == ErrorCode.INVALID_RECORD
    assert (await client.fetch("t")).high_watermark == 0


async def test_a_partition_that_is_named_twice_is_refused(
    broker: InProcessBroker | KafkaInstead, client: WireClient
) -> None:
    await client.create_topic("t", 2)
    frames = encode_produce_request(
        9,
        77,
        "tests",
        None,
        -1,
        1000,
        [("t", None, [(0, one_batch(b"a")), (1, one_batch(b"x")), (0, one_batch(b"b"))])],
    )
    client.write(b"".join(frames))
    ((_, _, results),) = (await client.receive_produce(77, 9)).topics
    found = {result.index: error_from(result.error_code) for result in results}
    assert len(found) == len(results)
    if isinstance(broker, KafkaInstead):
        assert found == {0: ErrorCode.NONE, 1: ErrorCode.NONE}
        assert values_of(await client.fetch("t")) == [b"b"]
        return
    assert found == {0: ErrorCode.INVALID_REQUEST, 1: ErrorCode.NONE}
    assert values_of(await client.fetch("t")) == []


@pytest.mark.parametrize("codec", [0, GZIP])
async def test_the_largest_timestamp_of_a_batch_is_that_of_its_records(
    client: WireClient, codec: int
) -> None:
    await client.create_topic("t")
    payload = encode_record(0) + encode_record(1, time_delta=-1000)
    batch = bytearray(
        Batch([], payload=payload, count=2, last_offset_delta=1, attributes=codec).encode()
    )
    base: int
    base, _ = struct.unpack_from(">qq", batch, 27)
    struct.pack_into(">q", batch, 35, base + 500)  # no record is so new
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    assert (await client.produce("t", batch)).error_code == 0
    assert [record.timestamp for record in records_of(await client.fetch("t"))] == [
        base,
        base - 1000,
    ]
    answer = await client.call(
        ApiKey.LIST_OFFSETS,
        7,
        replica_id=-1,
        isolation_level=0,
        topics=[
            {
                "name": "t",
                "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -3}],
            }
        ],
    )
    newest = answer.topics[0].partitions[0]
    assert (newest.offset, newest.timestamp) == (0, base)


# By id -------------------------------------------------------------------------------------------


async def test_from_version_13_on_topics_are_named_by_id(client: WireClient) -> None:
    topic_id = await client.create_topic("t")
    assert (await client.produce(topic_id, one_batch(b"v"), version=13)).error_code == 0
    assert values_of(await client.fetch("t")) == [b"v"]


async def test_an_unknown_id_is_told_as_such(client: WireClient) -> None:
    result = await client.produce(UNKNOWN_ID, one_batch(b"v"), version=13)
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_an_id_outlives_its_topic_for_nobody(client: WireClient) -> None:
    """A producer that knows the old id must not write into a new topic of the same name."""
    old_id = await client.create_topic("t")
    await client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "t"}], timeout=60_000)
    new_id = await client.create_topic("t")
    assert new_id != old_id
    late = await client.produce(old_id, one_batch(b"late"), version=13)
    assert late.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    fetched = await client.fetch(old_id, version=13)
    assert fetched.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (await client.fetch(new_id, version=13)).high_watermark == 0


# Idempotence -------------------------------------------------------------------------------------


async def test_a_repeated_batch_is_answered_with_its_first_offset_and_stored_once(
    client: WireClient,
) -> None:
    await client.create_topic("t")
    ids = await client.call(ApiKey.INIT_PRODUCER_ID, transaction_timeout=1000)
    assert (ids.error_code, ids.producer_epoch) == (0, 0)

    def batch(sequence: int, *values: bytes) -> bytearray:
        return one_batch(
            *values,
            producer_id=ids.producer_id,
            producer_epoch=ids.producer_epoch,
            base_sequence=sequence,
        )

    offsets = [
        (await client.produce("t", batch(sequence, value, value))).base_offset
        for sequence, value in enumerate([b"a", b"b", b"c", b"d", b"e"])
        for sequence in (sequence * 2,)
    ]
    assert offsets == [0, 2, 4, 6, 8]
    for sequence, offset in zip((0, 2, 4, 6, 8), offsets, strict=True):
        again = await client.produce("t", batch(sequence, b"x", b"x"))
        assert (again.error_code, again.base_offset) == (0, offset)
    gap = await client.produce("t", batch(12, b"f"))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert values_of(await client.fetch("t")) == [
        v for v in (b"a", b"b", b"c", b"d", b"e") for _ in "12"
    ]


async def test_an_older_producer_epoch_is_fenced(client: WireClient) -> None:
    await client.create_topic("t")
    newer = one_batch(b"v", producer_id=5, producer_epoch=3, base_sequence=0)
    older = one_batch(b"v", producer_id=5, producer_epoch=2, base_sequence=0)
    assert (await client.produce("t", newer)).error_code == 0
    assert (await client.produce("t", older)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_pipelined_batches_of_an_idempotent_producer_keep_their_order(
    client: WireClient,
) -> None:
    await client.create_topic("t")
    sent = [
        client.send_produce(
            {"t": {0: one_batch(b"%d" % n, producer_id=1, producer_epoch=0, base_sequence=n)}}
        )
        for n in range(100)
    ]
    answers = [await client.receive_produce(one) for one in sent]
    assert [a.topics[0][2][0].base_offset for a in answers] == list(range(100))
    assert values_of(await client.fetch("t")) == [b"%d" % n for n in range(100)]


# Refusals ----------------------------------------------------------------------------------------

RECORD = [(b"k", b"v")]


@pytest.mark.parametrize(
    ("records", "code"),
    [
        pytest.param(None, ErrorCode.INVALID_RECORD, id="null"),
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="empty"),
        pytest.param(old_message(0), ErrorCode.INVALID_RECORD, id="magic 0"),
        pytest.param(old_message(1), ErrorCode.INVALID_RECORD, id="magic 1"),
        pytest.param(Batch(RECORD, magic=3).encode(), ErrorCode.CORRUPT_MESSAGE, id="magic 3"),
        pytest.param(Batch(RECORD, crc_change=1).encode(), ErrorCode.CORRUPT_MESSAGE, id="CRC"),
        pytest.param(Batch(RECORD).encode()[:-1], ErrorCode.INVALID_RECORD, id="cut off"),
        pytest.param(
            Batch(RECORD).encode() + Batch(RECORD).encode(), ErrorCode.INVALID_RECORD, id="two"
        ),
        pytest.param(
            Batch(RECORD, attributes=CONTROL).encode(), ErrorCode.INVALID_RECORD, id="control"
        ),
        pytest.param(Batch(RECORD, count=2).encode(), ErrorCode.INVALID_RECORD, id="count"),
        pytest.param(
            Batch(RECORD, last_offset_delta=-1).encode(), ErrorCode.INVALID_RECORD, id="delta"
        ),
        pytest.param(
            Batch(RECORD, producer_id=1, producer_epoch=0, base_sequence=-1).encode(),
            ErrorCode.INVALID_RECORD,
            id="sequence",
        ),
    ],
)
async def test_what_is_no_batch_is_refused_and_the_connection_goes_on(
    broker: InProcessBroker, client: WireClient, records: bytes | None, code: ErrorCode
) -> None:
    if records is None and isinstance(broker, KafkaInstead):
        pytest.skip("Kafka never answers this one")
    await client.create_topic("t")
    result = await client.produce("t", records)
    assert error_from(result.error_code) is code
    assert (result.base_offset, result.log_append_time_ms) == (-1, -1)
    assert (await client.produce("t", one_batch(b"good"))).base_offset == 0


async def test_transactional_batches_need_a_transactional_id(client: WireClient) -> None:
    await client.create_topic("t")
    batch = one_batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    result = await client.produce("t", batch)
    assert error_from(result.error_code) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    fetched = await client.fetch("t")
    assert (fetched.high_watermark, fetched.last_stable_offset) == (0, 0)


async def test_clients_do_not_write_into_internal_topics(client: WireClient) -> None:
    await client.create_topic("__consumer_offsets")
    result = await client.produce("__consumer_offsets", one_batch(b"v"))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_batch_larger_than_the_topic_allows_is_refused(client: WireClient) -> None:
    fits = one_batch(b"x" * 1000)
    await client.create_topic("t", configs={"max.message.bytes": str(len(fits))})
    assert (await client.produce("t", fits)).error_code == 0
    refused = await client.produce("t", one_batch(b"x" * 1001))
    assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_records_without_a_key_on_a_compacted_topic_are_named(client: WireClient) -> None:
    await client.create_topic("t", configs={"cleanup.policy": "compact"})
    mixed = Batch([(b"k", b"v"), (None, b"v"), (b"k", b"v"), (None, b"v")]).encode()
    result = await client.produce("t", mixed)
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in result.record_errors] == [1, 3]
    assert all(message for _, message in result.record_errors)
    assert result.error_message
    old_version = await client.produce("t", mixed, version=7)
    assert old_version.error_code == ErrorCode.INVALID_RECORD


async def test_timestamps_out_of_bounds_are_named(client: WireClient) -> None:
    await client.create_topic(
        "t",
        configs={
            "message.timestamp.before.max.ms": "60000",
            "message.timestamp.after.max.ms": "60000",
        },
    )
    refused = await client.produce("t", one_batch(b"v", b"w", timestamp=1000))
    assert refused.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [0, 1]


async def test_log_append_time_is_the_brokers(broker: InProcessBroker, client: WireClient) -> None:
    await client.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
    before = broker.parts.clock.now_ms()
    result = await client.produce("t", one_batch(b"v", timestamp=1000))
    after = broker.parts.clock.now_ms()
    assert before <= result.log_append_time_ms <= after
    (record,) = records_of(await client.fetch("t"))
    assert record.timestamp == result.log_append_time_ms
    forged = Batch(RECORD, attributes=LOG_APPEND_TIME).encode()
    assert (await client.produce("t", forged)).error_code == ErrorCode.INVALID_TIMESTAMP


# Flushing ----------------------------------------------------------------------------------------


async def test_flush_messages_is_answered_after_the_flush(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t", configs={"flush.messages": "1"})
    log = broker.partition("t").log
    for n in range(3):
        result = await client.produce("t", one_batch(b"v"))
        assert (result.error_code, log.recovery_point) == (0, n + 1)


async def test_without_flush_settings_the_answer_does_not_wait_for_the_disk(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    await client.produce("t", one_batch(b"v"))
    assert broker.partition("t").log.recovery_point == 0


async def test_appends_that_wait_for_the_disk_do_not_hold_up_other_topics(
    broker: InProcessBroker, client: WireClient
) -> None:
    """Pipelined: the answers keep their order, the appends do not wait for each other."""
    await client.create_topic("slow", configs={"flush.messages": "1"})
    await client.create_topic("fast")
    sent = [
        client.send_produce({topic: {0: one_batch(b"%d" % n)}})
        for n in range(20)
        for topic in ("slow", "fast")
    ]
    answers = [await client.receive_produce(one) for one in sent]
    assert [(a.topics[0][0], a.topics[0][2][0].base_offset) for a in answers] == [
        (topic, n) for n in range(20) for topic in ("slow", "fast")
    ]
    assert broker.partition("slow").log.recovery_point == 20


# Many clients ------------------------------------------------------------------------------------


async def test_many_producers_at_once_lose_nothing_and_double_nothing(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t", 3)

    async def produce(number: int) -> None:
        connection = await broker.connect()
        sent = [
            connection.send_produce({"t": {n % 3: one_batch(b"%d-%d" % (number, n))}})
            for n in range(30)
        ]
        for one in sent:
            answer = await connection.receive_produce(one)
            assert answer.topics[0][2][0].error_code == 0

    await asyncio.gather(*(produce(number) for number in range(20)))
    stored: list[bytes | None] = []
    for partition in range(3):
        fetched = await client.fetch("t", partition=partition)
        assert base_offsets(fetched) == list(range(200))
        stored += values_of(fetched)
    assert sorted(stored, key=str) == sorted(
        (b"%d-%d" % (number, n) for number in range(20) for n in range(30)), key=str
    )


async def test_a_producer_that_is_gone_before_its_answer_leaves_its_record(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    brief = await broker.connect()
    brief.send_produce({"t": {0: one_batch(b"v")}})
    await brief.close()
    await eventually(lambda: broker.partition("t").log.log_end_offset == 1)
    await eventually(lambda: broker.connections == 1)
    assert values_of(await client.fetch("t")) == [b"v"]


@pytest.mark.parametrize("broker", [{"compression.type": "zstd"}], indirect=True)
async def test_recompression_by_the_brokers_setting(
    broker: InProcessBroker, client: WireClient, tmp_path: Path
) -> None:
    await client.create_topic("t")
    await client.create_topic("as-sent", configs={"compression.type": "producer"})
    for topic in ("t", "as-sent"):
        assert (await client.produce(topic, one_batch(b"x" * 10_000))).error_code == 0
        assert values_of(await client.fetch(topic)) == [b"x" * 10_000]
    sizes = {topic: broker.partition(topic).log.size for topic in ("t", "as-sent")}
    assert sizes["t"] < 1000 < sizes["as-sent"]
