"""Which logs have replaced others in other directories: written down before the new one gets its
name, struck out once the old one has lost it.

A crash in between leaves both under the partition's name. This file, in the new one's directory,
says which is out of date; without it nobody could tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from moldau.log.errors import CorruptCheckpointError
from moldau.log.files.names import REPLACED_LOGS
from moldau.machine import RunInThread
from moldau.machine.disk import Disk
from moldau.model import TopicPartition

_VERSION: Final = 0


class _Entry(msgspec.Struct):
    topic: str
    partition: int
    directory: str
    """The log directory of the log that was replaced."""


class _Content(msgspec.Struct):
    version: int
    replaced: list[_Entry]


def read_replaced(disk: Disk, log_dir: str) -> dict[TopicPartition, str]:
    """Partitions whose log here replaced one, and in which directory that was."""
    path = f"{log_dir}/{REPLACED_LOGS}"
    try:
        content = msgspec.json.decode(disk.read(path), type=_Content)
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise CorruptCheckpointError(f"{path}: {error}") from None
    return {TopicPartition(one.topic, one.partition): one.directory for one in content.replaced}


def write_replaced(disk: Disk, log_dir: str, replaced: Mapping[TopicPartition, str]) -> None:
    """Durable when it returns; without entries there is no file."""
    path = f"{log_dir}/{REPLACED_LOGS}"
    if not replaced:
        disk.remove(path)
        disk.sync_dir(log_dir)
        return
    entries = [_Entry(topic, number, old) for (topic, number), old in replaced.items()]
    disk.write_atomic(path, msgspec.json.encode(_Content(_VERSION, entries)))


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
            await self._remove(log_dir, topic_partition)

    async def _remove(self, log_dir: str, topic_partition: TopicPartition) -> None:
        entries = dict(self._entries.get(log_dir, {}))
        if entries.pop(topic_partition, None) is not None:
            await self._run_in_thread(write_replaced, self._disk, log_dir, entries)
            self._entries[log_dir] = entries
