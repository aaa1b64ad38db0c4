"""When which log is flushed: without blocking the loop, and never twice at once for the same log.

Callers that ask while a flush is running share the next one, so that ``flush.messages=1`` costs one
sync per round trip to the disk and not one per request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from moldau.log.errors import StorageError
from moldau.log.partition.log import PartitionLog
from moldau.log.upkeep.background import Background
from moldau.machine import RunInThread
from moldau.machine.clock import Clock
from moldau.model import TopicPartition


class FlushScheduler:
    def __init__(
        self,
        clock: Clock,
        run_in_thread: RunInThread,
        background: Background,
        logs: Mapping[TopicPartition, PartitionLog],
    ) -> None:
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._background = background
        self._logs = logs
        self._running: dict[PartitionLog, asyncio.Future[None]] = {}
        self._requested: dict[PartitionLog, int] = {}
        self._held: dict[PartitionLog, asyncio.Future[None]] = {}
        self._draining = False

    async def flush(self, log: PartitionLog, offset: int | None = None) -> None:
        """Return once everything up to ``offset`` (by default all there is now) is durable.

        Raises KAFKA_STORAGE_ERROR if the disk refuses; the log is offline then.
        """
        target = log.log_end_offset if offset is None else offset
        while True:
            busy = self._running.get(log) or self._held.get(log)
            if log.replaced_by is not None:
                log = log.replaced_by
            elif busy is not None:
                await asyncio.shield(busy)
            else:
                log.health.check()
                if log.recovery_point >= min(target, log.log_end_offset):
                    return
                await self._run(log, offset)

    async def _run(self, log: PartitionLog, offset: int | None) -> None:
        job = log.durability.prepare_flush(offset)
        if job is None:
            return
        done = asyncio.get_running_loop().create_future()
        self._running[log] = done
        try:
            await self._run_in_thread(job.run)
        except OSError as error:
            raise log.durability.flush_failed(job, error) from error
        else:
            log.durability.complete_flush(job, self._clock.now_ms())
        finally:
            del self._running[log]
            done.set_result(None)

    def is_busy(self, log: PartitionLog) -> bool:
        return log in self._running

    async def wait(self, log: PartitionLog) -> None:
        """Return when no flush of the log is running."""
        while (running := self._running.get(log)) is not None:
            await asyncio.shield(running)

    def hold(self, log: PartitionLog) -> None:
        """Begin no flush of the log: another one is about to take its place."""
        self._held[log] = asyncio.get_running_loop().create_future()

    def release(self, log: PartitionLog) -> None:
        self._held.pop(log).set_result(None)

    async def flush_all(self, log: PartitionLog) -> None:
        """Make everything durable, a truncation too, after whatever flush may be running."""
        await self.wait(log)
        await self._run(log, None)

    # In the background -------------------------------------------------------------------------

    async def request_due(self) -> None:
        """Request a flush of every log whose ``flush.ms`` has passed since the last one, or that a
        full disk has kept from the one that ``flush.messages`` asked for.
        """
        now_ms = self._clock.now_ms()
        for log in self._logs.values():
            # A clock that was set back must not put flushes off.
            is_old = not 0 <= now_ms - log.durability.last_flush_ms < log.config.flush_ms
            unsynced = log.log_end_offset - log.recovery_point
            if (
                unsynced > 0
                and (is_old or unsynced >= log.config.flush_messages)
                and log.failure is None
            ):
                self.request(log, log.log_end_offset)

    def request(self, log: PartitionLog, offset: int) -> None:
        """Flush up to ``offset`` soon, one log after the other."""
        self._requested[log] = offset
        if not self._draining:
            self._draining = True
            self._background.spawn(self._drain())

    async def _drain(self) -> None:
        try:
            while self._requested:
                log = next(iter(self._requested))
                offset = self._requested.pop(log)
                if log.failure is None:
                    try:
                        await self.flush(log, offset)
                    except StorageError:
                        continue  # logged where it happened
        finally:
            self._draining = False

    def forget(self, log: PartitionLog) -> None:
        """The log is served no more."""
        self._requested.pop(log, None)
