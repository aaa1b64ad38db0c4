"""The client against a running broker: what it does when things move under it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from moldau.client.admin import NewTopic, raise_first_error
from moldau.client.client import Client
from moldau.client.consumer.partition_reader import PartitionReader, ReaderSettings
from moldau.client.producer import AsyncProducer
from moldau.errors import KafkaError
from moldau.model import TopicPartition
from moldau.net.address import show
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


def producer_for(client: Client, **settings: Any) -> AsyncProducer:
    servers = [show(*address) for address in client.cluster.settings.bootstrap_servers]
    return AsyncProducer(bootstrap_servers=servers, **settings)


async def test_a_position_outside_the_log_is_an_error_or_moves(client: Client) -> None:
    topic = await new_topic(client)
    key = TopicPartition(topic, 0)
    async with producer_for(client) as producer:
        for value in (b"a", b"b", b"c"):
            await producer.send(topic, value)
    raise_first_error(await client.admin.delete_records({key: 2}))
    async with PartitionReader(client.cluster, {key: 0}) as reader:
        with pytest.raises(KafkaError, match=f"{topic}-0 has offsets 2 to 3, not 0"):
            await reader.poll()
    settings = ReaderSettings(out_of_range="earliest")
    async with PartitionReader(
        client.cluster, {key: 0}, until={key: 3}, settings=settings
    ) as reader:
        assert [found.records[0].value async for found in reader] == [b"c"]


async def test_polling_an_empty_partition_returns_after_the_wait(client: Client) -> None:
    topic = await new_topic(client)
    key = TopicPartition(topic, 0)
    async with PartitionReader(
        client.cluster, {key: 0}, settings=ReaderSettings(max_wait=0.05)
    ) as reader:
        assert await reader.poll() == []
        assert reader.positions == {key: 0}


async def test_a_long_poll_does_not_hold_up_other_requests(client: Client) -> None:
    topic = await new_topic(client)
    settings = ReaderSettings(max_wait=30.0)
    async with PartitionReader(
        client.cluster, {TopicPartition(topic, 0): 0}, settings=settings
    ) as reader:
        poll = asyncio.create_task(reader.poll())
        async with producer_for(client) as producer:
            await (await producer.send(topic, b"wake up"))
        (found,) = await poll
        assert [record.value for record in found.records] == [b"wake up"]


async def test_a_slow_reader_gets_what_was_fetched_ahead(client: Client) -> None:
    topic = await new_topic(client, partitions=3)
    async with producer_for(client, batch_size=1) as producer:
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
