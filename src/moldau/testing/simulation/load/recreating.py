"""A topic that is filled, deleted and made anew under its old name, again and again.

Only what was sent to the last topic of the name must be found, and nothing of those before it. So
what was sent to a topic is forgotten when the topic is to go. A name is not used again where
something may still be under way to it: a request that its client has given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from moldau.client.admin import AsyncAdmin, NewTopic
from moldau.client.producer import AsyncProducer
from moldau.client.producer.batch import Delivery
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Machine
from moldau.model import TopicPartition
from moldau.testing.simulation.checker.history import ATTEMPT, Fate, RecordId, Send
from moldau.testing.simulation.load.actor import Actor
from moldau.testing.simulation.load.values import encode

RECORDS = 5


class RecreatingActor(Actor):
    def __init__(self, *args: Any, is_known: Callable[[str], bool]) -> None:
        """``is_known`` tells whether every broker knows the present topic of a name."""
        super().__init__(*args)
        self._is_known = is_known
        self._names = 0
        self._number = 0
        self._name = ""
        self._is_clean = False
        """Whether nothing is under way that could reach the next topic of the name."""

    @property
    def partitions(self) -> list[TopicPartition]:
        """What should be there when the program has ended."""
        return [TopicPartition(self._name, 0)] if self._name else []

    async def run(self, machine: Machine) -> None:
        self._is_clean = False
        async with AsyncAdmin(machine=machine, **self.common) as admin:
            while True:
                if self._name:
                    self._forget()
                    if not await self._delete(admin):
                        self._name = ""
                if not self._name:
                    self._names += 1
                    self._name = f"again-{self._names}"
                await self._create(admin)
                await self._fill(machine)
                if self.stopping:
                    return
                await asyncio.sleep(self.random.random() * 2)

    def _forget(self) -> None:
        sends = self.history.sends
        for record in [each for each, send in sends.items() if send.partition.topic == self._name]:
            del sends[record]

    async def _delete(self, admin: AsyncAdmin) -> bool:
        """Returns whether the name may be used again."""
        began = self.history.now()
        (outcome,) = await admin.delete_topics([self._name])
        if outcome.error is not None:
            return False
        return self._is_clean and self.history.now() - began < ATTEMPT

    async def _create(self, admin: AsyncAdmin) -> None:
        """Make the topic; returns when every broker knows it."""
        began = self.history.now()
        while True:
            (outcome,) = await admin.create_topics([NewTopic(self._name, 1)])
            if outcome.error is None:
                break
            exists = outcome.error.code is ErrorCode.TOPIC_ALREADY_EXISTS
            if exists and self._is_known(self._name):
                break  # an earlier attempt has made it; else the one before is still being deleted
            await asyncio.sleep(0.5)
        self._is_clean = outcome.error is None and self.history.now() - began < ATTEMPT
        while not self._is_known(self._name):  # noqa: ASYNC110 - nobody could set an event
            await asyncio.sleep(0.1)

    async def _fill(self, machine: Machine) -> None:
        settings = {**self.common, "delivery_timeout_ms": 20_000, "max_block_ms": 10_000}
        began = self.history.now()
        partition = TopicPartition(self._name, 0)
        sends = []
        async with AsyncProducer(machine=machine, **settings, acks=-1) as producer:
            for _ in range(RECORDS):
                self._number += 1
                record = RecordId(f"{self.name}.{self.lives}", self._number)
                send = Send(record, partition, self.history.now(), -1, True, True)
                sends.append(send)
                self.history.sends[record] = send
                try:
                    await producer.send(
                        partition.topic,
                        encode(record, partition, 20),
                        partition=0,
                        on_delivery=partial(self._settled, send),
                    )
                except KafkaError:
                    send.settled_at = self.history.now()
        in_time = self.history.now() - began < ATTEMPT
        self._is_clean &= in_time and all(send.fate is Fate.DONE for send in sends)

    def _settled(self, send: Send, delivery: Delivery) -> None:
        send.settled_at = self.history.now()
        if delivery.exception() is None:
            send.fate, send.heard_at = Fate.DONE, self.heard_at
            send.offset = delivery.result().offset
