"""One move from its first slice to the moment the copy takes the original's place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from moldau.log.errors import StorageError
from moldau.log.files.names import partition_dir_name
from moldau.log.moving.move import Move
from moldau.log.moving.pace import Pace
from moldau.log.moving.replaced import ReplacedLogs
from moldau.log.upkeep.flush_scheduler import FlushScheduler
from moldau.machine import Machine

_log = logging.getLogger(__name__)

_RETRY_S: Final = 5.0
_LAST_SLICES: Final = 4
_LAST_SLICE_BYTES: Final = 262_144
"""What may be copied on the event loop at the very end: about a millisecond's work each."""


class Mover:
    def __init__(
        self,
        machine: Machine,
        flushes: FlushScheduler,
        pace: Pace,
        replaced: ReplacedLogs,
        take_over: Callable[[Move], None],
    ) -> None:
        self._disk = machine.disk
        self._clock = machine.clock
        self._run_in_thread = machine.threads.run
        self._flushes = flushes
        self._pace = pace
        self._replaced = replaced
        self._take_over = take_over

    async def run(self, move: Move) -> bool:
        """Returns whether the copy is in its place; False if the move was cancelled.

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

    async def _switch(self, move: Move) -> bool:
        """Flush the copy as far as the original is, then let it take over."""
        log, future = move.log, move.future
        await self._flushes.flush_all(future)  # most of it, in its own time
        self._flushes.hold(log)
        try:
            await self._replaced.note(move.topic_partition, move.directory.path, move.home.path)
            while not move.over:
                await self._flushes.wait(log)
                await self._copy(move, paced=False)
                await self._flushes.flush_all(future)
                if self._flushes.is_busy(log) or not self._copy_rest(move):
                    await asyncio.sleep(0)
                    continue
                self._give_name(move)
                self._take_over(move)
                return True
            return False
        finally:
            self._flushes.release(log)

    def _copy_rest(self, move: Move) -> bool:
        """Copy what came during the last flush, here on the loop; returns whether that is all, and
        the move still wanted.
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
            raise future.health.storage_error("rename", error) from error
        future.moved(target)
        future.durability.created(directory.path)
        future.take_over_state(move.log)
