"""One replica on its way to another log directory: how far it is, and what comes next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from moldau.log.directory.log_directory import LogDirectory
from moldau.log.moving.copying import copy_slice
from moldau.log.partition.log import PartitionLog
from moldau.machine.clock import Clock
from moldau.model import TopicPartition


class Move:
    def __init__(
        self,
        log: PartitionLog,
        home: LogDirectory,
        directory: LogDirectory,
        future: PartitionLog,
    ) -> None:
        self.log = log
        self.home = home
        self.directory = directory
        self.future = future
        self.over = False
        """Cancelled: the copy goes away, unless it is to be kept."""
        self.keep = False
        self.begun = False
        self._cut: int | None = None
        self._segment = ""
        self._waiting: asyncio.Future[None] | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        return self.log.topic_partition

    def end(self, *, keep: bool) -> None:
        self.over = True
        self.keep = keep
        self._wake()

    def truncated(self, offset: int) -> None:
        """The original was cut at ``offset``: the copy has to be, before anything is added."""
        self._cut = offset if self._cut is None else min(self._cut, offset)

    @property
    def lag(self) -> int:
        return max(self.log.log_end_offset - self.future.log_end_offset, 0)

    @property
    def is_caught_up(self) -> bool:
        log, future = self.log, self.future
        return (
            self._cut is None
            and future.log_end_offset == log.log_end_offset
            and future.recovery_point >= log.recovery_point
        )

    async def sleep(self, clock: Clock, seconds: float) -> None:
        """Return when the time is over, or the move is."""
        if self.over:
            return
        waiting = self._waiting = asyncio.get_running_loop().create_future()
        timer = clock.call_later(seconds, self._wake)
        try:
            await waiting
        finally:
            timer.cancel()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def next_job(self, size: int, now_ms: int) -> Callable[[], int] | None:
        """Returns the next step, to be run in a thread, which returns how many bytes it copied.

        None if there is nothing to do. What it needs of the original is looked up here, on the
        event loop; raises KafkaError if that is offline.
        """
        log, future = self.log, self.future
        cut, self._cut = self._cut, None
        if cut is not None and cut < future.log_end_offset:
            return partial(_truncate, future, cut, now_ms)
        start = future.log_end_offset
        if start < log.log_start_offset or start > log.log_end_offset:
            # Retention was faster than the copy, or the original has begun anew.
            return partial(_start_again, future, log.log_start_offset, now_ms)
        batches = log.read(start, size, log.log_end_offset)
        if batches is None:
            return None
        new_segment = batches.file.path != self._segment
        self._segment = batches.file.path
        return partial(copy_slice, batches, future, now_ms, new_segment=new_segment)


def _truncate(future: PartitionLog, offset: int, now_ms: int) -> int:
    future.truncate_to(offset, now_ms)
    return 0


def _start_again(future: PartitionLog, offset: int, now_ms: int) -> int:
    future.truncate_fully_and_start_at(offset, now_ms)
    return 0
