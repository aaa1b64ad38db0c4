"""Requests that a client sends without waiting are answered as if it had waited for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import WireClient, one_batch

from moldau.wire.api import ApiKey

TOPIC, GROUP = "orders", "readers"
WAIT_MS = 3_000
STEP_S = 0.5

Send = Callable[[WireClient], int]


def produce(acks: int) -> Send:
    return lambda client: client.send_produce({TOPIC: {0: one_batch(b"v")}}, acks=acks)


def fetch(offset: int, min_bytes: int) -> Send:
    return lambda client: client.send_fetch(
        {TOPIC: {0: offset}}, max_wait_ms=WAIT_MS, min_bytes=min_bytes
    )


def ask(api: ApiKey, version: int | None = None, **values: Any) -> Send:
    return lambda client: client.send(api, version, **values)


def commit(offset: int) -> Send:
    partitions = [{"partition_index": 0, "committed_offset": offset}]
    return ask(
        ApiKey.OFFSET_COMMIT,
        9,
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        topics=[{"name": TOPIC, "partitions": partitions}],
    )


def creation(name: str) -> Send:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
    return ask(ApiKey.CREATE_TOPICS, topics=[topic], timeout=timedelta(seconds=30))


def deletion(name: str) -> Send:
    return ask(ApiKey.DELETE_TOPICS, topics=[{"name": name}], timeout=timedelta(seconds=30))


def end_offset() -> Send:
    partitions = [{"partition_index": 0, "timestamp": -1}]
    return ask(
        ApiKey.LIST_OFFSETS, replica_id=-1, topics=[{"name": TOPIC, "partitions": partitions}]
    )


def committed() -> Send:
    topics = [{"name": TOPIC, "partition_indexes": (0,)}]
    return ask(ApiKey.OFFSET_FETCH, 9, groups=[{"group_id": GROUP, "topics": topics}])


def metadata() -> Send:
    return ask(ApiKey.METADATA, 12, topics=None)


def join() -> Send:
    """Waits for the initial delay of the group's first rebalance, then for the others."""
    return ask(
        ApiKey.JOIN_GROUP,
        3,  # a member without an id is let in at once
        group_id=GROUP,
        session_timeout=timedelta(seconds=10),
        rebalance_timeout=timedelta(seconds=10),
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )


REQUESTS = st.one_of(
    st.builds(produce, st.sampled_from([0, 1, -1])),
    st.builds(fetch, st.integers(0, 6), st.sampled_from([1, 100, 100_000])),
    st.builds(end_offset),
    st.builds(commit, st.integers(0, 9)),
    st.builds(committed),
    st.builds(creation, st.sampled_from(["a", "b"])),
    st.builds(deletion, st.sampled_from(["a", "b"])),
    st.builds(metadata),
    st.builds(join),
)


async def answers(pipeline: list[Send], *, waits: bool, flushes: bool) -> bytes:
    """Everything that a new broker sends, to a client that waits for answers or does not."""
    every = {"log.flush.interval.messages": "1"} if flushes else {}
    async with MemoryBroker({"group.initial.rebalance.delay.ms": "1000", **every}) as broker:
        client = await broker.connect()
        await client.create_topic(TOPIC)
        await client.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=(GROUP,))
        await broker.settle()
        for send in pipeline:
            send(client)
            if waits:
                await quiet(broker)
        await quiet(broker)
        await client.close()
        return await client.wait_closed_by_peer()


def in_flight(broker: MemoryBroker) -> int:
    (listener,) = broker.parts.listeners
    return sum(connection.in_flight for connection in listener._connections)


async def quiet(broker: MemoryBroker) -> None:
    await broker.settle()
    while in_flight(broker):
        broker.clock.advance(STEP_S)
        await broker.settle()


@settings(deadline=None, max_examples=60)
@given(st.lists(REQUESTS, max_size=10), st.booleans())
def test_a_pipeline_is_answered_as_its_requests_one_by_one(
    pipeline: list[Send], flushes: bool
) -> None:
    async def compare() -> None:
        expected = await answers(pipeline, waits=True, flushes=flushes)
        assert await answers(pipeline, waits=False, flushes=flushes) == expected

    asyncio.run(compare())
