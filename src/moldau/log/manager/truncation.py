"""Truncating a log of a running broker: durable before anything is appended again."""

from __future__ import annotations

from collections.abc import Callable

from moldau.log.cleaner.log_cleaner import LogCleaner
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
        """``is_wanted`` is asked at the last moment: the cleaner may take a while to stop."""
        async with self._cleaner.paused(log):
            log = log.current
            if not is_wanted():
                return False
            start = log.log_start_offset
            truncated = log.truncate_to(offset, self._clock.now_ms())
            if truncated:
                await self._make_durable(log, start_moved=log.log_start_offset != start)
        return truncated

    async def fully(
        self, log: PartitionLog, offset: int, is_wanted: Callable[[], bool] = _always
    ) -> bool:
        async with self._cleaner.paused(log):
            log = log.current
            if not is_wanted():
                return False
            log.truncate_fully_and_start_at(offset, self._clock.now_ms())
            await self._make_durable(log, start_moved=True)
        return True

    async def _make_durable(self, log: PartitionLog, *, start_moved: bool) -> None:
        self._moves.truncated(log)
        await self._flushes.flush_all(log)
        written = await self._checkpointer.write_recovery_points()
        if start_moved:
            # A start beyond the end would be taken for a log whose files were lost.
            written &= await self._checkpointer.write_log_start_offsets()
        if not written:
            log.current.health.fail("where it ends now could not be written down")
