"""Truncating a log of a running broker: durable before anything is appended again."""

from __future__ import annotations

from moldau.log.cleaner.log_cleaner import LogCleaner
from moldau.log.moving.moves import ReplicaMoves
from moldau.log.partition.log import PartitionLog
from moldau.log.upkeep.checkpointer import Checkpointer
from moldau.log.upkeep.flush_scheduler import FlushScheduler
from moldau.machine import Clock


class DurableTruncation:
    """Nothing may be appended to the log meanwhile: after a crash recovery would take the new
    bytes, which lie below the old recovery point, for synced ones.
    """

    def __init__(
        self,
        clock: Clock,
        cleaner: LogCleaner,
        moves: ReplicaMoves,
        flushes: FlushScheduler,
        checkpointer: Checkpointer,
    ) -> None:
        self._clock = clock
        self._cleaner = cleaner
        self._moves = moves
        self._flushes = flushes
        self._checkpointer = checkpointer

    async def to(self, log: PartitionLog, offset: int) -> bool:
        async with self._cleaner.paused(log):
            truncated = log.truncate_to(offset, self._clock.now_ms())
            if truncated:
                self._moves.truncated(log)
                await self._flushes.flush_all(log)
                if not await self._checkpointer.write_recovery_points():
                    log.health.fail("its lower recovery point could not be written down")
        return truncated

    async def fully(self, log: PartitionLog, offset: int) -> None:
        async with self._cleaner.paused(log):
            log.truncate_fully_and_start_at(offset, self._clock.now_ms())
            self._moves.truncated(log)
            await self._checkpointer.write_recovery_points()
            await self._checkpointer.write_log_start_offsets()
