"""A listener whose handler takes its time, fails now and then, and is killed."""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.client.listener import AckMode, AsyncListener, Retries
from moldau.machine import Machine
from moldau.records.consumer_record import ConsumerRecord
from moldau.testing.simulation.load.actor import Actor
from moldau.testing.simulation.load.consuming import READER_SETTINGS


class ListeningActor(Actor):
    """Notes a record when its handler has ended: only then may its offset be committed."""

    def __init__(
        self, *args: Any, group: str, topic: str, ack_mode: AckMode, **settings: Any
    ) -> None:
        super().__init__(*args)
        self.group = group
        self._topic = topic
        self._ack_mode = ack_mode
        self._settings = settings

    async def run(self, machine: Machine) -> None:
        listener = AsyncListener(
            self._topic,
            self._handle,
            machine=machine,
            group_id=self.group,
            ack_mode=self._ack_mode,
            retries=Retries(attempts=100, backoff_ms=50),
            **self.common,
            **READER_SETTINGS,
            **self._settings,
        )
        running = asyncio.ensure_future(listener.run())
        while not self.stopping and not running.done():
            await asyncio.wait([running], timeout=0.1)
        listener.stop()
        await running

    async def _handle(self, record: ConsumerRecord) -> None:
        await asyncio.sleep(self.random.random() * 0.02)
        if self.random.random() < 0.01:
            raise ValueError("the handler does not like this record today")
        self.saw(record, f"{self.name}.{self.lives}", self.group)
