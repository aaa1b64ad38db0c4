"""The replicas on their way to other log directories.

A move copies the log into a directory ``{topic}-{n}.{id}-future``, slice by slice in threads, while
the original is served. When the copy has caught up it is flushed as far as the original is, given
the partition's name, and takes the original's place, without a chance for an append in between.
Only then is the original marked for deletion. At every moment one of the two is complete and known
to be (see ``replaced``); flushes of the original are held back during the last steps, so that what
was promised to be durable is durable in the copy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from moldau.errors import ErrorCode, KafkaError
from moldau.log.directory.building import CannotCreateError, LogBuilder, WantedLog
from moldau.log.directory.failures import DirectoryFailures
from moldau.log.directory.log_directory import DirectoryContent, LogDirectory
from moldau.log.directory.placement import Placement
from moldau.log.directory.served_logs import ServedLogs
from moldau.log.errors import StorageError
from moldau.log.files.names import DELETE_DIR_SUFFIX, future_dir_name, marked_dir_name
from moldau.log.moving.at_start import FutureLogs
from moldau.log.moving.copying import while_copied
from moldau.log.moving.farewell import Farewells
from moldau.log.moving.move import Move
from moldau.log.moving.mover import Mover
from moldau.log.moving.pace import Pace
from moldau.log.moving.replaced import ReplacedLogs
from moldau.log.partition.log import PartitionLog
from moldau.log.upkeep.background import Background
from moldau.log.upkeep.checkpointer import Checkpointer
from moldau.log.upkeep.flush_scheduler import FlushScheduler
from moldau.log.upkeep.removal import DelayedRemoval
from moldau.machine import Machine
from moldau.machine.errors import is_full, is_passing
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)


class Cleaning(Protocol):
    """What a move needs of the cleaner, which has to stop meanwhile: it could take a tombstone from
    the original before it is copied, when what it deletes already was.
    """

    async def abort_and_pause(self, partition: TopicPartition) -> None: ...

    def resume(self, partition: TopicPartition) -> None: ...

    def moved(self, log: PartitionLog, directory: str) -> None:
        """The copy is as clean as the original."""
        ...


class ReplicaMoves:
    def __init__(
        self,
        machine: Machine,
        background: Background,
        served: ServedLogs,
        placement: Placement,
        builder: LogBuilder,
        flushes: FlushScheduler,
        checkpointer: Checkpointer,
        removal: DelayedRemoval,
        failures: DirectoryFailures,
        cleaning: Cleaning,
        *,
        at_once: int,
        rate: int,
        on_replaced: Callable[[PartitionLog], None],
    ) -> None:
        """``on_replaced`` is called with a log that has taken another's place."""
        self._disk = machine.disk
        self._clock = machine.clock
        self._run_in_thread = machine.threads.run
        self._new_uuid = machine.new_uuid
        self._background = background
        self._served = served
        self._placement = placement
        self._builder = builder
        self._removal = removal
        self._failures = failures
        self._cleaning = cleaning
        self._slots = asyncio.Semaphore(at_once)
        self._altering = asyncio.Lock()
        self._pace = Pace(machine.clock, rate)
        self._replaced = ReplacedLogs(machine.disk, machine.threads.run)
        self._farewells = Farewells(machine, self._replaced, checkpointer, removal, failures)
        self._mover = Mover(machine, flushes, self._pace, self._replaced, self._take_over)
        self._moves: dict[TopicPartition, Move] = {}
        self._on_replaced = on_replaced

    def set_rate(self, rate: int) -> None:
        self._pace.rate = rate

    def __iter__(self) -> Iterator[Move]:
        return iter(tuple(self._moves.values()))

    async def settled(self, topic_partition: TopicPartition) -> None:
        """Return once nothing of an earlier move stands under the partition's name."""
        await self._farewells.settled(topic_partition)

    # Beginning ---------------------------------------------------------------------------------

    async def alter(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Move a replica to another directory, or take that back; returns when it has begun.

        Raises REPLICA_NOT_AVAILABLE if there is none, and remembers the directory for when it is
        made; KAFKA_STORAGE_ERROR if the directory cannot take it; or INVALID_TOPIC_EXCEPTION if the
        topic's name leaves no room for a mark, as Kafka does wherever the replica is.
        """
        name = future_dir_name(topic_partition, self._new_uuid())
        if name is None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"the name of {topic_partition} is too long for a directory with a mark",
            )
        async with self._altering:
            move = self._moves.get(topic_partition)
            if move is not None and move.directory is not directory:
                self.cancel(topic_partition)
                move = None
            log = self._served.logs.get(topic_partition)
            if log is None:
                self._placement.prefer(topic_partition, directory.path)
                raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
            home = self._placement.home(topic_partition)
            if move is None and home is not directory:
                await self._begin(log, home, directory, name)

    async def _begin(
        self, log: PartitionLog, home: LogDirectory, directory: LogDirectory, name: str
    ) -> None:
        topic_partition = log.topic_partition
        await self.settled(topic_partition)
        wanted = WantedLog(directory, topic_partition, log.topic_id, while_copied(log.config))
        try:
            future = await self._run_in_thread(self._builder.build, wanted, name)
        except CannotCreateError as error:
            if not (is_full(error.cause) or is_passing(error.cause)):
                self._failures.fail(directory.path, error.message)
            raise
        move = Move(log, home, directory, future)
        if not self._served.is_served(log):
            self._discard(move)
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
        self._start(move)

    async def resume(
        self, contents: Mapping[str, DirectoryContent], directories: Mapping[str, LogDirectory]
    ) -> None:
        """Go on with the moves that a stop or a crash has interrupted."""
        futures = FutureLogs(
            self._disk,
            self._new_uuid,
            self._served.logs,
            self._placement,
            now_ms=self._clock.now_ms(),
            producer_expiration_ms=self._builder.producer_expiration_ms,
        )
        for path, content in contents.items():
            directory = directories[path]
            self._replaced.load(path, content.replaced)
            try:
                moves, outdated = await self._run_in_thread(futures.open, directory, content)
            except OSError as error:
                self._failures.fail(path, str(error))
                continue
            for move in moves:
                self._start(move)
            self._removal.finish(directory, outdated)

    def _start(self, move: Move) -> None:
        self._moves[move.topic_partition] = move
        _log.info(
            "moving %s from %s to %s", move.topic_partition, move.home.path, move.directory.path
        )
        self._background.spawn(self._run(move))

    async def _run(self, move: Move) -> None:
        topic_partition = move.topic_partition
        try:
            # Before its turn comes, too: some of it may have been copied before a restart.
            await self._cleaning.abort_and_pause(topic_partition)
            try:
                async with self._slots:
                    await self._mover.run(move)
            finally:
                self._cleaning.resume(topic_partition)
        except (KafkaError, OSError) as error:
            self._failed(move, error)
        finally:
            if self._moves.get(topic_partition) is move:
                del self._moves[topic_partition]
            if not self._served.is_served(move.future):
                await self._replaced.strike_out(topic_partition, move.directory.path)
                if not move.keep:
                    self._discard(move)

    def _failed(self, move: Move, error: KafkaError | OSError) -> None:
        if move.over:
            return  # cancelled, and what it was cancelled for may have been the reason
        _log.error("%s cannot be moved: %s", move.topic_partition, error)
        if move.log.failure is not None:
            move.keep = True  # the original may be back after a restart
        if move.future.failure is not None or isinstance(error, OSError):
            move.keep = True
            self._failures.fail(move.directory.path, f"moving {move.topic_partition}: {error}")

    # Ending ------------------------------------------------------------------------------------

    def cancel(self, topic_partition: TopicPartition, *, keep: bool = False) -> None:
        """Give up a move; ``keep`` leaves the copy for the next start."""
        move = self._moves.pop(topic_partition, None)
        if move is not None:
            move.end(keep=keep)
            if not keep:
                _log.info("moving %s to %s is cancelled", topic_partition, move.directory.path)
                if not move.begun:
                    self._discard(move)
                    move.keep = True

    def directory_failed(self, path: str) -> None:
        """Moves from and to it end; what was copied waits for the next start."""
        for move in self:
            if path in (move.home.path, move.directory.path):
                self.cancel(move.topic_partition, keep=True)

    def truncated(self, log: PartitionLog) -> None:
        """An original was cut at its end: so has its copy to be."""
        move = self._moves.get(log.topic_partition)
        if move is not None:
            move.truncated(log.log_end_offset)

    def stop(self) -> list[tuple[str, PartitionLog]]:
        """End all moves at shutdown; returns directories and copies, which are to be closed."""
        futures = [(move.directory.path, move.future) for move in self]
        for move in self:
            self.cancel(move.topic_partition, keep=True)
        return futures

    def _take_over(self, move: Move) -> None:
        """The copy is served instead of the original from now on."""
        old, new = move.log, move.future
        self._cleaning.moved(old, move.directory.path)
        self._served.forget(old)
        self._served.adopt(new, move.directory)
        old.replaced_by = new
        self._on_replaced(new)
        old.retire()
        try:
            new.increment_log_start_offset(old.log_start_offset)
        except StorageError as error:
            _log.error("%s: %s", new.topic_partition, error.message)
        _log.info("%s is in %s now", move.topic_partition, move.directory.path)
        self._farewells.announce(move)
        self._background.spawn(self._farewells.say(move))

    def _discard(self, move: Move) -> None:
        """The copy is not wanted any more."""
        directory, future = move.directory, move.future
        future.retire()
        if not directory.is_online:
            return
        name = marked_dir_name(move.topic_partition, self._new_uuid(), DELETE_DIR_SUFFIX)
        try:
            self._disk.rename(future.directory, f"{directory.path}/{name}")
        except OSError as error:
            _log.warning("%s stays until the next start: %s", future.directory, error)
            return
        self._removal.remove_tree(directory, name, future.config.file_delete_delay_ms)
