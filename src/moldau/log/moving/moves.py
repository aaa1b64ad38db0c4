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
from collections.abc import Callable, Iterator
from typing import Protocol

from moldau.errors import ErrorCode, KafkaError
from moldau.log.directory.log_directory import LogDirectory
from moldau.log.errors import is_full, is_passing
from moldau.log.files.names import DELETE_DIR_SUFFIX, future_dir_name, marked_dir_name
from moldau.log.manager.background import Background
from moldau.log.manager.building import CannotCreateError, LogBuilder, WantedLog
from moldau.log.manager.flusher import Flusher
from moldau.log.moving.copying import while_copied
from moldau.log.moving.mover import Move, Mover
from moldau.log.moving.pace import Pace
from moldau.log.moving.replaced import ReplacedLogs
from moldau.log.partition.log import PartitionLog
from moldau.machine import RunInThread
from moldau.machine.clock import Clock
from moldau.machine.disk import Disk
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)


class Owner(Protocol):
    """What a move needs of the one that owns all logs."""

    def is_served(self, log: PartitionLog) -> bool: ...

    def fail_dir(self, path: str, reason: str) -> None: ...

    def replace(self, old: PartitionLog, new: PartitionLog, directory: LogDirectory) -> None:
        """``new`` is served instead of ``old`` from now on."""
        ...

    def remove_later(self, directory: LogDirectory, name: str, delay_ms: int) -> None: ...

    async def checkpoint(self) -> None: ...

    async def pause_cleaning(self, partition: TopicPartition) -> None:
        """Compaction has to stop meanwhile: it could take a tombstone from the original before it
        is copied, when what it deletes already was.
        """
        ...

    def resume_cleaning(self, partition: TopicPartition) -> None: ...


