"""Truncating a log of a running broker: durable before anything is appended again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from moldau.log.cleaner.log_cleaner import LogCleaner
from moldau.log.errors import StorageError
from moldau.log.moving.moves import ReplicaMoves
from moldau.log.partition.log import PartitionLog
from moldau.log.upkeep.checkpointer import Checkpointer
from moldau.log.upkeep.flush_scheduler import FlushScheduler
from moldau.machine import Clock


def _always() -> bool:
    return True


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

    async def to(
        self, log: PartitionLog, offset: int, is_wanted: Callable[[], bool] = _always
    ) -> bool:
        """``is_wanted`` is asked at the last moment: it takes a while to get there."""
        if offset >= log.log_end_offset:
            return is_wanted() and log.truncate_to(offset, self._clock.now_ms())
        async with self._prepared(log, offset) as log:
            start = log.log_start_offset
            if not is_wanted() or not log.truncate_to(offset, self._clock.now_ms()):
                return False
            await self._make_durable(log, start_moved=log.log_start_offset != start)
            return True

    async def fully(
        self, log: PartitionLog, offset: int, is_wanted: Callable[[], bool] = _always
    ) -> bool:
        async with self._prepared(log, log.segments[0].base_offset) as log:
            if not is_wanted():
                return False
            log.truncate_fully_and_start_at(offset, self._clock.now_ms())
            await self._make_durable(log, start_moved=True)
            return True

    @asynccontextmanager
    async def _prepared(self, log: PartitionLog, offset: int) -> AsyncIterator[PartitionLog]:
        """The log that has the partition's place, with nobody else at work on it, and with a
        recovery point on disk that a power cut in the middle needs.
        """
        async with self._cleaner.paused(log):
            log = log.current
            log.health.check()
            log.durability.begin_truncation(offset)
            try:
                if not await self._checkpointer.write_recovery_points():
                    raise StorageError("the recovery point could not be written down")
                if log.current is not log:
                    raise StorageError("the log has moved to another directory meanwhile")
                yield log
            finally:
                log.durability.end_truncation()

    async def _make_durable(self, log: PartitionLog, *, start_moved: bool) -> None:
        log.durability.end_truncation()
        self._moves.truncated(log)
        await self._flushes.flush_all(log)
        written = await self._checkpointer.write_recovery_points()
        if start_moved:
            # A start beyond the end would be taken for a log whose files were lost.
            written &= await self._checkpointer.write_log_start_offsets()
        if not written:
            log.current.health.fail("where it ends now could not be written down")
