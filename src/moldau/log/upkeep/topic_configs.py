"""Copies of the topics' settings beside their partitions (``topic.config``), kept up to date.

A change is in the store before it is here, and here before it is acknowledged: so a copy that is
newer than the store tells that the store has lost something. A copy that cannot be written goes,
because an old one would tell the same; it is written as soon as that is possible.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from moldau.log.errors import CorruptCheckpointError
from moldau.log.files.names import TOPIC_CONFIG
from moldau.log.files.topic_config import (
    StoredTopicConfig,
    encode_topic_config,
    read_topic_config,
)
from moldau.log.partition.log import PartitionLog
from moldau.machine import RunInThread
from moldau.machine.disk import Disk
from moldau.machine.errors import is_full, is_passing
from moldau.model import NO_TOPIC_ID, TopicPartition

_log = logging.getLogger(__name__)


class TopicSettings(NamedTuple):
    """What the controller says of a topic."""

    version: int
    config: dict[str, str]
    is_new: bool = False
    """Of a topic that is being created. Its copy is not synced, as little as its directories are:
    a power cut alone takes no settings, they are in the store."""


class TopicConfigCopies:
    def __init__(
        self,
        disk: Disk,
        run_in_thread: RunInThread,
        logs: Mapping[TopicPartition, PartitionLog],
        fail_directory: Callable[[str, str], None],
    ) -> None:
        self._disk = disk
        self._run_in_thread = run_in_thread
        self._logs = logs
        self._fail_directory = fail_directory
        self._settings: dict[str, TopicSettings] = {}
        self._written: dict[str, StoredTopicConfig] = {}
        """What is in which directory."""
        self._due: set[str] = set()
        """Topics of which a copy could not be written."""
        self._writing = asyncio.Lock()

    async def read(self) -> dict[str, StoredTopicConfig]:
        """Returns the newest copy of each topic, as the start finds them."""
        homes = self._homes(None)
        self._written = await self._run_in_thread(self._read, list(homes))
        newest: dict[str, StoredTopicConfig] = {}
        for directory, stored in self._written.items():
            topic = homes[directory].topic_partition.topic
            if topic not in newest or newest[topic].version < stored.version:
                newest[topic] = stored
        return newest

    def _read(self, directories: Iterable[str]) -> dict[str, StoredTopicConfig]:
        found: dict[str, StoredTopicConfig] = {}
        for directory in directories:
            try:
                found[directory] = read_topic_config(self._disk, directory)
            except FileNotFoundError:
                continue
            except CorruptCheckpointError as error:
                _log.warning("ignored: %s", error)
            except OSError as error:
                _log.warning("%s/%s cannot be read: %s", directory, TOPIC_CONFIG, error)
        return found

    async def keep(self, settings: Mapping[str, TopicSettings]) -> None:
        """Return when the copies of these topics say this, or are gone."""
        self._settings.update(settings)
        await self._write(settings.keys())

    def forget(self, log: PartitionLog) -> None:
        """The log's topic is being deleted."""
        topic = log.topic_partition.topic
        self._settings.pop(topic, None)
        self._due.discard(topic)
        self._written.pop(log.directory, None)

    async def write_due(self) -> None:
        """Write what could not be written."""
        if self._due:
            await self._write(self._due)

    async def partition_moved(self, topic: str) -> None:
        """Other directories may have the topic's lowest partition now."""
        served = {log.directory for log in self._logs.values()}
        # What it left behind is on its way out, and it may come back to an empty directory.
        self._written = {home: kept for home, kept in self._written.items() if home in served}
        await self._write({topic})

    async def _write(self, topics: Iterable[str]) -> None:
        async with self._writing:
            wanted = {topic for topic in topics if topic in self._settings}
            work: dict[str, tuple[StoredTopicConfig, bool]] = {}
            for directory, log in self._homes(wanted).items():
                settings = self._settings[log.topic_partition.topic]
                stored = StoredTopicConfig(log.topic_id, settings.version, settings.config)
                if log.topic_id != NO_TOPIC_ID and self._written.get(directory) != stored:
                    work[directory] = stored, settings.is_new
            self._due -= wanted
            if not work:
                return
            failed = await self._run_in_thread(self._write_files, work)
            for directory, (stored, _) in work.items():
                if directory in failed:
                    self._written.pop(directory, None)
                else:
                    self._written[directory] = stored
            for directory, error in failed.items():
                if not isinstance(error, FileNotFoundError):
                    self._refused(directory, error)

    def _write_files(
        self, work: Mapping[str, tuple[StoredTopicConfig, bool]]
    ) -> dict[str, OSError]:
        failed: dict[str, OSError] = {}
        for directory, (stored, is_new) in work.items():
            path = f"{directory}/{TOPIC_CONFIG}"
            write = self._disk.write if is_new else self._disk.write_atomic
            try:
                write(path, encode_topic_config(stored))
            except FileNotFoundError as error:  # the partition is gone or has moved meanwhile
                failed[directory] = error
            except OSError as error:
                failed[directory] = error
                try:
                    self._disk.remove(path)
                except OSError as second:
                    failed[directory] = second
        return failed

    def _refused(self, directory: str, error: OSError) -> None:
        home, _, name = directory.rpartition("/")
        if is_full(error) or is_passing(error):
            _log.warning("%s/%s cannot be written for now: %s", directory, TOPIC_CONFIG, error)
            self._due.add(name.rpartition("-")[0])
        else:
            self._fail_directory(home, f"cannot write {directory}/{TOPIC_CONFIG}: {error}")

    def _homes(self, topics: set[str] | None) -> dict[str, PartitionLog]:
        """Returns the logs of the lowest partitions of these topics (all, if None) in every log
        directory, by their own directories.
        """
        lowest: dict[tuple[str, str], PartitionLog] = {}
        for (topic, number), log in self._logs.items():
            if topics is not None and topic not in topics:
                continue
            key = log.directory.rpartition("/")[0], topic
            known = lowest.get(key)
            if known is None or number < known.topic_partition.partition:
                lowest[key] = log
        return {log.directory: log for log in lowest.values()}
