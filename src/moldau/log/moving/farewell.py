"""The end of a move: the original loses its name, now that the copy has it for good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

from moldau.log.directory.failures import DirectoryFailures
from moldau.log.files.names import DELETE_DIR_SUFFIX, marked_dir_name
from moldau.log.moving.move import Move
from moldau.log.moving.replaced import ReplacedLogs
from moldau.log.upkeep.checkpointer import Checkpointer
from moldau.log.upkeep.removal import DelayedRemoval
from moldau.machine import RunInThread
from moldau.machine.disk import Disk
from moldau.model import TopicPartition


class Farewells:
    def __init__(
        self,
        disk: Disk,
        run_in_thread: RunInThread,
        new_uuid: Callable[[], UUID],
        replaced: ReplacedLogs,
        checkpointer: Checkpointer,
        removal: DelayedRemoval,
        failures: DirectoryFailures,
    ) -> None:
        self._disk = disk
        self._run_in_thread = run_in_thread
        self._new_uuid = new_uuid
        self._replaced = replaced
        self._checkpointer = checkpointer
        self._removal = removal
        self._failures = failures
        self._pending: dict[TopicPartition, asyncio.Future[None]] = {}

    def announce(self, move: Move) -> None:
        """The copy has just taken the original's place, and ``say`` will follow."""
        self._pending[move.topic_partition] = asyncio.get_running_loop().create_future()

    async def settled(self, topic_partition: TopicPartition) -> None:
        """Return once nothing of an earlier move stands under the partition's name."""
        pending = self._pending.get(topic_partition)
        if pending is not None:
            await asyncio.shield(pending)

    async def say(self, move: Move) -> None:
        try:
            await self._take_name(move)
        finally:
            self._pending.pop(move.topic_partition).set_result(None)

    async def _take_name(self, move: Move) -> None:
        target, home = move.directory.path, move.home.path
        name = marked_dir_name(move.topic_partition, self._new_uuid(), DELETE_DIR_SUFFIX)

        def rename() -> None:
            self._disk.rename(move.log.directory, f"{home}/{name}")
            self._disk.sync_dir(home)

        if not await self._try(target, lambda: self._disk.sync_dir(target)):
            return
        if not await self._try(home, rename):
            return
        await self._checkpointer.write_all()
        await self._replaced.strike_out(move.topic_partition, target)
        self._removal.remove_tree(move.home, name, move.future.config.file_delete_delay_ms)

    async def _try(self, path: str, work: Callable[[], None]) -> bool:
        """Returns whether it worked; otherwise the directory is offline."""
        try:
            await self._run_in_thread(work)
        except OSError as error:
            self._failures.fail(path, str(error))
            return False
        return True
