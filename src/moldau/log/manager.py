"""All partition logs of a broker: opened at start, created, deleted, flushed, closed.

Runs on the event loop. Whatever may block (opening, syncing, checkpoints, removing trees) is handed
to ``run_in_thread``; there is no thread and no timer per partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from moldau.clock import Clock
from moldau.config import (
    LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS,
    LOG_FLUSH_SCHEDULER_INTERVAL_MS,
    LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS,
    LOG_INITIAL_TASK_DELAY_MS,
    LOG_RETENTION_CHECK_INTERVAL_MS,
    PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS,
    PRODUCER_ID_EXPIRATION_MS,
    REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS,
    BrokerConfig,
    TopicConfig,
)
from moldau.log.background import Background, RunInThread
from moldau.log.base_log import BaseLog
from moldau.log.building import CannotCreateError, LogBuilder, WantedLog
from moldau.log.checkpointer import Checkpointer
from moldau.log.cleaner.log_cleaner import LogCleaner
from moldau.log.cleaner.runner import Runner
from moldau.log.closing import close_logs
from moldau.log.directories import LogDirectories
from moldau.log.disk import Disk
from moldau.log.errors import StorageError, is_full, is_passing
from moldau.log.flusher import Flusher
from moldau.log.loading import PARTITIONS_PER_JOB, load_partitions, open_directories
from moldau.log.log_directory import DirectoryContent, LoadResult, LogDirectory
from moldau.log.names import DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX, marked_dir_name
from moldau.log.partition_log import PartitionLog
from moldau.log.recovery import RecoveryStats
from moldau.log.retention_check import RetentionCheck
from moldau.model import NO_TOPIC_ID, TopicPartition

_log = logging.getLogger(__name__)

_FLUSH_CHECK_MS: Final = 1000


class ReplicaInfo(NamedTuple):
    topic_partition: TopicPartition
    size: int
    log_end_offset: int


class LogDirInfo(NamedTuple):
    """A log directory as DescribeLogDirs shows it."""

    path: str
    failure: str | None
    replicas: list[ReplicaInfo]


def _ignore(_: list[TopicPartition]) -> None: ...


def _do_nothing() -> None: ...


class LogManager:
    """The broker's logs, by partition."""

    def __init__(
        self,
        disk: Disk,
        log_dirs: Sequence[str],
        config: BrokerConfig,
        clock: Clock,
        run_in_thread: RunInThread,
        new_cleaner: Callable[[], Runner] | None = None,
    ) -> None:
        self._disk = disk
        self._config = config
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._directories = LogDirectories(disk, log_dirs)
        self._builder = LogBuilder(disk, clock, config[PRODUCER_ID_EXPIRATION_MS])
        self._background = Background(clock)
        self._flusher = Flusher(clock, run_in_thread, self._background)
        self._checkpointer = Checkpointer(
            self._directories, self._logs_by_directory, self.fail_dir, run_in_thread, clock.now_ms
        )
        self._retention = RetentionCheck(lambda: self.logs.values(), clock)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.cleaner = LogCleaner(
            disk,
            config,
            clock,
            run_in_thread,
            self._background,
            logs=self.logs,
            new_runner=new_cleaner,
            make_durable=self._make_durable,
            fail_directory=self.fail_dir,
        )
        """Compacts logs, if there is a ``new_cleaner`` to do the work."""
        self.offline: dict[TopicPartition, str] = {}
        """Partitions that are on disk here but cannot be used, and why."""
        self._unclean: set[str] = set()
        self.on_offline: Callable[[list[TopicPartition]], None] = _ignore
        """Called with the partitions that went offline with their directory."""
        self.on_all_offline: Callable[[], None] = _do_nothing
        """Called when no directory is left."""
        self.checkpointed_high_watermarks: dict[TopicPartition, int] = {}
        """What the high watermarks were when they were last written down."""
        self.recovery = RecoveryStats()
        """What the start had to check."""

    # Start -------------------------------------------------------------------------------------

    async def start(self, topic_config: Callable[[str], TopicConfig]) -> None:
        """Lock the directories, open every partition in them, begin the periodic work.

        A directory that fails is left out; only without any left does the start fail. One that
        another broker has locked stops the start at once (BlockingIOError).
        """
        try:
            contents = await open_directories(
                self._directories, self._run_in_thread, self._cannot_open
            )
            if not contents:
                raise StorageError("none of the log directories can be used")
            await asyncio.gather(
                *(
                    self._load(self._directories[path], content, topic_config)
                    for path, content in contents.items()
                )
            )
        except BaseException:
            self._let_go()
            raise
        self._schedule()
        await self.cleaner.start(
            {
                path: [log.topic_partition for log in logs]
                for path, logs in self._logs_by_directory().items()
                if self._directories[path].offline is None
            }
        )

    def _cannot_open(self, directory: LogDirectory, error: OSError) -> None:
        self._directories.unread.append(directory.path)
        self.fail_dir(directory.path, str(error))

    async def _load(
        self,
        directory: LogDirectory,
        content: DirectoryContent,
        topic_config: Callable[[str], TopicConfig],
    ) -> None:
        def adopt(result: LoadResult) -> None:
            self.recovery.add(result.stats)
            if result.failed:
                self.offline.update(result.failed)
                self._unclean.add(directory.path)
            for log in result.logs:
                self._adopt(log, directory)

        self.checkpointed_high_watermarks.update(content.high_watermarks)
        await load_partitions(
            directory,
            content,
            topic_config,
            self._config,
            self._clock.now_ms,
            self._run_in_thread,
            adopt,
        )
        for name in content.to_delete:
            self._background.spawn(self._remove_tree(directory, name))

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
        log.on_roll = self._rolled
        log.on_segments_removed = self._segments_removed
        log.on_disk_error = self._disk_error
        self.logs[topic_partition] = log
        self._directories.add(topic_partition, directory)

    def _schedule(self) -> None:
        config, every = self._config, self._background.every
        flush_check_ms = min(config[LOG_FLUSH_SCHEDULER_INTERVAL_MS], _FLUSH_CHECK_MS)
        every(flush_check_ms / 1000, self._flush_due_logs)
        every(
            config[LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS] / 1000,
            self._checkpointer.recovery_points,
        )
        every(
            config[LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS] / 1000,
            self._checkpointer.log_start_offsets,
        )
        every(
            config[REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS] / 1000,
            self._checkpointer.write_high_watermarks,
        )
        every(config[PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS] / 1000, self._expire_producers)
        every(
            config[LOG_RETENTION_CHECK_INTERVAL_MS] / 1000,
            self._retention.run,
            first=config[LOG_INITIAL_TASK_DELAY_MS] / 1000,
        )

    def reconfigure(self, config: BrokerConfig) -> None:
        """The broker's settings changed at run time."""
        self._config = config
        self._builder.producer_expiration_ms = config[PRODUCER_ID_EXPIRATION_MS]
        self.cleaner.config = config

    # Partitions --------------------------------------------------------------------------------

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self.logs.get(topic_partition)

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
        elif not is_passing(cause):
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
        self.cleaner.forget(log.topic_partition, directory.path)
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

    # Durability --------------------------------------------------------------------------------

    async def flush(self, log: PartitionLog) -> None:
        """Return once everything appended so far is durable, else raise KAFKA_STORAGE_ERROR."""
        await self._flusher.flush(log)

    async def _make_durable(self, log: PartitionLog, offset: int) -> None:
        """Return once it is written down that everything before ``offset`` is durable."""
        await self._flusher.flush(log, offset)
        await self._checkpointer.recovery_points()

    def _rolled(self, log: BaseLog) -> None:
        assert isinstance(log, PartitionLog)
        self._flusher.request(log, log.segments[-1].base_offset)

    async def _flush_due_logs(self) -> None:
        now_ms = self._clock.now_ms()
        for log in self.logs.values():
            if (
                now_ms - log.last_flush_ms >= log.config.flush_ms
                and log.log_end_offset > log.recovery_point
                and log.failure is None
            ):
                self._flusher.request(log, log.log_end_offset)

    async def _expire_producers(self) -> None:
        oldest_ms = self._clock.now_ms() - self._config[PRODUCER_ID_EXPIRATION_MS]
        for log in self.logs.values():
            log.expire_producers(oldest_ms)

    async def truncate_to(self, log: PartitionLog, offset: int) -> bool:
        """Truncate, durably, and write down the lower recovery point.

        Nothing may be appended to the log meanwhile: after a crash recovery would take the new
        bytes, which lie below the old recovery point, for synced ones.
        """
        async with self.cleaner.paused(log):
            truncated = log.truncate_to(offset, self._clock.now_ms())
            if truncated:
                await self._flusher.flush_truncation(log)
                if not await self._checkpointer.write_recovery_points():
                    log.fail("its lower recovery point could not be written down")
        return truncated

    async def truncate_fully_and_start_at(self, log: PartitionLog, offset: int) -> None:
        async with self.cleaner.paused(log):
            log.truncate_fully_and_start_at(offset, self._clock.now_ms())
            await self._checkpointer.recovery_points()
            await self._checkpointer.log_start_offsets()

    def use_high_watermarks(
        self,
        high_watermarks: Callable[[], Mapping[TopicPartition, int]],
        high_watermark: Callable[[TopicPartition], int | None],
    ) -> None:
        """Where to ask for all high watermarks, which are checkpointed, and for that of one
        partition, beyond which nothing is deleted.
        """
        self._checkpointer.high_watermarks = high_watermarks
        self._retention.high_watermark = high_watermark
        self.cleaner.high_watermark = high_watermark

    async def checkpoint_log_start_offsets(self) -> None:
        """Return once it is written down where each log starts now; a log whose directory refuses
        is offline then.
        """
        await self._checkpointer.log_start_offsets()

    async def checkpoint(self) -> None:
        """Write all checkpoints now."""
        await self._checkpointer.recovery_points()
        await self._checkpointer.log_start_offsets()
        await self._checkpointer.write_high_watermarks()

    def _logs_by_directory(self) -> dict[str, list[PartitionLog]]:
        return self._directories.sort(self.logs.values())

    # Failure -----------------------------------------------------------------------------------

    @property
    def online_dirs(self) -> list[str]:
        return [directory.path for directory in self._directories.online]

    def fail_dir(self, path: str, reason: str) -> None:
        """Stop using a directory: its partitions go offline, the others are not touched."""
        directory = self._directories[path]
        if directory.offline is not None:
            return
        directory.offline = reason
        _log.error("log directory %s is offline: %s", path, reason)
        failed = self._logs_by_directory()[path]
        for log in failed:
            log.fail(f"log directory {path}: {reason}")
            self._forget(log)
            self.offline[log.topic_partition] = reason
            log.close()
        if failed:
            self.on_offline([log.topic_partition for log in failed])
        if not self._directories.online:
            _log.critical("all log directories have failed")
            self.on_all_offline()

    def _disk_error(self, log: BaseLog, doing: str, error: OSError) -> None:
        """A full disk is waited for; any other error is taken for the end of the directory."""
        if self.logs.get(log.topic_partition) is not log:
            return
        directory = self._directories.home(log.topic_partition)
        what = f"{doing} of {log.topic_partition}: {error}"
        if is_full(error):
            directory.tell_full(what, self._clock.now_ms())
        else:
            self.fail_dir(directory.path, what)

    def describe_dirs(self) -> list[LogDirInfo]:
        logs = self._logs_by_directory()
        return [
            LogDirInfo(
                directory.path,
                directory.offline,
                [
                    ReplicaInfo(log.topic_partition, log.size, log.log_end_offset)
                    for log in logs[directory.path]
                ],
            )
            for directory in self._directories
        ]

    # End ---------------------------------------------------------------------------------------

    async def shutdown(self, broker_epoch: int = -1) -> None:
        """Flush and close everything; directories without a failure get the clean marker.

        A partition that could not be opened keeps its directory unclean, so that it is checked
        at the next start.
        """
        await self.cleaner.close()
        await self._background.close()
        by_directory = self._logs_by_directory()
        try:
            for path, logs in by_directory.items():
                directory = self._directories[path]
                clean = await close_logs(
                    logs, directory, self._disk, self._clock, self._run_in_thread
                )
                await self.checkpoint()
                if clean and directory.offline is None and path not in self._unclean:
                    await self._run_in_thread(directory.write_clean_marker, broker_epoch)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Close all files and release the directories, whatever state they are in."""
        for log in self.logs.values():
            log.close()
        for directory in self._directories:
            directory.release()
