"""Making the logs of partitions that have none, each in a directory that is chosen for it."""

from __future__ import annotations

import errno
import logging
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from moldau.config.values.topic import TopicConfig
from moldau.log.directory.building import CannotCreateError, LogBuilder, WantedLog
from moldau.log.directory.log_directory import PARTITIONS_PER_JOB
from moldau.log.directory.placement import Placement
from moldau.log.directory.served_logs import ServedLogs
from moldau.log.errors import StorageError
from moldau.log.files.names import STRAY_DIR_SUFFIX
from moldau.log.partition.log import PartitionLog
from moldau.machine import Clock, RunInThread
from moldau.machine.errors import is_full, is_passing
from moldau.model import NO_TOPIC_ID, TopicPartition

_log = logging.getLogger(__name__)


class LogCreator:
    def __init__(
        self,
        clock: Clock,
        run_in_thread: RunInThread,
        builder: LogBuilder,
        placement: Placement,
        served: ServedLogs,
        fail_directory: Callable[[str, str], None],
        name_is_free: Callable[[TopicPartition], Awaitable[None]],
    ) -> None:
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._builder = builder
        self._placement = placement
        self._served = served
        self._fail_directory = fail_directory
        self._name_is_free = name_is_free
        """Returns once nothing else stands under the partition's name any more."""

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        config: TopicConfig,
        *,
        is_new: bool = False,
    ) -> PartitionLog:
        """See ``LogManager``."""
        log = self._existing(topic_partition, topic_id, config)
        if log is not None:
            return log
        self._served.check_online(topic_partition)
        directory = self._placement.for_new(topic_partition, is_new=is_new)
        log = self._builder.build(WantedLog(directory, topic_partition, topic_id, config))
        self._served.adopt(log, directory)
        return log

    async def get_or_create_many(
        self, wanted: Sequence[tuple[TopicPartition, UUID, TopicConfig]], *, is_new: bool = False
    ) -> dict[TopicPartition, PartitionLog | StorageError]:
        """As ``get_or_create`` for many at once: directories and files are made in a thread."""
        results: dict[TopicPartition, PartitionLog | StorageError] = {}
        missing: list[WantedLog] = []
        await self._run_in_thread(self._placement.look_for_room)
        for topic_partition, topic_id, config in wanted:
            try:
                log = self._existing(topic_partition, topic_id, config)
                if log is not None:
                    results[topic_partition] = log
                else:
                    self._served.check_online(topic_partition)
                    directory = self._placement.for_new(topic_partition, is_new=is_new)
                    self._placement.reserve(directory)  # so that the next one goes elsewhere
                    missing.append(WantedLog(directory, topic_partition, topic_id, config))
            except StorageError as error:
                results[topic_partition] = error
        while missing:
            chunk, missing = missing[:PARTITIONS_PER_JOB], missing[PARTITIONS_PER_JOB:]
            for log_wanted in chunk:
                await self._name_is_free(log_wanted.topic_partition)
            built = await self._run_in_thread(self._builder.build_many, chunk)
            for log_wanted, log_or_error in zip(chunk, built, strict=True):
                result = self._take_up(log_wanted, log_or_error)
                if isinstance(result, WantedLog):
                    missing.append(result)
                else:
                    results[log_wanted.topic_partition] = result
        return results

    def _take_up(
        self, wanted: WantedLog, built: PartitionLog | StorageError
    ) -> PartitionLog | StorageError | WantedLog:
        """Returns the log that is served now, where to try next, or why there is none."""
        self._placement.release(wanted.directory)
        served = self._served.logs.get(wanted.topic_partition)
        if served is not None:
            return served
        if isinstance(built, CannotCreateError):
            return self._elsewhere(wanted, built) or built
        if isinstance(built, PartitionLog):
            self._served.adopt(built, wanted.directory)
        return built

    def _elsewhere(self, failed: WantedLog, error: CannotCreateError) -> WantedLog | None:
        """Returns where else to make a log, as Kafka does."""
        directory, cause = failed.directory, error.cause
        if is_full(cause):
            directory.tell_full(error.message, self._clock.now_ms())
        elif not is_passing(cause) and cause.errno != errno.ENAMETOOLONG:
            self._fail_directory(directory.path, error.message)
        tried = failed.tried | {directory.path}
        try:
            other = self._placement.for_new(failed.topic_partition, is_new=True, tried=tried)
        except StorageError:
            return None
        self._placement.reserve(other)
        return failed._replace(directory=other, tried=tried)

    def _existing(
        self, topic_partition: TopicPartition, topic_id: UUID, config: TopicConfig
    ) -> PartitionLog | None:
        log = self._served.logs.get(topic_partition)
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
        self._served.set_aside(log, STRAY_DIR_SUFFIX)
        return None
