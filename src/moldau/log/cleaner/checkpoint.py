"""How far each log was cleaned, one file per log directory: ``cleaner-offset-checkpoint``.

Kafka's file, with the first dirty offset of each compacted partition. It only spares work: without
it a log is cleaned from its start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from moldau.log.errors import CorruptCheckpointError
from moldau.log.files.checkpoints import read_offsets, write_offsets
from moldau.log.files.names import CLEANER_OFFSET_CHECKPOINT
from moldau.machine import RunInThread
from moldau.machine.disk import Disk
from moldau.machine.errors import is_full, is_passing
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)


class CleanerCheckpoints:
    """What is in the files; every change is written at once, by one writer at a time."""

    def __init__(
        self,
        disk: Disk,
        run_in_thread: RunInThread,
        fail_directory: Callable[[str, str], None],
    ) -> None:
        self._disk = disk
        self._run_in_thread = run_in_thread
        self._fail_directory = fail_directory
        self._offsets: dict[str, dict[TopicPartition, int]] = {}
        self._writing = asyncio.Lock()

    async def load(self, directory: str, partitions: Iterable[TopicPartition]) -> None:
        """Read a directory's file; partitions that are gone are forgotten."""
        path = f"{directory}/{CLEANER_OFFSET_CHECKPOINT}"
        try:
            offsets = await self._run_in_thread(read_offsets, self._disk, path)
        except CorruptCheckpointError as error:
            _log.warning("compacted logs in %s are cleaned from their start: %s", directory, error)
            offsets = {}
        known = set(partitions)
        self._offsets[directory] = {
            partition: offset for partition, offset in offsets.items() if partition in known
        }

    def get(self, directory: str, partition: TopicPartition) -> int | None:
        return self._offsets.get(directory, {}).get(partition)

    async def put(self, directory: str, partition: TopicPartition, offset: int) -> None:
        self._offsets.setdefault(directory, {})[partition] = offset
        await self._write(directory)

    async def remove(self, directory: str, partition: TopicPartition) -> None:
        if self._offsets.get(directory, {}).pop(partition, None) is not None:
            await self._write(directory)

    async def truncate(self, directory: str, partition: TopicPartition, end_offset: int) -> None:
        """The log has become shorter: what follows is dirty."""
        offset = self.get(directory, partition)
        if offset is not None and offset > end_offset:
            await self.put(directory, partition, end_offset)

    async def _write(self, directory: str) -> None:
        path = f"{directory}/{CLEANER_OFFSET_CHECKPOINT}"
        async with self._writing:
            offsets = dict(self._offsets[directory])
            try:
                await self._run_in_thread(write_offsets, self._disk, path, offsets)
            except OSError as error:
                if is_full(error) or is_passing(error):
                    # What is older stays true: some of it is cleaned once more.
                    _log.warning("cannot write %s for now: %s", path, error)
                else:
                    self._fail_directory(directory, f"cannot write {path}: {error}")
