"""Logs that can be moved between the directories of a broker: the next step after ``LogTable``."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from moldau.config import (
    NUM_REPLICA_ALTER_LOG_DIRS_THREADS,
    PRODUCER_ID_EXPIRATION_MS,
    REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND,
    BrokerConfig,
)
from moldau.errors import ErrorCode, KafkaError
from moldau.log.directory.log_directory import DirectoryContent, LogDirectory
from moldau.log.errors import StorageError
from moldau.log.manager.log_table import LogTable
from moldau.log.moving.at_start import Futures
from moldau.log.moving.moves import ReplicaMoves
from moldau.log.partition.log import PartitionLog
from moldau.machine import RunInThread
from moldau.machine.clock import Clock
from moldau.machine.disk import Disk
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)


def _ignore(_: PartitionLog) -> None: ...


class MovableLogs(LogTable):
    """Adds moves to the table; ``LogManager`` is built on it."""

    def __init__(
        self,
        disk: Disk,
        log_dirs: Sequence[str],
        config: BrokerConfig,
        clock: Clock,
        run_in_thread: RunInThread,
    ) -> None:
        super().__init__(disk, log_dirs, config, clock, run_in_thread)
        self._moves = ReplicaMoves(
            disk,
            clock,
            run_in_thread,
            self._background,
            self._flusher,
            self._builder,
            self,
            at_once=config[NUM_REPLICA_ALTER_LOG_DIRS_THREADS] or len(log_dirs),
            rate=config[REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND],
        )
        self._altering = asyncio.Lock()
        self.on_replaced: Callable[[PartitionLog], None] = _ignore
        """Called with a log that has taken another's place, in another directory."""

    # What a manager adds -----------------------------------------------------------------------

    @abstractmethod
    async def checkpoint(self) -> None:
        """Write all checkpoints now."""

    @abstractmethod
    async def pause_cleaning(self, partition: TopicPartition) -> None: ...

    @abstractmethod
    def resume_cleaning(self, partition: TopicPartition) -> None: ...

    @abstractmethod
    def _moving_over(self, log: PartitionLog, directory: LogDirectory) -> None:
        """Take along what is known of a log beside its files."""

    # Moves between directories -----------------------------------------------------------------

    async def _before_creating(self, topic_partition: TopicPartition) -> None:
        await self._moves.settled(topic_partition)

    def delete(self, topic_partition: TopicPartition) -> None:
        self._moves.cancel(topic_partition)
        super().delete(topic_partition)

    async def alter_replica_dir(self, topic_partition: TopicPartition, path: str) -> None:
        """Move a replica to another directory, or take that back; returns when it has begun.

        Raises LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR if the directory or the replica is offline,
        INVALID_REPLICA_ASSIGNMENT if the directory is cordoned, or REPLICA_NOT_AVAILABLE; in that
        case the directory is remembered for when the replica is made.
        """
        if path not in self._directories:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs")
        directory = self._directories[path]
        if directory.offline is not None:
            raise StorageError(f"log directory {path} is offline: {directory.offline}")
        if directory.cordoned:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"log directory {path} is cordoned"
            )
        if topic_partition in self.offline:
            raise StorageError(f"{topic_partition} is offline: {self.offline[topic_partition]}")
        async with self._altering:
            move = self._moves.get(topic_partition)
            if move is not None and move.directory is not directory:
                self._moves.cancel(topic_partition)
                move = None
            log = self.logs.get(topic_partition)
            if log is None:
                self._directories.prefer(topic_partition, path)
                raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
            home = self._directories.home(topic_partition)
            if move is None and home is not directory:
                await self._moves.begin(log, home, directory)

    async def _resume_moves(self, contents: Mapping[str, DirectoryContent]) -> None:
        expiration_ms = self._config[PRODUCER_ID_EXPIRATION_MS]
        futures = Futures(self._disk, self._clock.now_ms(), expiration_ms)
        for path, content in contents.items():
            directory = self._directories[path]
            self._moves.replaced.load(path, content.replaced)
            try:
                moves, outdated = await self._run_in_thread(
                    futures.open, directory, content, self.logs, self._directories.home
                )
            except OSError as error:
                self.fail_dir(path, str(error))
                continue
            for move in moves:
                self._moves.resume(move)
            for name in outdated:
                self.remove_later(directory, name, 0)

    def is_served(self, log: PartitionLog) -> bool:
        return self.logs.get(log.topic_partition) is log

    def replace(self, old: PartitionLog, new: PartitionLog, directory: LogDirectory) -> None:
        """``new``, in another directory, is served instead of ``old`` from now on."""
        self._moving_over(old, directory)
        self._forget(old)
        self._adopt(new, directory)
        old.replaced_by = new
        self.on_replaced(new)
        old.retire()
        try:
            new.increment_log_start_offset(old.log_start_offset)
        except StorageError as error:
            _log.error("%s: %s", new.topic_partition, error.message)
