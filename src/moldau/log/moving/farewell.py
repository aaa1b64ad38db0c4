"""The end of a move: the original loses its name, now that the copy has it for good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from moldau.log.directory.failures import DirectoryFailures
from moldau.log.files.names import DELETE_DIR_SUFFIX, marked_dir_name
from moldau.log.moving.move import Move
from moldau.log.moving.replaced import ReplacedLogs
from moldau.log.upkeep.checkpointer import Checkpointer
from moldau.log.upkeep.removal import DelayedRemoval
from moldau.machine import Machine
from moldau.model import TopicPartition


class Farewells:
    def __init__(
        self,
        machine: Machine,
        replaced: ReplacedLogs,
        checkpointer: Checkpointer,
        removal: DelayedRemoval,
        failures: DirectoryFailures,
    ) -> None:
        self._machine = machine
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
        name = marked_dir_name(move.topic_partition, self._machine.new_uuid(), DELETE_DIR_SUFFIX)

        disk = self._machine.disk

        def rename() -> None:
            disk.rename(move.log.directory, f"{home}/{name}")
            disk.sync_dir(home)

        if not await self._try(target, lambda: disk.sync_dir(target)):
            return
        if not await self._try(home, rename):
            return
        await self._checkpointer.write_all()
        await self._replaced.strike_out(move.topic_partition, target)
        self._removal.remove_tree(move.home, name, move.future.config.file_delete_delay_ms)

    async def _try(self, path: str, work: Callable[[], None]) -> bool:
        """Returns whether it worked; otherwise the directory is offline."""
        try:
            await self._machine.threads.run(work)
        except OSError as error:
            self._failures.fail(path, str(error))
            return False
        return True
