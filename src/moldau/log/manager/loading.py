"""Opening all log directories at the start, and the partitions in them, in threads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from uuid import UUID

from moldau.config.values.broker import BrokerConfig
from moldau.config.values.topic import TopicConfig
from moldau.log.directory.failures import DirectoryFailures
from moldau.log.directory.log_directory import (
    PARTITIONS_PER_JOB,
    DirectoryContent,
    LoadResult,
    LogDirectory,
)
from moldau.log.directory.placement import Placement
from moldau.log.directory.served_logs import ServedLogs
from moldau.log.errors import StorageError
from moldau.log.moving.at_start import drop_replaced
from moldau.log.recovery.stats import RecoveryStats
from moldau.machine import Machine
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)


class LogLoader:
    def __init__(
        self,
        machine: Machine,
        directories: Mapping[str, LogDirectory],
        placement: Placement,
        served: ServedLogs,
        failures: DirectoryFailures,
    ) -> None:
        self._machine = machine
        self._run_in_thread = machine.threads.run
        self._directories = directories
        self._placement = placement
        self._served = served
        self._failures = failures
        self.unclean: set[str] = set()
        """Directories with a partition that could not be opened: it has to be checked again."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """What they were when they were last written down."""
        self.deleted: set[tuple[UUID, int]] = set()
        """Topic ids and partitions that were being deleted."""
        self.recovery = RecoveryStats()
        """What had to be checked."""

    async def load(
        self, topic_config: Callable[[str], TopicConfig], config: BrokerConfig
    ) -> dict[str, DirectoryContent]:
        """Lock the directories and open every partition in them; returns what was in them.

        One that fails is left out; StorageError if none is left. One that another broker has locked
        stops the start at once (BlockingIOError).
        """
        contents = await self._open_directories()
        if not contents:
            raise StorageError("none of the log directories can be used")
        await self._run_in_thread(drop_replaced, self._machine, contents)
        await asyncio.gather(
            *(
                self._load_partitions(self._directories[path], content, topic_config, config)
                for path, content in contents.items()
            )
        )
        return contents

    async def _open_directories(self) -> dict[str, DirectoryContent]:
        contents: dict[str, DirectoryContent] = {}
        for path, directory in self._directories.items():
            try:
                contents[path] = await self._run_in_thread(directory.open)
                self.deleted |= contents[path].deleted
            except BlockingIOError:
                raise
            except OSError as error:
                self._placement.unread.append(path)
                self._failures.fail(path, str(error))
        return contents

    async def _load_partitions(
        self,
        directory: LogDirectory,
        content: DirectoryContent,
        topic_config: Callable[[str], TopicConfig],
        config: BrokerConfig,
    ) -> None:
        self.high_watermarks.update(content.high_watermarks)
        names = content.partitions
        if not content.clean and names:
            _log.info("%s was not closed cleanly, checking %d logs", directory.path, len(names))
        # Opening a clean log is a few small system calls: threads would only fight for the lock of
        # the interpreter. Recovery reads and checks data, which runs beside other threads.
        threads = 1 if content.clean else config.num_recovery_threads_per_data_dir
        free_threads = asyncio.Semaphore(threads)

        async def load(chunk: list[str]) -> None:
            async with free_threads:
                result = await self._run_in_thread(
                    directory.load,
                    chunk,
                    content,
                    topic_config,
                    self._machine.clock.now_ms(),
                    config.producer_id_expiration_ms,
                )
            self._take_up(directory, result)

        starts = range(0, len(names), PARTITIONS_PER_JOB)
        await asyncio.gather(*(load(names[at : at + PARTITIONS_PER_JOB]) for at in starts))

    def _take_up(self, directory: LogDirectory, result: LoadResult) -> None:
        self.recovery.add(result.stats)
        if result.failed:
            self._served.offline.update(result.failed)
            self.unclean.add(directory.path)
        for log in result.logs:
            self._served.adopt(log, directory)
