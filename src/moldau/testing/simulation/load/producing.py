"""Producers, idempotent and plain."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from moldau.client.producer import AsyncProducer
from moldau.client.producer.batch import Delivery
from moldau.errors import KafkaError
from moldau.machine import Machine
from moldau.model import TopicPartition
from moldau.testing.simulation.checker.history import Fate, RecordId, Send
from moldau.testing.simulation.load.actor import Actor
from moldau.testing.simulation.load.values import encode


class ProducingActor(Actor):
    """Sends records to partitions of its choice until it is told to stop."""

    def __init__(
        self, *args: Any, partitions: Sequence[TopicPartition], rate: float, **settings: Any
    ) -> None:
        super().__init__(*args)
        self._partitions = partitions
        self._pause = 2 / rate
        self._settings = settings
        self._number = 0

    async def run(self, machine: Machine) -> None:
        settings = {**self.common, "delivery_timeout_ms": 20_000, "max_block_ms": 10_000}
        async with AsyncProducer(machine=machine, **settings, **self._settings) as producer:
            while not self.stopping:
                for _ in range(self.random.randrange(1, 6)):
                    await self._send(producer)
                await asyncio.sleep(self.random.random() * self._pause)

    async def _send(self, producer: AsyncProducer) -> None:
        settings = self._settings
        self._number += 1
        record = RecordId(f"{self.name}.{self.lives}", self._number)
        partition = self.random.choice(self._partitions)
        key = f"key-{self.random.randrange(20)}".encode()
        idempotent = bool(settings["enable_idempotence"])
        send = Send(
            record,
            partition,
            self.history.now(),
            acks=settings["acks"],
            idempotent=idempotent,
            ordered=idempotent or settings["max_in_flight_requests_per_connection"] == 1,
            key=key,
        )
        self.history.sends[record] = send
        value = encode(record, partition, self.random.randrange(200))
        try:
            await producer.send(
                partition.topic,
                value,
                key=key,
                partition=partition.partition,
                on_delivery=partial(self._settled, send),
            )
        except KafkaError:
            send.settled_at = self.history.now()

    def _settled(self, send: Send, delivery: Delivery) -> None:
        # An error says that the producer has given up, not that the record is not stored.
        send.settled_at = self.history.now()
        if delivery.exception() is None:
            send.fate = Fate.DONE
            send.heard_at = self.heard_at
            send.offset = delivery.result().offset
