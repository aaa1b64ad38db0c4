"""Quotas in virtual time: a minute of holding back takes none of ours."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from moldau.client.admin import AsyncAdmin, ClientQuotaEntity, NewTopic
from moldau.client.consumer import AsyncConsumer
from moldau.client.producer import AsyncProducer
from moldau.testing.simulation.broker import SimulatedBroker
from moldau.testing.simulation.simulation import Simulation

BYTES_PER_SECOND = 10_000
RECORDS, SIZE = 30, 10_000


def test_a_producer_and_a_consumer_keep_to_their_quotas_and_lose_nothing() -> None:
    with Simulation(1) as simulation:
        broker = SimulatedBroker(simulation)

        async def on(
            name: str, work: Callable[[dict[str, Any]], Coroutine[Any, Any, None]]
        ) -> float:
            """Run a program; returns how long it took."""
            node = simulation.node(name)
            machine = node.boot()
            client = {
                "machine": machine,
                "bootstrap_servers": broker.bootstrap_servers,
                "client_id": name,
            }
            start = machine.clock.monotonic()
            await node.run(work(client))
            took = machine.clock.monotonic() - start
            node.exit()
            return took

        async def prepare(client: dict[str, Any]) -> None:
            async with AsyncAdmin(**client) as admin:
                (created,) = await admin.create_topics([NewTopic("orders", 1)])
                created.get()
                keys = ("producer_byte_rate", "consumer_byte_rate")
                quotas = dict.fromkeys(keys, BYTES_PER_SECOND)
                (altered,) = await admin.alter_client_quotas(
                    {ClientQuotaEntity.of({"client-id": None}): quotas}
                )
                altered.get()

        async def produce(client: dict[str, Any]) -> None:
            async with AsyncProducer(**client, linger_ms=0) as producer:
                for number in range(RECORDS):
                    await (await producer.send("orders", number.to_bytes(2, "big") + bytes(SIZE)))

        async def consume(client: dict[str, Any]) -> None:
            numbers: list[int] = []
            async with AsyncConsumer(
                **client, group_id="readers", auto_offset_reset="earliest"
            ) as consumer:
                consumer.subscribe(["orders"])
                while len(numbers) < RECORDS:
                    for record in (await consumer.poll(1.0)).records():
                        assert record.value is not None
                        numbers.append(int.from_bytes(record.value[:2], "big"))
            assert numbers == list(range(RECORDS))

        async def story() -> None:
            await broker.start()
            await on("admin", prepare)
            # Ten seconds' worth goes through at once.
            unhindered = 10 * BYTES_PER_SECOND
            at_least = (RECORDS * SIZE - unhindered) / BYTES_PER_SECOND
            assert at_least <= await on("producer", produce) < 4 * at_least
            assert at_least <= await on("consumer", consume) < 4 * at_least

        simulation.run(story())
