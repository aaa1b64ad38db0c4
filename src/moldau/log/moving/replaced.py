"""Which logs have replaced others in other directories: written down before the new one gets its
name, struck out once the old one has lost it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from moldau.log.files.replaced_logs import write_replaced
from moldau.machine import RunInThread
from moldau.machine.disk import Disk
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)


class ReplacedLogs:
    """What the files of all directories say."""

    def __init__(self, disk: Disk, run_in_thread: RunInThread) -> None:
        self._disk = disk
        self._run_in_thread = run_in_thread
        self._entries: dict[str, dict[TopicPartition, str]] = {}
        self._writing = asyncio.Lock()

    def load(self, log_dir: str, replaced: Mapping[TopicPartition, str]) -> None:
        """Take over what the start could not settle, because the old directory was not there."""
        if replaced:
            self._entries[log_dir] = dict(replaced)

    async def note(self, topic_partition: TopicPartition, log_dir: str, old_dir: str) -> None:
        """The log in ``log_dir`` is about to replace that in ``old_dir``: durable, or OSError."""
        async with self._writing:
            # Nobody may claim the opposite.
            for other in [path for path in self._entries if path != log_dir]:
                await self._remove(other, topic_partition)
            entries = {**self._entries.get(log_dir, {}), topic_partition: old_dir}
            await self._run_in_thread(write_replaced, self._disk, log_dir, entries)
            self._entries[log_dir] = entries

    async def strike_out(self, topic_partition: TopicPartition, log_dir: str) -> None:
        """The old log is no more."""
        async with self._writing:
            try:
                await self._remove(log_dir, topic_partition)
            except OSError as error:
                # It does no harm where it is, and goes before anything could contradict it.
                _log.warning("%s: %s", log_dir, error)

    async def _remove(self, log_dir: str, topic_partition: TopicPartition) -> None:
        entries = dict(self._entries.get(log_dir, {}))
        if entries.pop(topic_partition, None) is not None:
            await self._run_in_thread(write_replaced, self._disk, log_dir, entries)
            self._entries[log_dir] = entries
