"""A consumer that waits for the end of a pause, in virtual time that passes while it looks."""

from __future__ import annotations

from typing import Any

from moldau.client.admin import AsyncAdmin, NewTopic
from moldau.client.consumer import AsyncConsumer
from moldau.client.producer import AsyncProducer
from moldau.model import TopicPartition
from moldau.testing.simulation.broker import SimulatedBroker
from moldau.testing.simulation.simulation import Simulation

PARTITION = TopicPartition("orders", 0)
A_LOOK = 0.001


def test_a_pause_that_ends_while_the_consumer_looks_what_to_do_is_not_slept_over() -> None:
    """Whenever it ends: before, between or after two looks at the clock."""
    with Simulation(1) as simulation:
        broker = SimulatedBroker(simulation)
        node = simulation.node("client")

        async def read(client: dict[str, Any]) -> None:
            async with AsyncAdmin(**client) as admin:
                (created,) = await admin.create_topics([NewTopic("orders", 1)])
                created.get()
            async with AsyncProducer(**client) as producer:
                await (await producer.send("orders", b"first"))
            async with AsyncConsumer(**client) as consumer:
                consumer.assign([PARTITION])
                consumer.seek(PARTITION, 0)
                assert (await consumer.poll(60.0)).count == 1
                simulation.loop.look_takes = A_LOOK
                for tenths in range(100):
                    consumer.seek(PARTITION, 0)
                    state = consumer._core.subscription.state(PARTITION)
                    state.retry_later(simulation.time + tenths * A_LOOK / 10)
                    records = await consumer.poll(60.0)
                    assert records.count == 1, f"not after a pause of {tenths * A_LOOK / 10} s"
                simulation.loop.look_takes = 0.0

        async def story() -> None:
            await broker.start()
            client = {"machine": node.boot(), "bootstrap_servers": broker.bootstrap_servers}
            await node.run(read(client))

        simulation.run(story())
