"""The logs that are served, by partition: made where there are none, taken away when they go."""

from __future__ import annotations

import errno
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from uuid import UUID

from moldau.config import PRODUCER_ID_EXPIRATION_MS, BrokerConfig, TopicConfig
from moldau.log.directory.log_directory import LogDirectory
from moldau.log.directory.placement import LogDirectories
from moldau.log.errors import StorageError, is_full, is_passing
from moldau.log.files.names import DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX, marked_dir_name
from moldau.log.manager.background import Background
from moldau.log.manager.building import CannotCreateError, LogBuilder, WantedLog
from moldau.log.manager.flusher import Flusher
from moldau.log.manager.loading import PARTITIONS_PER_JOB
from moldau.log.partition.base_log import BaseLog
from moldau.log.partition.log import PartitionLog
from moldau.machine import RunInThread
from moldau.machine.clock import Clock
from moldau.machine.disk import Disk
from moldau.model import NO_TOPIC_ID, TopicPartition

_log = logging.getLogger(__name__)


class LogTable(ABC):
    """The first step to ``LogManager``, which adds start, end and what happens by itself."""

    def __init__(
        self,
        disk: Disk,
        log_dirs: Sequence[str],
        config: BrokerConfig,
        clock: Clock,
        run_in_thread: RunInThread,
    ) -> None:
        self._disk = disk
        self._config = config
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._directories = LogDirectories(disk, log_dirs)
        self._directories.cordon(config.cordoned_log_dirs)
        self._builder = LogBuilder(disk, clock, config[PRODUCER_ID_EXPIRATION_MS])
        self._background = Background(clock)
        self._flusher = Flusher(clock, run_in_thread, self._background)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.offline: dict[TopicPartition, str] = {}
        """Partitions that are on disk here but cannot be used, and why."""

    # What a manager adds -----------------------------------------------------------------------

    @abstractmethod
    def fail_dir(self, path: str, reason: str) -> None:
        """Stop using a directory."""

    @abstractmethod
    def _hook_up(self, log: PartitionLog) -> None:
        """The log is served from now on."""

    @abstractmethod
    def _unhook(self, log: PartitionLog, directory: LogDirectory) -> None:
        """The log is served no more."""

    @abstractmethod
    async def _before_creating(self, topic_partition: TopicPartition) -> None:
        """Wait until the partition's name is free."""

    # Partitions --------------------------------------------------------------------------------

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self.logs.get(topic_partition)

    def _adopt(self, log: PartitionLog, directory: LogDirectory) -> None:
        topic_partition = log.topic_partition
        other = self.logs.get(topic_partition)
        if other is not None:
            # A crash may have left an empty one where it could not be made.
            if other.log_end_offset == 0:
                self._set_aside(other, DELETE_DIR_SUFFIX)
            elif log.log_end_offset:
                raise StorageError(
                    f"{topic_partition} is both in {other.directory} and in {log.directory}; "
                    f"remove the one that is out of date"
                )
            else:
                self._rename_away(log, directory, DELETE_DIR_SUFFIX)
                return
        log.on_segments_removed = self._segments_removed
        self._hook_up(log)
        self.logs[topic_partition] = log
        self._directories.add(topic_partition, directory)

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        config: TopicConfig,
        *,
        is_new: bool = False,
    ) -> PartitionLog:
        """The log of a partition, made in the directory with the fewest if there is none.

        A log of the same name but another topic id is an older topic's: it is set aside. Raises
        KAFKA_STORAGE_ERROR if the partition's directory is offline, or all are. If a directory
        could not be read at the start, a log is made only for a partition that ``is_new``: others
        may have their records there.
        """
        log = self._existing(topic_partition, topic_id, config)
        if log is not None:
            return log
        directory = self._home_for(topic_partition, is_new=is_new)
        log = self._builder.build(WantedLog(directory, topic_partition, topic_id, config))
        self._adopt(log, directory)
        return log

    async def get_or_create_many(
        self,
        wanted: Sequence[tuple[TopicPartition, UUID, TopicConfig]],
        *,
        is_new: bool = False,
    ) -> dict[TopicPartition, PartitionLog | StorageError]:
        """As ``get_or_create`` for many at once: directories and files are made in a thread."""
        results: dict[TopicPartition, PartitionLog | StorageError] = {}
        missing: list[WantedLog] = []
        await self._run_in_thread(self._directories.look_for_room)
        for topic_partition, topic_id, config in wanted:
            try:
                log = self._existing(topic_partition, topic_id, config)
                if log is not None:
                    results[topic_partition] = log
                else:
                    directory = self._home_for(topic_partition, is_new=is_new)
                    self._directories.reserve(directory)  # so that the next one goes elsewhere
                    missing.append(WantedLog(directory, topic_partition, topic_id, config))
            except StorageError as error:
                results[topic_partition] = error
        while missing:
            chunk, missing = missing[:PARTITIONS_PER_JOB], missing[PARTITIONS_PER_JOB:]
            for one in chunk:
                await self._before_creating(one.topic_partition)
            built = await self._run_in_thread(self._builder.build_many, chunk)
            for one, log_or_error in zip(chunk, built, strict=True):
                self._directories.release(one.directory)
                result = self.logs.get(one.topic_partition, log_or_error)
                if isinstance(result, CannotCreateError):
                    again = self._elsewhere(one, result)
                    if again is not None:
                        missing.append(again)
                        continue
                elif isinstance(result, PartitionLog) and result is log_or_error:
                    self._adopt(result, one.directory)
                results[one.topic_partition] = result
        return results

    def _elsewhere(self, failed: WantedLog, error: CannotCreateError) -> WantedLog | None:
        """Where else to make a log, as Kafka does."""
        directory, cause = failed.directory, error.cause
        if is_full(cause):
            directory.tell_full(error.message, self._clock.now_ms())
        elif not is_passing(cause) and cause.errno != errno.ENAMETOOLONG:
            self.fail_dir(directory.path, error.message)
        tried = failed.tried | {directory.path}
        try:
            other = self._directories.for_new(failed.topic_partition, is_new=True, tried=tried)
        except StorageError:
            return None
        self._directories.reserve(other)
        return failed._replace(directory=other, tried=tried)

    def _existing(
        self, topic_partition: TopicPartition, topic_id: UUID, config: TopicConfig
    ) -> PartitionLog | None:
        log = self.logs.get(topic_partition)
        if log is None:
            return None
        if log.topic_id in (topic_id, NO_TOPIC_ID) or topic_id == NO_TOPIC_ID:
            log.config = config
            if log.topic_id != topic_id and topic_id != NO_TOPIC_ID:
                self._builder.write_topic_id(log, topic_id)
            return log
        _log.warning(
            "%s has topic id %s, expected %s: set aside", log.directory, log.topic_id, topic_id
        )
        self._set_aside(log, STRAY_DIR_SUFFIX)
        return None

    def _home_for(self, topic_partition: TopicPartition, *, is_new: bool) -> LogDirectory:
        """Where a log that is not there yet is to be made."""
        if topic_partition in self.offline:
            raise StorageError(f"{topic_partition} is offline: {self.offline[topic_partition]}")
        return self._directories.for_new(topic_partition, is_new=is_new)

    def delete(self, topic_partition: TopicPartition) -> None:
        """Take a partition away: renamed now, its files removed after ``file.delete.delay.ms``."""
        self.offline.pop(topic_partition, None)
        log = self.logs.get(topic_partition)
        if log is None:
            return
        delay_ms = log.config.file_delete_delay_ms
        directory = self._directories.home(topic_partition)
        name = self._set_aside(log, DELETE_DIR_SUFFIX)
        self.remove_later(directory, name, delay_ms)

    def remove_later(self, directory: LogDirectory, name: str, delay_ms: int) -> None:
        """Remove a directory that is marked for it."""
        self._background.later(delay_ms / 1000, partial(self._remove_tree, directory, name))

    def _set_aside(self, log: PartitionLog, suffix: str) -> str:
        """Rename a partition's directory; readers keep the files they have open."""
        return self._rename_away(log, self._forget(log), suffix)

    def _rename_away(self, log: PartitionLog, directory: LogDirectory, suffix: str) -> str:
        name = marked_dir_name(log.topic_partition, suffix)
        try:
            self._disk.rename(log.directory, f"{directory.path}/{name}")
        except OSError as error:
            raise StorageError(f"cannot rename {log.directory}: {error}") from error
        log.renamed(f"{directory.path}/{name}")
        log.retire()
        return name

    def _forget(self, log: PartitionLog) -> LogDirectory:
        """The log is served no more; answers where it is."""
        del self.logs[log.topic_partition]
        self._flusher.forget(log)
        directory = self._directories.remove(log.topic_partition)
        self._unhook(log, directory)
        return directory

    async def _remove_tree(self, directory: LogDirectory, name: str) -> None:
        await self._run_in_thread(directory.remove_tree, name)

    def _segments_removed(self, log: BaseLog, paths: list[str]) -> None:
        delay_ms = log.config.file_delete_delay_ms
        self._background.later(delay_ms / 1000, partial(self._remove_files, paths))

    async def _remove_files(self, paths: list[str]) -> None:
        def remove() -> None:
            for path in paths:
                self._disk.remove(path)

        try:
            await self._run_in_thread(remove)
        except OSError as error:
            _log.warning("removed segments stay on disk until the next start: %s", error)
