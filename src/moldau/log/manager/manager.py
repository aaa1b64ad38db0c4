"""All partition logs of a broker: opened at start, created, deleted, flushed, closed.

Runs on the event loop. Whatever may block (opening, syncing, checkpoints, removing trees) is handed
to threads; there is no thread and no timer per partition.

``LogManager`` only puts the parts together and passes on what a broker asks for: ``loading`` and
``closing``, ``creation``, ``directory.placement`` and ``directory.served_logs``, what goes on by
itself in ``upkeep``, ``cleaner`` and ``moving``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

from moldau.config.values.broker import BrokerConfig
from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log.cleaner.log_cleaner import LogCleaner
from moldau.log.directory.building import LogBuilder
from moldau.log.directory.description import LogDirInfo, ReplicaInfo
from moldau.log.directory.failures import DirectoryFailures
from moldau.log.directory.log_directory import LogDirectory
from moldau.log.directory.placement import Placement
from moldau.log.directory.served_logs import ServedLogs
from moldau.log.errors import CorruptCheckpointError, StorageError
from moldau.log.files.names import DELETE_DIR_SUFFIX, marked_dir_name, partition_dir_name
from moldau.log.files.partition_metadata import read_partition_metadata
from moldau.log.manager.closing import close_logs
from moldau.log.manager.creation import LogCreator
from moldau.log.manager.loading import LogLoader
from moldau.log.manager.observer import ServedLogObserver
from moldau.log.manager.truncation import DurableTruncation
from moldau.log.moving.moves import ReplicaMoves
from moldau.log.partition.log import PartitionLog
from moldau.log.partition.producer_state import MOST_PRODUCERS
from moldau.log.upkeep.background import Background
from moldau.log.upkeep.checkpointer import Checkpointer
from moldau.log.upkeep.flush_scheduler import FlushScheduler
from moldau.log.upkeep.removal import DelayedRemoval
from moldau.log.upkeep.retention_check import RetentionCheck
from moldau.log.upkeep.topic_configs import TopicConfigCopies
from moldau.machine import Machine
from moldau.machine.clock_watch import ClockWatch
from moldau.machine.disk import DiskUsage
from moldau.model import NO_TOPIC_ID, TopicPartition

_log = logging.getLogger(__name__)

_FLUSH_CHECK_MS: Final = 1000
_ROOM: Final = 64 * 1024
_ROOM_PER_PARTITION: Final = 8 * 1024
"""A directory and a small file, each in a block of the disk; the log itself begins empty."""


def _ignore(_: object) -> None: ...


def _do_nothing() -> None: ...


class LogManager:
    """The broker's logs, by partition."""

    def __init__(self, machine: Machine, log_dirs: Sequence[str], config: BrokerConfig) -> None:
        """``log_dirs`` are those of the settings, in the same order, as absolute paths."""
        disk, clock, run_in_thread = machine.disk, machine.clock, machine.threads.run
        self._machine = machine
        self._config = config
        self._log_dirs = log_dirs
        self.on_offline: Callable[[list[TopicPartition]], None] = _ignore
        """Called with the partitions that went offline with their directory."""
        self.on_directory_failed: Callable[[], None] = _do_nothing
        """Called when a directory has failed, before anybody hears of its partitions."""
        self.on_all_offline: Callable[[], None] = _do_nothing
        """Called when no directory is left."""
        self.on_replaced: Callable[[PartitionLog], None] = _ignore
        """Called with a log that has taken another's place, in another directory."""
        self._background = Background(clock)
        self._unsynced_deletions: set[str] = set()
        self._producers_watch = ClockWatch(clock)
        self._directories = {path: LogDirectory(disk, path) for path in log_dirs}
        self._cordon()
        self._placement = Placement(self._directories)
        self._served = ServedLogs(disk, self._placement, machine.new_uuid)
        self.logs = self._served.logs
        self.offline = self._served.offline
        """Partitions that are on disk here but cannot be used, and why."""
        self.left_alone = self._served.left_alone
        """Partitions of which directories are there that must not be touched, and why."""
        self._failures = DirectoryFailures(
            self._directories,
            self._served,
            on_failed=lambda: self.on_directory_failed(),
            on_directory=lambda path: self._moves.directory_failed(path),
            on_offline=lambda lost: self.on_offline(lost),
            on_all_offline=lambda: self.on_all_offline(),
        )
        self._removal = DelayedRemoval(disk, run_in_thread, self._background)
        self._flushes = FlushScheduler(clock, run_in_thread, self._background, self.logs)
        self._checkpointer = Checkpointer(
            self._directories.values(),
            self._served.by_directory,
            self._failures.fail,
            run_in_thread,
            clock,
        )
        self.topic_configs = TopicConfigCopies(disk, run_in_thread, self.logs, self._failures.fail)
        self._retention = RetentionCheck(self.logs, clock)
        self.closed_cleanly: Collection[str] = ()
        """Directories whose last user ended in order."""
        self.cleaner = LogCleaner(
            machine,
            config,
            self._background,
            self.logs,
            make_durable=self._make_durable,
            fail_directory=self._failures.fail,
        )
        self._builder = LogBuilder(disk, clock, config.producer_id_expiration_ms)
        self._moves = ReplicaMoves(
            machine,
            self._background,
            self._served,
            self._placement,
            self._builder,
            self._flushes,
            self._checkpointer,
            self._removal,
            self._failures,
            self.cleaner,
            at_once=config.num_replica_alter_log_dirs_threads or len(log_dirs),
            rate=config.replica_alter_log_dirs_io_max_bytes_per_second,
            on_replaced=self._replaced,
        )
        self._loader = LogLoader(
            machine, self._directories, self._placement, self._served, self._failures
        )
        self.deleted = self._loader.deleted
        """Topic ids and partitions that were being deleted before the start."""
        self.recovery = self._loader.recovery
        """What the start had to check."""
        self.checkpointed_high_watermarks = self._loader.high_watermarks
        """What the high watermarks were when they were last written down before the start."""
        self._creator = LogCreator(
            clock,
            run_in_thread,
            self._builder,
            self._placement,
            self._served,
            self._failures.fail,
            self._moves.settled,
        )
        self._truncation = DurableTruncation(
            clock, self.cleaner, self._moves, self._flushes, self._checkpointer
        )
        self._served.observer = ServedLogObserver(
            clock, self._served, self._placement, self._flushes, self._removal, self._failures
        )
        self._served.on_forgotten += (
            lambda log, _: self._flushes.forget(log),
            self.cleaner.forget,
        )

    # Start and end -----------------------------------------------------------------------------

    async def start(
        self,
        topic_config: Callable[[str], TopicConfig],
        topic_ids: Mapping[str, UUID | None] | None = None,
    ) -> None:
        """Lock the directories, open every partition in them, begin the periodic work.

        Of a partition that is there twice, the one with the id in ``topic_ids`` is served.

        A directory that fails is left out; only without any left does the start fail. One that
        another broker has locked stops the start at once (BlockingIOError).
        """
        self._served.topic_ids = topic_ids or {}
        try:
            contents = await self._loader.load(topic_config, self._config)
        except BaseException:
            self._let_go()
            raise
        self.closed_cleanly = {path for path, content in contents.items() if content.clean}
        for path, content in contents.items():
            self._removal.finish(self._directories[path], content.to_delete)
            self._checkpointer.found(self._directories[path], content.recovery_points)
        self._retention.begin_after(
            max((content.last_written_ms for content in contents.values()), default=0)
        )
        # From here on a log that is not written down is known to be new.
        await self._checkpointer.write_recovery_points()
        self._schedule()
        await self._moves.resume(contents, self._directories)
        await self.cleaner.start(
            {
                path: [log.topic_partition for log in logs]
                for path, logs in self._served.by_directory().items()
                if self._directories[path].is_online
            }
        )

    def _schedule(self) -> None:
        config, every = self._config, self._background.every
        flush_check_ms = min(config.log_flush_scheduler_interval_ms, _FLUSH_CHECK_MS)
        every(flush_check_ms / 1000, self._flushes.request_due)
        every(
            config.log_flush_offset_checkpoint_interval_ms / 1000,
            self._checkpointer.write_recovery_points,
        )
        every(
            config.log_flush_start_offset_checkpoint_interval_ms / 1000,
            self._checkpointer.write_log_start_offsets,
        )
        every(
            config.replica_high_watermark_checkpoint_interval_ms / 1000,
            self._checkpointer.write_high_watermarks,
        )
        every(config.log_flush_offset_checkpoint_interval_ms / 1000, self.topic_configs.write_due)
        every(config.producer_id_expiration_check_interval_ms / 1000, self._expire_producers)
        every(
            config.log_retention_check_interval_ms / 1000,
            self._retention.run,
            first=config.log_initial_task_delay_ms / 1000,
        )

    def _replaced(self, log: PartitionLog) -> None:
        self.on_replaced(log)
        self._background.spawn(self.topic_configs.partition_moved(log.topic_partition.topic))

    async def _expire_producers(self) -> None:
        for log in self.logs.values():
            producers = log.producers
            if producers.forgotten:
                _log.warning(
                    "%s: %d producers were forgotten, because more than %d write there; what they "
                    "send twice is stored twice",
                    log.topic_partition,
                    producers.forgotten,
                    MOST_PRODUCERS,
                )
                producers.forgotten = 0
        if self._producers_watch.jump_ms() > 0:
            return  # see RetentionCheck
        oldest_ms = self._machine.clock.now_ms() - self._config.producer_id_expiration_ms
        for log in tuple(self.logs.values()):
            log.producers.expire(oldest_ms)
            await asyncio.sleep(0)  # a log may know thousands

    def reconfigure(self, config: BrokerConfig) -> None:
        """The broker's settings changed at run time."""
        self._config = config
        self._builder.producer_expiration_ms = config.producer_id_expiration_ms
        self.cleaner.config = config
        self._moves.set_rate(config.replica_alter_log_dirs_io_max_bytes_per_second)
        self._cordon()

    def _cordon(self) -> None:
        cordoned = self._config.cordoned_log_directories
        for path, as_configured in zip(self._log_dirs, self._config.log_directories, strict=False):
            self._directories[path].cordoned = as_configured in cordoned

    async def shutdown(self, broker_epoch: int = -1) -> None:
        """Flush and close everything; directories without a failure get the clean marker.

        A partition that could not be opened keeps its directory unclean, so that it is checked
        at the next start.
        """
        await self.cleaner.close()
        futures = self._moves.stop()
        await self._background.close()
        logs_of = self._served.by_directory()
        for path, future in futures:
            logs_of[path].append(future)
        for log in self._served.untouched:
            logs_of[log.directory.rpartition("/")[0]].append(log)
        try:
            for path, logs in logs_of.items():
                directory = self._directories[path]
                clean = await close_logs(logs, directory, self._machine)
                await self.checkpoint()
                if clean and directory.is_online and path not in self._loader.unclean:
                    await self._machine.threads.run(directory.write_clean_marker, broker_epoch)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Close all files and release the directories, whatever state they are in."""
        for log in (*self.logs.values(), *self._served.untouched):
            log.close()
        for directory in self._directories.values():
            directory.release()

    # Logs --------------------------------------------------------------------------------------

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self.logs.get(topic_partition)

    def topic_id(self, topic_partition: TopicPartition) -> UUID | None:
        """Returns which topic the log of a partition is of, also of one that could not be opened;
        ``NO_TOPIC_ID`` if that is not known. None if there is no log, as far as can be seen.
        """
        log = self.logs.get(topic_partition)
        if log is not None:
            return log.topic_id
        for directory in self._directories.values():
            if topic_partition in directory.unopened:
                path = f"{directory.path}/{partition_dir_name(topic_partition)}"
                try:
                    return read_partition_metadata(self._machine.disk, path)
                except (OSError, CorruptCheckpointError):
                    return NO_TOPIC_ID
        return None

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        config: TopicConfig,
        *,
        is_new: bool = False,
    ) -> PartitionLog:
        """Returns the log of a partition, made in the directory with the fewest if there is none.

        A log of the same name but another topic id is an older topic's: it is set aside. Raises
        KAFKA_STORAGE_ERROR if the partition's directory is offline, or all are. If a directory
        could not be read at the start, a log is made only for a partition that ``is_new``: others
        may have their records there.
        """
        return self._creator.get_or_create(topic_partition, topic_id, config, is_new=is_new)

    async def get_or_create_many(
        self, wanted: Sequence[tuple[TopicPartition, UUID, TopicConfig]], *, is_new: bool = False
    ) -> dict[TopicPartition, PartitionLog | StorageError]:
        """As ``get_or_create`` for many at once: directories and files are made in a thread."""
        return await self._creator.get_or_create_many(wanted, is_new=is_new)

    def delete(self, topic_partition: TopicPartition) -> None:
        """Take a partition away: renamed now, its files removed after ``file.delete.delay.ms``.

        StorageError if it is, or may be, where it cannot be deleted now: it would come back.
        """
        log = self.logs.get(topic_partition)
        if log is None:
            self._delete_unserved(topic_partition)
            return
        self._moves.cancel(topic_partition)
        self.topic_configs.forget(log)
        directory = self._placement.home(topic_partition)
        name = self._served.set_aside(log, DELETE_DIR_SUFFIX)
        self._unsynced_deletions.add(directory.path)
        self._removal.remove_tree(directory, name, log.config.file_delete_delay_ms)

    def _delete_unserved(self, topic_partition: TopicPartition) -> None:
        """One that could not be opened goes, too, if it is found."""
        if topic_partition in self._served.left_alone:
            raise StorageError(self._served.left_alone[topic_partition])
        is_offline = topic_partition in self.offline
        if self._placement.unread or (
            is_offline and len(self.online_dirs) < len(self._directories)
        ):
            raise StorageError(
                f"{topic_partition} may be in a log directory that cannot be used now"
            )
        self._moves.cancel(topic_partition)
        if not is_offline:
            return
        for directory in self._directories.values():
            path = f"{directory.path}/{partition_dir_name(topic_partition)}"
            if self._machine.disk.is_dir(path):
                name = marked_dir_name(topic_partition, self._machine.new_uuid(), DELETE_DIR_SUFFIX)
                try:
                    self._machine.disk.rename(path, f"{directory.path}/{name}")
                except OSError as error:
                    raise StorageError(f"cannot rename {path}: {error}") from error
                self._unsynced_deletions.add(directory.path)
                self._removal.remove_tree(directory, name, TopicConfig().file_delete_delay_ms)
            directory.unopened.pop(topic_partition, None)
        del self.offline[topic_partition]

    async def sync_deletions(self) -> None:
        """Return once no power cut brings back what was deleted; OSError if that cannot be had."""
        for path in sorted(self._unsynced_deletions):
            if self._directories[path].is_online:
                await self._machine.threads.run(self._machine.disk.sync_dir, path)
            self._unsynced_deletions.discard(path)

    def leave_alone(self, topic_partition: TopicPartition, reason: str) -> None:
        """Serve a partition no more; its directory stays as it is, and nothing takes its place."""
        self._served.leave_alone(topic_partition, reason)

    async def alter_replica_dir(self, topic_partition: TopicPartition, path: str) -> None:
        """Move a replica to another directory, or take that back; returns when it has begun.

        Raises LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR if the directory or the replica is offline,
        INVALID_REPLICA_ASSIGNMENT if the directory is cordoned, or REPLICA_NOT_AVAILABLE; in that
        case the directory is remembered for when the replica is made.
        """
        directory = self._directories.get(path)
        if directory is None:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs")
        if not directory.is_online:
            raise StorageError(f"log directory {path} is offline: {directory.offline}")
        if directory.cordoned:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"log directory {path} is cordoned"
            )
        self._served.check_online(topic_partition)
        await self._moves.alter(topic_partition, directory)

    # Durability --------------------------------------------------------------------------------

    async def flush(self, log: PartitionLog) -> None:
        """Return once everything appended so far is durable, else raise KAFKA_STORAGE_ERROR."""
        await self._flushes.flush(log)

    async def make_durable(self, log: PartitionLog) -> None:
        """Return once it is written down that everything appended so far is durable."""
        await self._make_durable(log, log.log_end_offset)

    async def _make_durable(self, log: PartitionLog, offset: int) -> None:
        """Return once it is written down that everything before ``offset`` is durable."""
        await self._flushes.flush(log, offset)
        if not await self._checkpointer.write_recovery_points():
            raise StorageError("the recovery points could not be written down")

    async def truncate_to(
        self, log: PartitionLog, offset: int, is_wanted: Callable[[], bool] = lambda: True
    ) -> bool:
        """Truncate, durably, and write down the lower recovery point; returns whether there was
        anything to truncate. Nothing may be appended to the log meanwhile. ``is_wanted`` is asked
        right before.
        """
        return await self._truncation.to(log, offset, is_wanted)

    async def truncate_fully_and_start_at(
        self, log: PartitionLog, offset: int, is_wanted: Callable[[], bool] = lambda: True
    ) -> bool:
        """As ``truncate_to``: drop everything, and begin again at ``offset``."""
        return await self._truncation.fully(log, offset, is_wanted)

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
        await self._checkpointer.write_log_start_offsets()

    async def checkpoint_high_watermarks(self) -> None:
        """Write down what is committed. One that fell, with its log, must not be read again."""
        await self._checkpointer.write_high_watermarks()

    async def checkpoint(self) -> None:
        """Write all checkpoints now."""
        await self._checkpointer.write_all()

    # Directories -------------------------------------------------------------------------------

    @property
    def online_dirs(self) -> list[str]:
        return [path for path, directory in self._directories.items() if directory.is_online]

    @property
    def directory_failures(self) -> dict[str, str | None]:
        """Why each directory is not used; None for one that is."""
        return {path: directory.offline for path, directory in self._directories.items()}

    @property
    def all_cordoned(self) -> bool:
        """Whether no directory takes new partitions, by ``cordoned.log.dirs``."""
        return all(self._directories[path].cordoned for path in self.online_dirs)

    def fail_dir(self, path: str, reason: str) -> None:
        """Stop using a directory: its partitions go offline, the others are not touched."""
        self._failures.fail(path, reason)

    async def disk_usage(self) -> dict[str, DiskUsage]:
        """Returns size and free space of the disks under the directories that can be asked."""

        def ask() -> dict[str, DiskUsage]:
            return {
                path: usage
                for path, directory in self._directories.items()
                if (usage := directory.usage()) is not None
            }

        return await self._machine.threads.run(ask)

    async def has_room(self, partitions: int) -> bool:
        """Returns whether a disk can take so many more partitions; one that cannot be asked may."""
        usage = await self.disk_usage()
        online = self.online_dirs
        # As in Placement: where all are cordoned, who insists is served.
        open_to_new = [path for path in online if not self._directories[path].cordoned] or online
        needed = _ROOM + partitions * _ROOM_PER_PARTITION
        return any(path not in usage or usage[path].free >= needed for path in open_to_new)

    def describe_dirs(self) -> list[LogDirInfo]:
        replicas = {
            path: [ReplicaInfo(log.topic_partition, log.size, log.log_end_offset) for log in logs]
            for path, logs in self._served.by_directory().items()
        }
        for move in self._moves:
            future = move.future
            replicas[move.directory.path].append(
                ReplicaInfo(move.topic_partition, future.size, future.log_end_offset, move.lag)
            )
        return [
            LogDirInfo(path, directory.offline, replicas[path], directory.cordoned)
            for path, directory in self._directories.items()
        ]
