"""The broker's log directories: what lives where, and where the next partition goes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from moldau.log.directory.log_directory import LogDirectory
from moldau.log.errors import StorageError
from moldau.log.partition.log import PartitionLog
from moldau.machine.disk import Disk, DiskUsage
from moldau.model import TopicPartition

_PREFERENCES_MAX: Final = 10_000
"""Anybody may ask for partitions that will never be: only so many are remembered."""


class LogDirectories:
    """By path, in the order of ``log.dirs``."""

    def __init__(self, disk: Disk, paths: Sequence[str]) -> None:
        self._disk = disk
        self._by_path = {path: LogDirectory(disk, path) for path in paths}
        self._counts = dict.fromkeys(paths, 0)
        self._free: dict[str, int] = {}
        self._homes: dict[TopicPartition, LogDirectory] = {}
        self._preferred: dict[TopicPartition, str] = {}
        self.unread: list[str] = []
        """Those that could not be read at the start: nobody knows what is in them."""

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._by_path.values())

    def __contains__(self, path: object) -> bool:
        return path in self._by_path

    def __getitem__(self, path: str) -> LogDirectory:
        return self._by_path[path]

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self._by_path.values() if directory.offline is None]

    # What lives where --------------------------------------------------------------------------

    def add(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        self._homes[topic_partition] = directory
        self._counts[directory.path] += 1

    def remove(self, topic_partition: TopicPartition) -> LogDirectory:
        directory = self._homes.pop(topic_partition)
        self._counts[directory.path] -= 1
        return directory

    def home(self, topic_partition: TopicPartition) -> LogDirectory:
        return self._homes[topic_partition]

    def reserve(self, directory: LogDirectory) -> None:
        """A partition is being made here: the next one should go elsewhere."""
        self._counts[directory.path] += 1

    def release(self, directory: LogDirectory) -> None:
        self._counts[directory.path] -= 1

    def sort(self, logs: Iterable[PartitionLog]) -> dict[str, list[PartitionLog]]:
        """The logs of each directory."""
        sorted_logs: dict[str, list[PartitionLog]] = {path: [] for path in self._by_path}
        for log in logs:
            sorted_logs[self._homes[log.topic_partition].path].append(log)
        return sorted_logs

    # Where the next one goes -------------------------------------------------------------------

    def look_for_room(self) -> None:
        """Ask the disks how much is free (blocks a little); it decides between equals."""
        if len(self._by_path) > 1:
            self._free = {path: usage.free for path, usage in self.usage().items()}

    def usage(self) -> dict[str, DiskUsage]:
        """Of those directories that can be asked (blocks a little)."""
        found = {}
        for directory in self.online:
            with suppress(OSError):
                found[directory.path] = self._disk.usage(directory.path)
        return found

    def cordon(self, paths: Collection[str]) -> None:
        """These get no new partitions from now on, all others do."""
        absolute = {str(Path(path).absolute()) for path in paths}
        for directory in self:
            directory.cordoned = directory.path in absolute

    def prefer(self, topic_partition: TopicPartition, path: str) -> None:
        """Make the partition there, should it ever be made here."""
        self._preferred.pop(topic_partition, None)
        self._preferred[topic_partition] = path
        if len(self._preferred) > _PREFERENCES_MAX:
            del self._preferred[next(iter(self._preferred))]

    def for_new(
        self,
        topic_partition: TopicPartition,
        *,
        is_new: bool,
        tried: Collection[str] = (),
    ) -> LogDirectory:
        """Where a log that is not there yet is to be made: where it was asked to go, else where
        the fewest partitions are, and among equals where most is free.

        If a directory could not be read, only a partition that ``is_new`` gets a log: others may
        have their records there.
        """
        if self.unread and not is_new:
            raise StorageError(
                f"{topic_partition} may be in a log directory that could not be read: "
                f"{', '.join(self.unread)}"
            )
        online = [one for one in self.online if one.path not in tried]
        if not online:
            raise StorageError("no log directory is left that could be used")
        # Where all are cordoned the controller places nothing here; who insists (a replica
        # assigned by hand) is served, as in Kafka.
        online = [one for one in online if not one.cordoned] or online
        preferred = self._preferred.pop(topic_partition, None)
        for directory in online:
            if directory.path == preferred:
                return directory
        return min(online, key=lambda one: (self._counts[one.path], -self._free.get(one.path, 0)))
