"""One move from its first slice to the moment the copy takes the original's place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from moldau.log.directory.log_directory import LogDirectory
from moldau.log.errors import StorageError
from moldau.log.files.names import partition_dir_name
from moldau.log.manager.flusher import Flusher
from moldau.log.moving.copying import copy_slice
from moldau.log.moving.pace import Pace
from moldau.log.moving.replaced import ReplacedLogs
from moldau.log.partition.log import PartitionLog
from moldau.machine import RunInThread
from moldau.machine.clock import Clock
from moldau.machine.disk import Disk
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)

_RETRY_S: Final = 5.0
_LAST_SLICES: Final = 4
_LAST_SLICE_BYTES: Final = 262_144
"""What may be copied on the event loop at the very end: about a millisecond's work each."""


class Move:
    """One replica on its way to another directory."""

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
        """Until the time is over, or the move is."""
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
        """The next step, to be run in a thread; it answers how many bytes it copied.

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
        found = log.read(start, size, log.log_end_offset)
        if found is None:
            return None
        new_segment = found.file.path != self._segment
        self._segment = found.file.path
        return partial(copy_slice, found, future, now_ms, new_segment=new_segment)


def _truncate(future: PartitionLog, offset: int, now_ms: int) -> int:
    future.truncate_to(offset, now_ms)
    return 0


def _start_again(future: PartitionLog, offset: int, now_ms: int) -> int:
    future.truncate_fully_and_start_at(offset, now_ms)
    return 0


class Mover:
    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        run_in_thread: RunInThread,
        flusher: Flusher,
        pace: Pace,
        replaced: ReplacedLogs,
        take_over: Callable[[Move], None],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._flusher = flusher
        self._pace = pace
        self._replaced = replaced
        self._take_over = take_over

    async def run(self, move: Move) -> bool:
        """Whether the copy is in its place; False if the move was cancelled.

        Waits for room where the disk is full. Raises KafkaError or OSError if it cannot go on.
        """
        move.begun = True
        while not move.over:
            try:
                await self._copy(move)
                if await self._switch(move):
                    return True
            except StorageError as error:
                if move.log.failure is not None or move.future.failure is not None:
                    raise
                _log.warning("moving %s waits: %s", move.topic_partition, error.message)
                await move.sleep(self._clock, _RETRY_S)
        return False

    async def _copy(self, move: Move, *, paced: bool = True) -> None:
        """Until all is copied, but for what came while the last slice was: under load there is
        always something.
        """
        while not move.over:
            if paced and (wait := self._pace.wait_s()) > 0:
                await move.sleep(self._clock, wait)
                continue
            end = move.log.log_end_offset
            job = move.next_job(self._pace.slice_bytes, self._clock.now_ms())
            if job is None:
                return
            self._pace.spend(await self._run_in_thread(job))
            if move.future.log_end_offset >= end:
                return

    async def _flush(self, future: PartitionLog) -> None:
        job = future.prepare_flush()
        if job is None:
            return
        try:
            await self._run_in_thread(job.run)
        except OSError as error:
            raise future.flush_failed(job, error) from error
        future.complete_flush(job, self._clock.now_ms())

    async def _switch(self, move: Move) -> bool:
        """Flush the copy as far as the original is, then let it take over."""
        log, future = move.log, move.future
        await self._flush(future)  # most of it, in its own time
        self._flusher.hold(log)
        try:
            await self._replaced.note(move.topic_partition, move.directory.path, move.home.path)
            while not move.over:
                await self._flusher.wait(log)
                await self._copy(move, paced=False)
                await self._flush(future)
                if self._flusher.is_busy(log) or not self._copy_rest(move):
                    await asyncio.sleep(0)
                    continue
                self._give_name(move)
                self._take_over(move)
                return True
            return False
        finally:
            self._flusher.release(log)

    def _copy_rest(self, move: Move) -> bool:
        """Copy what came during the last flush, here on the loop; whether that is all, and the
        move still wanted.
        """
        for _ in range(_LAST_SLICES):
            job = move.next_job(_LAST_SLICE_BYTES, self._clock.now_ms())
            if job is None:
                return move.is_caught_up and not move.over
            job()
        return False

    def _give_name(self, move: Move) -> None:
        future, directory = move.future, move.directory
        target = f"{directory.path}/{partition_dir_name(move.topic_partition)}"
        try:
            self._disk.rename(future.directory, target)
        except OSError as error:
            raise future.cannot_take_over(error) from error
        future.moved(target)
        future.created(directory.path)
        future.take_over_state(move.log)