class ReplicaMoves:
    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        run_in_thread: RunInThread,
        background: Background,
        flusher: Flusher,
        builder: LogBuilder,
        owner: Owner,
        *,
        at_once: int,
        rate: int,
    ) -> None:
        self._disk = disk
        self._run_in_thread = run_in_thread
        self._background = background
        self._builder = builder
        self._owner = owner
        self._slots = asyncio.Semaphore(at_once)
        self._pace = Pace(clock, rate)
        self.replaced = ReplacedLogs(disk, run_in_thread)
        self._mover = Mover(
            disk, clock, run_in_thread, flusher, self._pace, self.replaced, self._take_over
        )
        self._moves: dict[TopicPartition, Move] = {}
        self._farewells: dict[TopicPartition, asyncio.Future[None]] = {}

    def set_rate(self, rate: int) -> None:
        self._pace.rate = rate

    def get(self, topic_partition: TopicPartition) -> Move | None:
        return self._moves.get(topic_partition)

    def __iter__(self) -> Iterator[Move]:
        return iter(tuple(self._moves.values()))

    async def settled(self, topic_partition: TopicPartition) -> None:
        """Return once nothing of an earlier move stands under the partition's name."""
        farewell = self._farewells.get(topic_partition)
        if farewell is not None:
            await asyncio.shield(farewell)

    # Beginning ---------------------------------------------------------------------------------

    async def begin(self, log: PartitionLog, home: LogDirectory, directory: LogDirectory) -> None:
        """Start to move ``log``; raises KAFKA_STORAGE_ERROR if the directory cannot take it."""
        topic_partition = log.topic_partition
        name = future_dir_name(topic_partition)
        if name is None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"the name of {topic_partition} is too long for a directory with a mark",
            )
        await self.settled(topic_partition)
        wanted = WantedLog(directory, topic_partition, log.topic_id, while_copied(log.config))
        try:
            future = await self._run_in_thread(self._builder.build, wanted, name)
        except CannotCreateError as error:
            if not (is_full(error.cause) or is_passing(error.cause)):
                self._owner.fail_dir(directory.path, error.message)
            raise
        move = Move(log, home, directory, future)
        if not self._owner.is_served(log):
            self._discard(move)
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
        self.resume(move)

    def resume(self, move: Move) -> None:
        """Go on with a move, from wherever it is."""
        self._moves[move.topic_partition] = move
        _log.info(
            "moving %s from %s to %s", move.topic_partition, move.home.path, move.directory.path
        )
        self._background.spawn(self._run(move))

    async def _run(self, move: Move) -> None:
        topic_partition = move.topic_partition
        try:
            # Before its turn comes, too: some of it may have been copied before a restart.
            await self._owner.pause_cleaning(topic_partition)
            try:
                async with self._slots:
                    await self._mover.run(move)
            finally:
                self._owner.resume_cleaning(topic_partition)
        except (KafkaError, OSError) as error:
            self._failed(move, error)
        finally:
            if self._moves.get(topic_partition) is move:
                del self._moves[topic_partition]
            if not self._owner.is_served(move.future):
                await self._strike_out(move)
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
            self._owner.fail_dir(move.directory.path, f"moving {move.topic_partition}: {error}")

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
        for move in tuple(self._moves.values()):
            if path in (move.home.path, move.directory.path):
                self.cancel(move.topic_partition, keep=True)

    def truncated(self, log: PartitionLog) -> None:
        """An original was cut at its end: so has its copy to be."""
        move = self._moves.get(log.topic_partition)
        if move is not None:
            move.truncated(log.log_end_offset)

    def stop(self) -> list[tuple[str, PartitionLog]]:
        """End all moves at shutdown; answers directories and copies, which are to be closed."""
        futures = [(move.directory.path, move.future) for move in self._moves.values()]
        for topic_partition in tuple(self._moves):
            self.cancel(topic_partition, keep=True)
        return futures

    def _take_over(self, move: Move) -> None:
        self._owner.replace(move.log, move.future, move.directory)
        _log.info("%s is in %s now", move.topic_partition, move.directory.path)
        self._farewells[move.topic_partition] = asyncio.get_running_loop().create_future()
        self._background.spawn(self._say_farewell(move))

    def _discard(self, move: Move) -> None:
        """The copy is not wanted any more."""
        directory, future = move.directory, move.future
        future.retire()
        if directory.offline is not None:
            return
        name = marked_dir_name(move.topic_partition, DELETE_DIR_SUFFIX)
        try:
            self._disk.rename(future.directory, f"{directory.path}/{name}")
        except OSError as error:
            _log.warning("%s stays until the next start: %s", future.directory, error)
            return
        self._owner.remove_later(directory, name, future.config.file_delete_delay_ms)

    async def _say_farewell(self, move: Move) -> None:
        """Take the name from the original, now that the copy has it for good."""
        try:
            await self._let_go(move)
        finally:
            self._farewells.pop(move.topic_partition).set_result(None)

    async def _let_go(self, move: Move) -> None:
        topic_partition, target = move.topic_partition, move.directory
        if not await self._try(target.path, self._disk.sync_dir, target.path):
            return
        name = marked_dir_name(topic_partition, DELETE_DIR_SUFFIX)
        home, old = move.home.path, move.log.directory
        if not await self._try(home, self._rename, home, old, name):
            return
        await self._owner.checkpoint()
        await self._strike_out(move)
        self._owner.remove_later(move.home, name, move.future.config.file_delete_delay_ms)

    async def _strike_out(self, move: Move) -> None:
        try:
            await self.replaced.strike_out(move.topic_partition, move.directory.path)
        except OSError as error:
            # It does no harm where it is, and goes before anything could contradict it.
            _log.warning("%s: %s", move.directory.path, error)

    def _rename(self, home: str, directory: str, name: str) -> None:
        self._disk.rename(directory, f"{home}/{name}")
        self._disk.sync_dir(home)

    async def _try(self, path: str, work: Callable[..., None], *args: str) -> bool:
        """Whether it worked; otherwise the directory is offline."""
        try:
            await self._run_in_thread(work, *args)
        except OSError as error:
            self._owner.fail_dir(path, str(error))
            return False
        return True
