"""Bad batches in virtual time, and batches that are looked at in a thread, which may take long."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from tests.support.batches import relabelled

from moldau.client.admin import AsyncAdmin, NewTopic
from moldau.client.consumer import AsyncConsumer
from moldau.client.producer import AsyncProducer
from moldau.errors import ErrorCode
from moldau.model import TopicPartition
from moldau.net.broker_connection import BrokerConnection
from moldau.records.builder import build_batch
from moldau.records.compression import Compression
from moldau.records.record import Record
from moldau.testing.simulation.broker import SimulatedBroker
from moldau.testing.simulation.simulation import Simulation
from moldau.wire.api import ApiKey
from moldau.wire.produce import decode_produce_response, encode_produce_request

PARTITION = TopicPartition("orders", 0)
LARGE = bytes(3 * 1024 * 1024)
"""More than the event loop looks at."""


def run(
    seed: int, *stories: tuple[str, Callable[[dict[str, Any]], Coroutine[Any, Any, None]]]
) -> None:
    """A broker with one topic; one program after the other, each on a node of its own."""
    with Simulation(seed) as simulation:
        broker = SimulatedBroker(simulation)

        async def create(client: dict[str, Any]) -> None:
            async with AsyncAdmin(**client) as admin:
                configs = {"max.message.bytes": "10000000"}
                (outcome,) = await admin.create_topics([NewTopic("orders", 1, configs=configs)])
                outcome.get()

        async def tell() -> None:
            await broker.start()
            for name, story in (("admin", create), *stories):
                node = simulation.node(name)
                client = {"machine": node.boot(), "bootstrap_servers": broker.bootstrap_servers}
                try:
                    await node.run(story(client))
                finally:
                    node.exit()

        simulation.run(tell())


async def values(client: dict[str, Any], count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async with AsyncConsumer(**client, auto_offset_reset="earliest") as consumer:
        consumer.assign([PARTITION])
        while len(found) < count:
            found += [record.value for record in (await consumer.poll(5.0)).records()]
        assert await consumer.position(PARTITION) == count
    return found


@pytest.mark.parametrize("codec", list(Compression))
def test_a_planted_batch_is_refused_and_takes_no_offset(codec: Compression) -> None:
    async def send(client: dict[str, Any], value: bytes) -> None:
        async with AsyncProducer(**client) as producer:
            await (await producer.send("orders", value, partition=0))

    async def plant(client: dict[str, Any]) -> None:
        host, port = client["bootstrap_servers"].split(":")
        connection = await BrokerConnection.open(
            client["machine"],
            host,
            int(port),
            client_id="stranger",
            connect_timeout=10,
            request_timeout=10,
        )
        one = build_batch([Record(0, 0, b"k", b"v")], compression=codec)
        gap = build_batch(
            [Record(0, 0, b"k", b"v"), Record(5, 0, b"k", b"v")],
            compression=codec,
            keep_offsets=True,
        )
        # A header of many records, of one too many, of the right number over deltas with a gap.
        for batch in (relabelled(one, 2**31 - 1), relabelled(one, 2), relabelled(gap, 2)):

            def encode(batch: bytearray, version: int, correlation_id: int, name: str) -> Any:
                topics = [("orders", None, [(0, batch)])]
                return encode_produce_request(version, correlation_id, name, None, -1, 1000, topics)

            version, frame = connection.post(ApiKey.PRODUCE, partial(encode, batch), at_most=12)
            _, answer = decode_produce_response(version, await frame)
            ((_, _, (result,)),) = answer.topics
            assert result.error_code == ErrorCode.INVALID_RECORD
        await connection.close()

    async def read(client: dict[str, Any]) -> None:
        assert await values(client, 2) == [b"before", b"after"]

    run(
        3,
        ("first", partial(send, value=b"before")),
        ("stranger", plant),
        ("second", partial(send, value=b"after")),
        ("reader", read),
    )


@pytest.mark.parametrize("seed", range(5))
def test_batches_that_are_looked_at_in_a_thread_keep_their_order(seed: int) -> None:
    """Pipelined, by an idempotent producer: an order of their own would be OUT_OF_ORDER."""
    count = 12

    async def send(client: dict[str, Any]) -> None:
        async with AsyncProducer(
            **client,
            compression_type="zstd",
            linger_ms=0,
            batch_size=1,
            max_request_size=10_000_000,
            retries=0,
        ) as producer:
            sent = [
                await producer.send(
                    "orders", b"%d" % number + (LARGE if number % 3 else b""), partition=0
                )
                for number in range(count)
            ]
            for one in sent:
                await one

    async def read(client: dict[str, Any]) -> None:
        found = await values(client, count)
        assert [int((value or b"").rstrip(b"\0")) for value in found] == list(range(count))

    run(seed, ("producer", send), ("reader", read))
