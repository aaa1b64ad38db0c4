"""Writing down, per log directory, how far logs are durable, where they start, what is committed.

Each file is replaced only when something in it changed, and by one writer at a time: an older state
can never replace a newer one, and those who wait for each other share a write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from moldau.log.directory.log_directory import LogDirectory
from moldau.log.errors import is_full
from moldau.log.partition.log import PartitionLog
from moldau.machine import RunInThread
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, int]


class Checkpointer:
    def __init__(
        self,
        directories: Iterable[LogDirectory],
        logs_by_directory: Callable[[], Mapping[str, list[PartitionLog]]],
        fail_directory: Callable[[str, str], None],
        run_in_thread: RunInThread,
        now_ms: Callable[[], int],
    ) -> None:
        self._directories = list(directories)
        self._logs_by_directory = logs_by_directory
        self._fail_directory = fail_directory
        self._run_in_thread = run_in_thread
        self._now_ms = now_ms
        self._written: dict[tuple[str, str], Offsets] = {}
        self._writing = asyncio.Lock()
        self.high_watermarks: Callable[[], Offsets] | None = None
        """Where the high watermarks come from; replication sets it."""

    async def recovery_points(self) -> None:
        await self.write_recovery_points()

    async def write_recovery_points(self) -> bool:
        """Whether they are all on disk now."""
        return await self._each(
            "recovery points",
            lambda logs: {log.topic_partition: log.recovery_point for log in logs},
            LogDirectory.write_recovery_points,
        )

    async def log_start_offsets(self) -> None:
        """Only those that cannot be told from the first segment's name."""
        await self._each(
            "log start offsets",
            lambda logs: {
                log.topic_partition: log.log_start_offset
                for log in logs
                if log.log_start_offset > log.segments[0].base_offset
            },
            LogDirectory.write_log_start_offsets,
        )

    async def write_high_watermarks(self) -> None:
        if self.high_watermarks is None:
            return
        known = self.high_watermarks()
        await self._each(
            "high watermarks",
            lambda logs: {
                log.topic_partition: known[log.topic_partition]
                for log in logs
                if log.topic_partition in known
            },
            LogDirectory.write_high_watermarks,
        )

    async def _each(
        self,
        what: str,
        offsets_of: Callable[[list[PartitionLog]], Offsets],
        write: Callable[[LogDirectory, Offsets], None],
    ) -> bool:
        """Whether all could be written. A full disk has to wait: what is older stays true."""
        complete = True
        async with self._writing:
            logs = self._logs_by_directory()
            for directory in self._directories:
                if directory.offline is not None:
                    continue
                offsets = offsets_of(logs.get(directory.path, []))
                key = (directory.path, what)
                if self._written.get(key) == offsets:
                    continue
                try:
                    await self._run_in_thread(write, directory, offsets)
                except OSError as error:
                    complete = False
                    if is_full(error):
                        directory.tell_full(f"cannot write the {what}: {error}", self._now_ms())
                    else:
                        self._fail_directory(directory.path, f"cannot write the {what}: {error}")
                else:
                    self._written[key] = offsets
        return complete
