"""Offsets, epochs, producers and deleted records over the wire."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.support.in_process import InProcessBroker
from tests.support.partition_log import verified
from tests.support.wire import WireClient, one_batch, values_of

from moldau.errors import ErrorCode
from moldau.records.builder import build_batch
from moldau.records.record import Record
from moldau.wire.api import ApiKey
from moldau.wire.primitives import error_from

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6


async def list_offset(
    client: WireClient,
    timestamp: int,
    *,
    topic: str = "t",
    partition: int = 0,
    epoch: int = -1,
    version: int = 11,
    **how: Any,
) -> tuple[ErrorCode, int, int]:
    """Error, offset and timestamp."""
    answer = await client.call(
        ApiKey.LIST_OFFSETS,
        version,
        **{"replica_id": -1, "isolation_level": 0, **how},
        topics=[
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "timestamp": timestamp,
                        "current_leader_epoch": epoch,
                    }
                ],
            }
        ],
    )
    ((found,),) = [t.partitions for t in answer.topics]
    return error_from(found.error_code), found.offset, found.timestamp


async def delete_records(
    client: WireClient, offset: int, *, topic: str = "t", partition: int = 0
) -> tuple[ErrorCode, int]:
    answer = await client.call(
        ApiKey.DELETE_RECORDS,
        topics=[{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}],
        timeout=60_000,
    )
    ((found,),) = [t.partitions for t in answer.topics]
    return error_from(found.error_code), found.low_watermark


async def three_times(client: WireClient, **configs: str) -> None:
    """Records at the times 1000, 3000 and 2000."""
    await client.create_topic("t", configs=configs)
    for timestamp in (1000, 3000, 2000):
        await client.produce("t", one_batch(b"v", timestamp=timestamp))


# ListOffsets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timestamp", "offset", "found_time"),
    [
        (LATEST, 3, -1),
        (EARLIEST, 0, -1),
        (EARLIEST_LOCAL, 0, -1),
        (MAX_TIMESTAMP, 1, 3000),
        (LATEST_TIERED, -1, -1),
        (0, 0, 1000),
        (1000, 0, 1000),
        (1001, 1, 3000),
        (2000, 1, 3000),
        (3000, 1, 3000),
        (3001, -1, -1),
    ],
)
async def test_times_and_the_special_ones_find_their_offsets(
    client: WireClient, timestamp: int, offset: int, found_time: int
) -> None:
    await three_times(client)
    assert await list_offset(client, timestamp) == (ErrorCode.NONE, offset, found_time)


async def test_what_is_not_uploaded_anywhere_has_no_offset(client: WireClient) -> None:
    await three_times(client)
    assert await list_offset(client, EARLIEST_PENDING_UPLOAD) == (ErrorCode.NONE, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [(LATEST, 0), (EARLIEST, 0), (EARLIEST_LOCAL, 0), (MAX_TIMESTAMP, -1), (0, -1)],
)
async def test_an_empty_log_has_ends_and_nothing_between(
    client: WireClient, timestamp: int, offset: int
) -> None:
    await client.create_topic("t")
    assert await list_offset(client, timestamp) == (ErrorCode.NONE, offset, -1)


@pytest.mark.parametrize(
    ("timestamp", "first_version"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11)],
)
async def test_special_times_are_known_from_some_version_on(
    client: WireClient, timestamp: int, first_version: int
) -> None:
    await three_times(client)
    code, *_ = await list_offset(client, timestamp, version=first_version)
    assert code is ErrorCode.NONE
    code, *found = await list_offset(client, timestamp, version=first_version - 1)
    assert (code, found) == (ErrorCode.UNSUPPORTED_VERSION, [-1, -1])


async def test_special_times_that_do_not_exist_are_refused(client: WireClient) -> None:
    await three_times(client)
    assert await list_offset(client, -99) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)


async def test_a_time_in_the_middle_of_a_batch_finds_the_record(client: WireClient) -> None:
    await client.create_topic("t")
    times = [100, 200, 300, 400]
    await client.produce("t", build_batch([Record(0, at, None, b"v") for at in times]))
    assert await list_offset(client, 250) == (ErrorCode.NONE, 2, 300)
    assert await list_offset(client, MAX_TIMESTAMP) == (ErrorCode.NONE, 3, 400)


async def test_times_are_found_over_many_segments(client: WireClient) -> None:
    await client.create_topic("t", configs={"internal.segment.bytes": "300"})
    for n in range(50):
        await client.produce("t", one_batch(b"v", timestamp=n * 10 + 10))
    for n in (0, 7, 31, 49):
        at = n * 10 + 10
        assert await list_offset(client, at) == (ErrorCode.NONE, n, at)
        assert await list_offset(client, at - 9) == (ErrorCode.NONE, n, at)


async def test_what_was_deleted_is_not_found(client: WireClient) -> None:
    await three_times(client)
    await delete_records(client, 2)
    assert await list_offset(client, EARLIEST) == (ErrorCode.NONE, 2, -1)
    assert await list_offset(client, 0) == (ErrorCode.NONE, 2, 2000)


async def test_list_offsets_tells_what_it_cannot_answer(client: WireClient) -> None:
    await three_times(client)
    assert await list_offset(client, LATEST, topic="nowhere") == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        -1,
        -1,
    )
    assert (await list_offset(client, LATEST, partition=5))[0] is (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert (await list_offset(client, LATEST, epoch=9))[0] is ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_a_partition_twice_in_one_request_is_refused(client: WireClient) -> None:
    await three_times(client)
    twice = [{"partition_index": 0, "timestamp": LATEST}] * 2
    answer = await client.call(
        ApiKey.LIST_OFFSETS, replica_id=-1, topics=[{"name": "t", "partitions": twice}]
    )
    codes = {error_from(p.error_code) for t in answer.topics for p in t.partitions}
    assert codes == {ErrorCode.INVALID_REQUEST}


async def test_the_end_for_readers_of_committed_data_is_the_last_stable_offset(
    broker: InProcessBroker, client: WireClient
) -> None:
    await three_times(client)
    open_transaction = one_batch(
        b"v", producer_id=4, producer_epoch=0, base_sequence=0, transactional=True
    )
    now_ms = broker.parts.clock.now_ms()
    verified(broker.partition("t").log, 4)
    broker.partition("t").append(memoryview(open_transaction), 1, now_ms)
    assert (await list_offset(client, LATEST))[1] == 4
    assert (await list_offset(client, LATEST, isolation_level=1))[1] == 3


# DeleteRecords -----------------------------------------------------------------------------------


async def test_deleted_records_are_gone_and_the_rest_stays(client: WireClient) -> None:
    await client.create_topic("t")
    for n in range(5):
        await client.produce("t", one_batch(b"%d" % n))
    assert await delete_records(client, 3) == (ErrorCode.NONE, 3)
    assert values_of(await client.fetch("t", 3)) == [b"3", b"4"]
    assert await delete_records(client, 1) == (ErrorCode.NONE, 3), "never back"
    assert await delete_records(client, -1) == (ErrorCode.NONE, 5), "-1: all there is"
    assert (await client.produce("t", one_batch(b"5"))).base_offset == 5


@pytest.mark.parametrize("offset", [4, -2, 2**40])
async def test_only_offsets_of_the_log_can_be_deleted_up_to(
    client: WireClient, offset: int
) -> None:
    await three_times(client)
    assert await delete_records(client, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert await list_offset(client, EARLIEST) == (ErrorCode.NONE, 0, -1)


async def test_a_compacted_topic_refuses_to_delete_records(client: WireClient) -> None:
    await three_times(client, **{"cleanup.policy": "compact"})
    assert await delete_records(client, 1) == (ErrorCode.POLICY_VIOLATION, -1)
    await client.create_topic("both", configs={"cleanup.policy": "compact,delete"})
    await client.produce("both", one_batch(b"v"))
    assert await delete_records(client, 1, topic="both") == (ErrorCode.NONE, 1)


async def test_delete_records_tells_what_is_not_there(client: WireClient) -> None:
    await three_times(client)
    missing = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert await delete_records(client, 0, topic="nowhere") == missing
    assert await delete_records(client, 0, partition=5) == missing


async def test_deleted_records_stay_deleted_over_a_restart(broker: InProcessBroker) -> None:
    client = await broker.connect()
    await three_times(client)
    await delete_records(client, 2)
    await broker.restart()
    client = await broker.connect()
    assert await list_offset(client, EARLIEST) == (ErrorCode.NONE, 2, -1)
    assert (await client.fetch("t", 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# OffsetForLeaderEpoch ----------------------------------------------------------------------------


async def end_of_epoch(
    client: WireClient, epoch: int, *, current: int = -1, topic: str = "t"
) -> tuple[ErrorCode, int, int]:
    answer = await client.call(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        replica_id=-1,
        topics=[
            {
                "topic": topic,
                "partitions": [
                    {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
                ],
            }
        ],
    )
    ((found,),) = [t.partitions for t in answer.topics]
    return error_from(found.error_code), found.leader_epoch, found.end_offset


async def test_epochs_end_where_the_next_began(broker: InProcessBroker) -> None:
    client = await broker.connect()
    await client.create_topic("t")
    await client.produce("t", one_batch(b"a", b"b"))
    await broker.restart()
    client = await broker.connect()
    await client.produce("t", one_batch(b"c"))
    now = broker.partition("t").leader_epoch
    assert await end_of_epoch(client, 0) == (ErrorCode.NONE, 0, 2)
    assert await end_of_epoch(client, now) == (ErrorCode.NONE, now, 3)
    assert await end_of_epoch(client, now + 5) == (ErrorCode.NONE, -1, -1)
    assert (await end_of_epoch(client, 0, current=now + 1))[0] is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await end_of_epoch(client, 0, current=now - 1))[0] is ErrorCode.FENCED_LEADER_EPOCH
    missing = await end_of_epoch(client, 0, topic="nowhere")
    assert missing == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


# Producers ---------------------------------------------------------------------------------------


async def test_producers_are_described_where_they_wrote(client: WireClient) -> None:
    await client.create_topic("t", 2)
    batch = one_batch(b"a", b"b", producer_id=42, producer_epoch=3, base_sequence=0, timestamp=77)
    await client.produce("t", batch)
    answer = await client.call(
        ApiKey.DESCRIBE_PRODUCERS, topics=[{"name": "t", "partition_indexes": [0, 1, 7]}]
    )
    ((first, second, third),) = [t.partitions for t in answer.topics]
    (producer,) = first.active_producers
    assert (
        producer.producer_id,
        producer.producer_epoch,
        producer.last_sequence,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.current_txn_start_offset,
    ) == (42, 3, 1, 77, -1, -1)
    assert (second.error_code, second.active_producers) == (0, ())
    assert third.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_producer_ids_are_never_given_twice_not_even_after_a_restart(
    broker: InProcessBroker,
) -> None:
    given: list[int] = []
    for _ in range(3):
        client = await broker.connect()
        for _ in range(5):
            answer = await client.call(ApiKey.INIT_PRODUCER_ID, transaction_timeout=1000)
            assert (answer.error_code, answer.producer_epoch) == (0, 0)
            given.append(answer.producer_id)
        await broker.restart()
    assert len(set(given)) == len(given)
    assert given == sorted(given)


async def test_an_empty_transactional_id_is_none(client: WireClient) -> None:
    answer = await client.call(
        ApiKey.INIT_PRODUCER_ID, transactional_id="", transaction_timeout=1000
    )
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


async def test_a_producers_sequences_are_remembered_over_a_restart(
    broker: InProcessBroker,
) -> None:
    client = await broker.connect()
    await client.create_topic("t")

    def batch(sequence: int, value: bytes) -> bytearray:
        return one_batch(
            value,
            producer_id=9,
            producer_epoch=0,
            base_sequence=sequence,
            timestamp=int(time.time() * 1000),  # an older one would be forgotten as expired
        )

    assert (await client.produce("t", batch(0, b"a"))).base_offset == 0
    await broker.restart()
    client = await broker.connect()
    assert (await client.produce("t", batch(0, b"again"))).base_offset == 0
    assert (await client.produce("t", batch(1, b"b"))).base_offset == 1
    assert values_of(await client.fetch("t")) == [b"a", b"b"]


# FindCoordinator ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key_type", "code"),
    [
        (2, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (9, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_coordinators_that_do_not_exist_are_answered_with_an_error_that_clients_know(
    client: WireClient, key_type: int, code: ErrorCode
) -> None:
    answer = await client.call(
        ApiKey.FIND_COORDINATOR, key_type=key_type, coordinator_keys=["a", "b"]
    )
    assert [(c.key, c.error_code, c.node_id) for c in answer.coordinators] == [
        ("a", code, -1),
        ("b", code, -1),
    ]
