"""Writing down, per log directory, how far logs are durable, where they start, what is committed.

Each file is replaced only when something in it changed, and by one writer at a time: an older state
can never replace a newer one, and those who wait for each other share a write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from moldau.log.directory.log_directory import LogDirectory
from moldau.log.files.names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from moldau.log.partition.log import PartitionLog
from moldau.machine import RunInThread
from moldau.machine.clock import Clock
from moldau.machine.errors import is_full, is_passing
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)

Offsets: TypeAlias = Mapping[TopicPartition, int]


class Checkpointer:
    def __init__(
        self,
        directories: Iterable[LogDirectory],
        logs_by_directory: Callable[[], Mapping[str, list[PartitionLog]]],
        fail_directory: Callable[[str, str], None],
        run_in_thread: RunInThread,
        clock: Clock,
    ) -> None:
        self._directories = tuple(directories)
        self._logs_by_directory = logs_by_directory
        self._fail_directory = fail_directory
        self._run_in_thread = run_in_thread
        self._clock = clock
        self._written: dict[tuple[str, str], Offsets] = {}
        self._writing = asyncio.Lock()
        self.high_watermarks: Callable[[], Offsets] | None = None
        """Where the high watermarks come from; replication sets it."""

    def found(
        self, directory: LogDirectory, recovery_points: Mapping[TopicPartition, int | None] | None
    ) -> None:
        """What the start has read need not be written again; None: it was not there."""
        if recovery_points is not None:
            self._written[directory.path, RECOVERY_POINT_CHECKPOINT] = {
                partition: point
                for partition, point in recovery_points.items()
                if point is not None
            }

    async def write_all(self) -> None:
        await self.write_recovery_points()
        await self.write_log_start_offsets()
        await self.write_high_watermarks()

    async def write_recovery_points(self) -> bool:
        """Returns whether they are all on disk now."""
        return await self._write(
            RECOVERY_POINT_CHECKPOINT,
            lambda directory, logs: {
                **directory.unopened,
                **{log.topic_partition: log.recovery_point for log in logs},
            },
        )

    async def write_log_start_offsets(self) -> bool:
        """Only those that cannot be told from the first segment's name. Returns whether they are
        all on disk now.
        """
        return await self._write(
            LOG_START_OFFSET_CHECKPOINT,
            lambda _, logs: {
                log.topic_partition: log.log_start_offset
                for log in logs
                if log.log_start_offset > log.segments[0].base_offset
            },
        )

    async def write_high_watermarks(self) -> None:
        if self.high_watermarks is None:
            return
        known = self.high_watermarks()
        await self._write(
            HIGH_WATERMARK_CHECKPOINT,
            lambda _, logs: {
                log.topic_partition: known[log.topic_partition]
                for log in logs
                if log.topic_partition in known
            },
        )

    async def _write(
        self, name: str, offsets_of: Callable[[LogDirectory, list[PartitionLog]], Offsets]
    ) -> bool:
        """Returns whether all could be written. A full disk, or a process without descriptors, has
        to wait: what is older stays true.
        """
        complete = True
        async with self._writing:
            logs = self._logs_by_directory()
            for directory in self._directories:
                if not directory.is_online:
                    continue
                offsets = offsets_of(directory, logs[directory.path])
                if self._written.get((directory.path, name)) == offsets:
                    continue
                try:
                    await self._run_in_thread(directory.write_checkpoint, name, offsets)
                except OSError as error:
                    complete = False
                    problem = f"cannot write {name}: {error}"
                    if is_full(error):
                        directory.tell_full(problem, self._clock.now_ms())
                    elif is_passing(error):
                        _log.warning("%s: %s for now", directory.path, problem)
                    else:
                        self._fail_directory(directory.path, problem)
                else:
                    self._written[directory.path, name] = offsets
        return complete
