"""Offsets, epochs and producers of a log, and the start of it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import WireClient, one_batch
from tests.unit.broker.harness import lose_controller

from moldau.broker.handlers import describe_producers
from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey


@pytest.fixture
async def topic(client: WireClient) -> str:
    await client.create_topic("t", 2)
    return "t"


async def list_offsets(client: WireClient, version: int = 11, **partition: Any) -> Any:
    asked = {"partition_index": 0, "current_leader_epoch": -1, **partition}
    answer = await client.call(
        ApiKey.LIST_OFFSETS,
        version,
        replica_id=-1,
        topics=[{"name": "t", "partitions": [asked]}],
    )
    return answer.topics[0].partitions[0]


async def test_offsets_are_found_by_time(client: WireClient, topic: str) -> None:
    for number in range(3):
        await client.produce(topic, one_batch(b"v", timestamp=1000 + number))
    assert (await list_offsets(client, timestamp=-1)).offset == 3
    assert (await list_offsets(client, timestamp=-2)).offset == 0
    assert (await list_offsets(client, timestamp=-3)).offset == 2
    found = await list_offsets(client, timestamp=1001)
    assert (found.offset, found.timestamp) == (1, 1001)
    assert (await list_offsets(client, timestamp=5000)).offset == -1
    assert (await list_offsets(client, 6, timestamp=-3)).error_code is ErrorCode.UNSUPPORTED_VERSION
    fenced = await list_offsets(client, timestamp=-1, current_leader_epoch=5)
    assert (fenced.error_code, fenced.offset) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1)


async def test_a_partition_asked_for_twice_is_refused_twice(client: WireClient, topic: str) -> None:
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    answer = await client.call(
        ApiKey.LIST_OFFSETS, replica_id=-1, topics=[{"name": topic, "partitions": [asked, asked]}]
    )
    codes = [p.error_code for p in answer.topics[0].partitions]
    assert codes == [ErrorCode.INVALID_REQUEST] * 2


async def test_where_an_epoch_ended(client: WireClient, topic: str) -> None:
    await client.produce(topic, one_batch(b"v"))
    partitions = [
        {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0},
        {"partition": 1, "current_leader_epoch": 4, "leader_epoch": 0},
    ]
    answer = await client.call(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        replica_id=-1,
        topics=[{"topic": topic, "partitions": partitions}],
    )
    ended, fenced = answer.topics[0].partitions
    assert (ended.error_code, ended.leader_epoch, ended.end_offset) == (0, 0, 1)
    assert (fenced.error_code, fenced.end_offset) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1)


async def test_records_are_deleted_up_to_an_offset(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    await client.create_topic("compacted", configs={"cleanup.policy": "compact"})
    await client.produce(topic, one_batch(b"v", b"w"))
    wanted = [
        {"name": topic, "partitions": [{"partition_index": n, "offset": 1} for n in (0, 1, 7)]},
        {"name": "compacted", "partitions": [{"partition_index": 0, "offset": -1}]},
        {"name": "__consumer_offsets", "partitions": [{"partition_index": 0, "offset": -1}]},
    ]
    answer = await client.call(ApiKey.DELETE_RECORDS, topics=wanted, timeout=60_000)
    found = {
        (deleted.name, p.partition_index): (p.error_code, p.low_watermark)
        for deleted in answer.topics
        for p in deleted.partitions
    }
    assert found == {
        (topic, 0): (0, 1),
        (topic, 1): (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        (topic, 7): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("compacted", 0): (ErrorCode.POLICY_VIOLATION, -1),
        ("__consumer_offsets", 0): (ErrorCode.INVALID_TOPIC_EXCEPTION, -1),
    }
    assert broker.partition(topic).log.log_start_offset == 1
    assert b"t 0 1" in broker.disk.read("/data/log-start-offset-checkpoint")


async def test_producers_get_ids_of_their_own_and_are_remembered(
    client: WireClient, topic: str
) -> None:
    ids = [(await client.call(ApiKey.INIT_PRODUCER_ID)).producer_id for _ in range(3)]
    assert ids == [0, 1, 2]
    batch = one_batch(b"v", producer_id=ids[1], producer_epoch=0, base_sequence=0)
    assert (await client.produce(topic, batch)).error_code == 0
    answer = await client.call(
        ApiKey.DESCRIBE_PRODUCERS, topics=[{"name": topic, "partition_indexes": [0, 1, 9]}]
    )
    known, none, missing = answer.topics[0].partitions
    assert [producer.producer_id for producer in known.active_producers] == [ids[1]]
    assert (none.error_code, none.active_producers) == (0, ())
    assert missing.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_very_many_producers_are_not_described_at_once(
    client: WireClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_producers, "MOST_PRODUCERS", 3)
    for partition, producers in ((0, (1, 2)), (1, (3, 4))):
        for producer_id in producers:
            batch = one_batch(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0)
            await client.produce(topic, batch, partition=partition)

    async def describe(*partitions: int) -> list[tuple[ErrorCode, list[int]]]:
        wanted = [{"name": topic, "partition_indexes": partitions}]
        answer = await client.call(ApiKey.DESCRIBE_PRODUCERS, topics=wanted)
        return [
            (found.error_code, [producer.producer_id for producer in found.active_producers])
            for found in answer.topics[0].partitions
        ]

    assert await describe(0, 1) == [(ErrorCode.NONE, [1, 2]), (ErrorCode.INVALID_REQUEST, [])]
    assert await describe(1) == [(ErrorCode.NONE, [3, 4])]


@pytest.mark.parametrize(
    ("transactional_id", "code"),
    [("", ErrorCode.INVALID_REQUEST), ("x", ErrorCode.NOT_COORDINATOR)],
)
async def test_an_id_for_transactions_is_asked_of_their_coordinator(
    client: WireClient, transactional_id: str, code: ErrorCode
) -> None:
    answer = await client.call(ApiKey.INIT_PRODUCER_ID, transactional_id=transactional_id)
    assert (answer.error_code, answer.producer_id) == (code, -1)


async def test_without_a_controller_a_producer_is_asked_to_come_back(
    broker: MemoryBroker, client: WireClient
) -> None:
    lose_controller(broker)
    answer = await client.call(ApiKey.INIT_PRODUCER_ID)
    assert answer.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
