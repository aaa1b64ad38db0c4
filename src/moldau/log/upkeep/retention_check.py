"""The periodic look at all logs for segments that retention lets go.

It runs on the event loop, between requests: a few logs per turn, a few segments per turn of each,
so that neither ten thousand partitions nor a setting that frees ten thousand segments holds
anybody up. Files are only renamed here; their removal comes later, in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from moldau.errors import KafkaError
from moldau.log.partition.log import PartitionLog
from moldau.machine.clock import Clock
from moldau.machine.clock_watch import ClockWatch
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)

_WORK_PER_TURN: Final = 16
"""Logs looked at and segments deleted: half a millisecond if every file has to be opened."""
_SEGMENTS_PER_TURN: Final = 8
_LONG_AWAY_MS: Final = 24 * 60 * 60 * 1000
"""A broker that was down for longer, or whose clock is wrong by more, does not delete at once."""


class RetentionCheck:
    def __init__(self, logs: Mapping[TopicPartition, PartitionLog], clock: Clock) -> None:
        self._logs = logs
        self._clock = clock
        self._watch = ClockWatch(clock)
        self._away_ms = 0
        self.high_watermark: Callable[[TopicPartition], int | None] = lambda _: None
        """How far a partition is committed; None if it is not served (yet). Replication sets it."""

    def begin_after(self, last_written_ms: int) -> None:
        """The broker starts, and so long ago it last wrote here; 0 if nobody knows.

        A machine whose clock is wrong when it starts does not see it jump.
        """
        if last_written_ms:
            self._away_ms = self._clock.now_ms() - last_written_ms

    async def run(self) -> None:
        """Look at every log once, unless the clock has just jumped.

        By a clock that is wrong everything may be too old. The next check goes by the new time if
        it still holds then; until there is one, somebody may put it right. A jump back may be the
        second of two, and the clock still be ahead.
        """
        away_ms, self._away_ms = self._away_ms, 0
        if away_ms >= _LONG_AWAY_MS:
            _log.warning(
                "by the clock nothing was written here for %.1f days: nothing is deleted before "
                "the next check, should the clock be wrong",
                away_ms / _LONG_AWAY_MS,
            )
            return
        jump_ms = self._watch.jump_ms()
        if jump_ms:
            _log.warning(
                "the clock jumped %s by %.0f s: nothing is deleted before the next check",
                "ahead" if jump_ms > 0 else "back",
                abs(jump_ms) / 1000,
            )
            return
        done = 0
        for log in tuple(self._logs.values()):
            deleted = _SEGMENTS_PER_TURN
            while deleted == _SEGMENTS_PER_TURN:
                deleted = self._delete_old_segments(log)
                done += 1 + deleted
                if done >= _WORK_PER_TURN:
                    done = 0
                    await asyncio.sleep(0)

    def _delete_old_segments(self, log: PartitionLog) -> int:
        high_watermark = self.high_watermark(log.topic_partition)
        if log.failure is not None or high_watermark is None:
            return 0
        try:
            return log.delete_old_segments(
                high_watermark, self._clock.now_ms(), at_most=_SEGMENTS_PER_TURN
            )
        except KafkaError as error:
            # One damaged log must not keep the others from being looked after.
            _log.error("retention of %s: %s", log.topic_partition, error)
            return 0
