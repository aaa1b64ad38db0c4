"""What is done about the things that happen to served logs."""

from __future__ import annotations

from moldau.log.directory.failures import DirectoryFailures
from moldau.log.directory.placement import Placement
from moldau.log.directory.served_logs import ServedLogs
from moldau.log.upkeep.flush_scheduler import FlushScheduler
from moldau.log.upkeep.removal import DelayedRemoval
from moldau.machine import Clock
from moldau.machine.errors import is_full
from moldau.model import TopicPartition


class ServedLogObserver:
    """The ``LogObserver`` of all logs that are served."""

    def __init__(
        self,
        clock: Clock,
        served: ServedLogs,
        placement: Placement,
        flushes: FlushScheduler,
        removal: DelayedRemoval,
        failures: DirectoryFailures,
    ) -> None:
        self._clock = clock
        self._served = served
        self._placement = placement
        self._flushes = flushes
        self._removal = removal
        self._failures = failures

    def rolled(self, topic_partition: TopicPartition, base_offset: int) -> None:
        self._flushes.request(self._served.logs[topic_partition], base_offset)

    def flush_due(self, topic_partition: TopicPartition) -> None:
        log = self._served.logs[topic_partition]
        self._flushes.request(log, log.log_end_offset)

    def segments_removed(self, topic_partition: TopicPartition, paths: list[str]) -> None:
        delay_ms = self._served.logs[topic_partition].config.file_delete_delay_ms
        self._removal.remove_files(paths, delay_ms)

    def disk_refused(self, topic_partition: TopicPartition, doing: str, error: OSError) -> None:
        """A full disk is waited for; any other error is taken for the end of the directory."""
        directory = self._placement.home(topic_partition)
        problem = f"{doing} of {topic_partition}: {error}"
        if is_full(error):
            directory.tell_full(problem, self._clock.now_ms())
        else:
            self._failures.fail(directory.path, problem)
