"""The client against a running broker: what it does when things move under it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from moldau.client import (
    Client,
    NewTopic,
    OffsetSpec,
    UnknownTopicError,
    raise_first_error,
)
from moldau.client.producer import Producer
from moldau.client.consumer.partition_reader import PartitionReader, ReaderSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.testing.broker import MoldauProcess


@pytest.fixture
async def client(moldau_broker: MoldauProcess) -> AsyncIterator[Client]:
    async with Client(moldau_broker.bootstrap_servers) as connected:
        yield connected


async def new_topic(client: Client, partitions: int = 1, **configs: str) -> str:
    name = f"client-{uuid.uuid4().hex[:8]}"
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    raise_first_error(
        await client.admin.create_topics([NewTopic(name, partitions, configs=settings)])
    )
    await client.cluster.wait_for_leaders(name, partitions)
    return name


async def read_all(client: Client, topic: str, **settings: object) -> dict[int, list[bytes | None]]:
    partitions = [TopicPartition(topic, p) for p in (await client.cluster.topic(topic)).partitions]
    start = await client.admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    end = await client.admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    found: dict[int, list[bytes | None]] = {}
    async with PartitionReader(
        client.cluster,
        {key: at.offset for key, at in start.items()},
        until={key: at.offset for key, at in end.items()},
        settings=ReaderSettings(**settings),  # type: ignore[arg-type]
    ) as reader:
        async for (_, partition), records, _ in reader:
            found.setdefault(partition, []).extend(record.value for record in records)
    return found


async def test_keyed_records_stay_together_and_in_order(client: Client) -> None:
    topic = await new_topic(client, partitions=4)
    async with Producer(client.cluster, batch_size=500) as producer:
        for number in range(400):
            await producer.send(topic, b"%d" % number, key=b"key %d" % (number % 7))
    found = await read_all(client, topic, partition_max_bytes=1000)
    assert sum(map(len, found.values())) == 400
    for values in found.values():
        by_key: dict[int, list[int]] = {}
        for value in values:
            by_key.setdefault(int(value or 0) % 7, []).append(int(value or 0))
        assert all(numbers == sorted(numbers) for numbers in by_key.values())
    homes = [{int(value or 0) % 7 for value in values} for values in found.values()]
    assert sum(map(len, homes)) == 7


async def test_records_without_a_key_are_spread(client: Client) -> None:
    topic = await new_topic(client, partitions=3)
    async with Producer(client.cluster, batch_size=300) as producer:
        for _ in range(300):
            await producer.send(topic, b"x" * 50)
    found = await read_all(client, topic)
    assert set(found) == {0, 1, 2}


async def test_each_record_is_answered_for(client: Client) -> None:
    topic = await new_topic(client, max_message_bytes="1000")
    async with Producer(client.cluster) as producer:
        good = await producer.send(topic, b"good")
        bad = await producer.send(topic, b"x" * 5000)
        after = await producer.send(topic, b"after")
        assert (await good).offset == 0
        with pytest.raises(KafkaError) as refused:
            await bad
        assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await after).offset == 1
        with pytest.raises(KafkaError):
            await producer.flush()
    assert await read_all(client, topic) == {0: [b"good", b"after"]}


async def test_a_small_buffer_slows_the_sender_and_loses_nothing(client: Client) -> None:
    topic = await new_topic(client)
    async with Producer(client.cluster, buffer_memory=2000, batch_size=500) as producer:
        for number in range(500):
            await producer.send(topic, b"%d" % number)
    assert await read_all(client, topic) == {0: [b"%d" % number for number in range(500)]}


async def test_unknown_topics_and_partitions_are_refused(client: Client) -> None:
    topic = await new_topic(client)
    async with Producer(client.cluster) as producer:
        with pytest.raises(UnknownTopicError):
            await producer.send(f"{topic}-not-there", b"")
        with pytest.raises(UnknownTopicError):
            await producer.send(topic, b"", partition=1)
        with pytest.raises(KafkaError, match="larger than the limit"):
            await producer.send(topic, b"x" * (2 << 20))


async def test_what_a_closed_producer_did_not_send_fails(client: Client) -> None:
    topic = await new_topic(client)
    producer = Producer(client.cluster, linger=60.0)
    delivery = await producer.send(topic, b"never")
    await producer.close()
    with pytest.raises(KafkaError, match="closed"):
        await delivery
    with pytest.raises(KafkaError, match="closed"):
        await producer.send(topic, b"too late")


async def test_a_recreated_topic_is_written_and_read_under_its_new_id(client: Client) -> None:
    topic = await new_topic(client)
    async with Producer(client.cluster) as producer:
        await (await producer.send(topic, b"old"))
        old = await client.cluster.topic(topic)
        raise_first_error(await client.admin.delete_topics([topic]))
        raise_first_error(await client.admin.create_topics([NewTopic(topic, 1)]))
        await client.cluster.wait_for_leaders(topic)
        assert (await client.cluster.topic(topic)).topic_id != old.topic_id
        assert (await (await producer.send(topic, b"new"))).offset == 0
    assert await read_all(client, topic) == {0: [b"new"]}


async def test_a_position_outside_the_log_is_an_error_or_moves(client: Client) -> None:
    topic = await new_topic(client)
    key = TopicPartition(topic, 0)
    async with Producer(client.cluster) as producer:
        for value in (b"a", b"b", b"c"):
            await producer.send(topic, value)
    raise_first_error(await client.admin.delete_records({key: 2}))
    async with PartitionReader(client.cluster, {key: 0}) as reader:
        with pytest.raises(KafkaError, match=f"{topic}-0 has offsets 2 to 3, not 0"):
            await reader.poll()
    settings = ReaderSettings(out_of_range="earliest")
    async with PartitionReader(client.cluster, {key: 0}, until={key: 3}, settings=settings) as reader:
        assert [found.records[0].value async for found in reader] == [b"c"]


async def test_polling_an_empty_partition_returns_after_the_wait(client: Client) -> None:
    topic = await new_topic(client)
    key = TopicPartition(topic, 0)
    async with PartitionReader(client.cluster, {key: 0}, settings=ReaderSettings(max_wait=0.05)) as reader:
        assert await reader.poll() == []
        assert reader.positions == {key: 0}


async def test_a_long_poll_does_not_hold_up_other_requests(client: Client) -> None:
    topic = await new_topic(client)
    settings = ReaderSettings(max_wait=30.0)
    async with PartitionReader(client.cluster, {TopicPartition(topic, 0): 0}, settings=settings) as reader:
        poll = asyncio.create_task(reader.poll())
        async with Producer(client.cluster) as producer:
            await (await producer.send(topic, b"wake up"))
        (found,) = await poll
        assert [record.value for record in found.records] == [b"wake up"]


async def test_records_are_stored_once_over_broker_crashes(tmp_path: Path) -> None:
    with MoldauProcess(tmp_path) as broker:
        async with Client(broker.bootstrap_servers) as client:
            topic = await new_topic(client, partitions=2)
            async with Producer(client.cluster, batch_size=2000, linger=0.0) as producer:
                deliveries = []
                for number in range(3000):
                    deliveries.append(await producer.send(topic, b"%d" % number))
                    if number in (1000, 2000):
                        broker.kill()
                        await asyncio.to_thread(broker.start)
                await producer.flush()
                placed = [await delivery for delivery in deliveries]
            found = await read_all(client, topic)
    every = sorted(int(value or 0) for values in found.values() for value in values)
    assert every == list(range(3000))
    for number, place in enumerate(placed):
        assert found[place.partition][place.offset] == b"%d" % number


async def test_a_slow_reader_gets_what_was_fetched_ahead(client: Client) -> None:
    topic = await new_topic(client, partitions=3)
    async with Producer(client.cluster, batch_size=1) as producer:
        for number in range(9):
            await producer.send(topic, b"%d" % number, partition=number % 3)
    keys = [TopicPartition(topic, number) for number in range(3)]
    seen: dict[int, list[bytes | None]] = {0: [], 1: [], 2: []}
    # Only one batch at a time fits into an answer; the other partitions get none, not a piece.
    settings = ReaderSettings(partition_max_bytes=1)
    async with PartitionReader(
        client.cluster, dict.fromkeys(keys, 0), until=dict.fromkeys(keys, 3), settings=settings
    ) as reader:
        async for (_, partition), records, _ in reader:
            seen[partition] += [record.value for record in records]
            await asyncio.gather(*reader._fetches.values())
    assert seen == {n: [b"%d" % (n + 3 * k) for k in range(3)] for n in range(3)}
