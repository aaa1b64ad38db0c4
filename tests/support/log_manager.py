"""A log manager on a disk in memory, with time that passes when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from uuid import UUID, uuid4

from tests.support.machines import loop_machine
from tests.support.partition_log import NOW_MS

from moldau.config.values.broker import BrokerConfig
from moldau.config.values.topic import TopicConfig
from moldau.log import LogManager
from moldau.machine.clock import Timer
from moldau.machine.disk import Disk
from moldau.model import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b-x", 0)
TOPIC_ID = uuid4()
CONFIG = TopicConfig(segment_bytes=1000, file_delete_delay_ms=60_000)


class ManualTimer:
    def __init__(self, at: float, callback: Callable[[], object]) -> None:
        self.at = at
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self._now = 0.0
        self._timers: list[ManualTimer] = []
        self.ahead_ms = 0
        """By how much the wall clock is wrong."""

    def now_ms(self) -> int:
        return NOW_MS + int(self._now * 1000) + self.ahead_ms

    def monotonic(self) -> float:
        return self._now

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        timer = ManualTimer(self._now + delay, callback)
        self._timers.append(timer)
        return timer

    async def advance(self, seconds: float) -> None:
        end = self._now + seconds
        while due := [t for t in self._timers if t.at <= end and not t.cancelled]:
            timer = min(due, key=lambda t: t.at)
            self._timers.remove(timer)
            self._now = max(self._now, timer.at)
            timer.callback()
            await settle()
        self._now = end


async def settle() -> None:
    """Let tasks run until they wait for something else than the loop."""
    for _ in range(30):
        await asyncio.sleep(0)


class Broker:
    def __init__(
        self,
        disk: Disk,
        dirs: tuple[str, ...] = ("/d1",),
        topic_config: TopicConfig = CONFIG,
    ) -> None:
        self.disk = disk
        self.dirs = dirs
        self.clock = ManualClock()
        self.config = BrokerConfig.load({"node.id": "1"})
        self.topic_config = topic_config

    def new_manager(self) -> LogManager:
        return LogManager(loop_machine(self.disk, self.clock), self.dirs, self.config)

    async def start(self, topic_ids: Mapping[str, UUID] | None = None) -> LogManager:
        self.manager = self.new_manager()
        await self.manager.start(lambda _: self.topic_config, topic_ids)
        return self.manager

    def create(self, topic_partition: TopicPartition, topic_id: UUID = TOPIC_ID) -> None:
        self.manager.get_or_create(topic_partition, topic_id, self.topic_config)
