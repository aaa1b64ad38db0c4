"""The producer for retry and dead-letter topics: made when the first record needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.client.closing import AsyncClosing
from moldau.client.listener.headers import Header
from moldau.client.settings import CommonSettings, ConsumerSettings
from moldau.machine import Machine

if TYPE_CHECKING:
    from moldau.client.large import LargeMessageCodec
    from moldau.client.producer import AsyncProducer


class Forwarding(AsyncClosing):
    def __init__(
        self,
        settings: ConsumerSettings,
        large_messages: LargeMessageCodec | None = None,
        machine: Machine | None = None,
    ) -> None:
        self._machine = machine
        self._settings = settings.given(CommonSettings)
        self._large_messages = large_messages
        self._producer: AsyncProducer | None = None

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header],
        timestamp: int,
    ) -> None:
        """Send, and wait until all in-sync replicas have it."""
        if self._producer is None:
            from moldau.client.producer import AsyncProducer

            self._producer = AsyncProducer(
                self._settings, large_messages=self._large_messages, machine=self._machine
            )
        stamp = None if timestamp < 0 else timestamp
        delivery = await self._producer.send(
            topic, value, key=key, headers=headers, timestamp=stamp
        )
        await delivery

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.close()
