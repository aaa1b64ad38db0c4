"""All partition logs of a broker: opened at start, created, deleted, flushed, closed.

Runs on the event loop. Whatever may block (opening, syncing, checkpoints, removing trees) is handed
to ``run_in_thread``; there is no thread and no timer per partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from moldau.config import (
    LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS,
    LOG_FLUSH_SCHEDULER_INTERVAL_MS,
    LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS,
    LOG_INITIAL_TASK_DELAY_MS,
    LOG_RETENTION_CHECK_INTERVAL_MS,
    PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS,
    PRODUCER_ID_EXPIRATION_MS,
    REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND,
    REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS,
    BrokerConfig,
    TopicConfig,
)
from moldau.log.cleaner.log_cleaner import LogCleaner
from moldau.log.cleaner.runner import Runner
from moldau.log.directory.description import LogDirInfo, ReplicaInfo
from moldau.log.directory.log_directory import DirectoryContent, LoadResult, LogDirectory
from moldau.log.errors import StorageError, is_full
from moldau.log.manager.checkpointer import Checkpointer
from moldau.log.manager.closing import close_logs
from moldau.log.manager.loading import load_partitions, open_directories
from moldau.log.manager.movable_logs import MovableLogs
from moldau.log.manager.retention_check import RetentionCheck
from moldau.log.moving.at_start import drop_replaced
from moldau.log.partition.base_log import BaseLog
from moldau.log.partition.log import PartitionLog
from moldau.log.recovery.opening import RecoveryStats
from moldau.machine import RunInThread
from moldau.machine.clock import Clock
from moldau.machine.disk import Disk, DiskUsage
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)

_FLUSH_CHECK_MS: Final = 1000


def _ignore(_: object) -> None: ...


def _do_nothing() -> None: ...


class LogManager(MovableLogs):
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
        super().__init__(disk, log_dirs, config, clock, run_in_thread)
        self._checkpointer = Checkpointer(
            self._directories, self._logs_by_directory, self.fail_dir, run_in_thread, clock.now_ms
        )
        self._retention = RetentionCheck(lambda: self.logs.values(), clock)
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
            await self._run_in_thread(drop_replaced, self._disk, contents)
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
        await self._resume_moves(contents)
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
        self._directories.cordon(config.cordoned_log_dirs)
        self._moves.set_rate(config[REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND])

    def _hook_up(self, log: PartitionLog) -> None:
        log.on_roll = self._rolled
        log.on_disk_error = self._disk_error

    def _unhook(self, log: PartitionLog, directory: LogDirectory) -> None:
        self.cleaner.forget(log.topic_partition, directory.path)

    async def pause_cleaning(self, partition: TopicPartition) -> None:
        await self.cleaner.abort_and_pause(partition)

    def resume_cleaning(self, partition: TopicPartition) -> None:
        self.cleaner.resume(partition)

    def _moving_over(self, log: PartitionLog, directory: LogDirectory) -> None:
        self.cleaner.moved(log, directory.path)

    # Durability --------------------------------------------------------------------------------

    async def flush(self, log: PartitionLog) -> None:
        """Return once everything appended so far is durable, else raise KAFKA_STORAGE_ERROR."""
        await self._flusher.flush(log)

    async def _make_durable(self, log: PartitionLog, offset: int) -> None:
        """Return once it is written down that everything before ``offset`` is durable."""
        await self._flusher.flush(log, offset)
        if not await self._checkpointer.write_recovery_points():
            raise StorageError("the recovery points could not be written down")

    def _rolled(self, log: BaseLog) -> None:
        assert isinstance(log, PartitionLog)
        self._flusher.request(log, log.segments[-1].base_offset)

    async def _flush_due_logs(self) -> None:
        now_ms = self._clock.now_ms()
        for log in self.logs.values():
            # A clock that was set back must not put flushes off.
            if (
                not 0 <= now_ms - log.last_flush_ms < log.config.flush_ms
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
                self._moves.truncated(log)
                await self._flusher.flush_truncation(log)
                if not await self._checkpointer.write_recovery_points():
                    log.fail("its lower recovery point could not be written down")
        return truncated

    async def truncate_fully_and_start_at(self, log: PartitionLog, offset: int) -> None:
        async with self.cleaner.paused(log):
            log.truncate_fully_and_start_at(offset, self._clock.now_ms())
            self._moves.truncated(log)
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

    @property
    def directory_failures(self) -> dict[str, str | None]:
        """Why each directory is not used; None for one that is."""
        return {directory.path: directory.offline for directory in self._directories}

    @property
    def all_cordoned(self) -> bool:
        """Whether no directory takes new partitions, by ``cordoned.log.dirs``."""
        return all(directory.cordoned for directory in self._directories.online)

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
        self._moves.directory_failed(path)
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

    async def disk_usage(self) -> dict[str, DiskUsage]:
        """Size and free space of the disks under the directories that can be asked."""
        return await self._run_in_thread(self._directories.usage)

    def describe_dirs(self) -> list[LogDirInfo]:
        replicas: dict[str, list[ReplicaInfo]] = {
            path: [ReplicaInfo(log.topic_partition, log.size, log.log_end_offset) for log in logs]
            for path, logs in self._logs_by_directory().items()
        }
        for move in self._moves:
            future = move.future
            replicas[move.directory.path].append(
                ReplicaInfo(move.topic_partition, future.size, future.log_end_offset, move.lag)
            )
        return [
            LogDirInfo(
                directory.path, directory.offline, replicas[directory.path], directory.cordoned
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
        futures = self._moves.stop()
        await self._background.close()
        by_directory = self._logs_by_directory()
        for path, future in futures:
            by_directory[path].append(future)
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
