"""Directories that fail while the broker runs: theirs go offline, the others are not touched."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from moldau.log.directory.log_directory import LogDirectory
from moldau.log.directory.served_logs import ServedLogs
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)


class DirectoryFailures:
    def __init__(
        self,
        directories: Mapping[str, LogDirectory],
        served: ServedLogs,
        *,
        on_failed: Callable[[], None],
        on_directory: Callable[[str], None],
        on_offline: Callable[[list[TopicPartition]], None],
        on_all_offline: Callable[[], None],
    ) -> None:
        """Whoever is to be told: first of all that a directory has failed, then which, of the
        partitions that were in it, and that no directory is left.
        """
        self._directories = directories
        self._served = served
        self._on_failed = on_failed
        self._on_directory = on_directory
        self._on_offline = on_offline
        self._on_all_offline = on_all_offline

    def fail(self, path: str, reason: str) -> None:
        """Stop using a directory."""
        directory = self._directories[path]
        if not directory.is_online:
            return
        directory.offline = reason
        _log.error("log directory %s is offline: %s", path, reason)
        self._on_failed()
        logs = self._served.by_directory()[path]
        for log in logs:
            log.health.fail(f"log directory {path}: {reason}")
            self._served.forget(log)
            self._served.offline[log.topic_partition] = reason
            log.close()
        if logs:
            self._on_offline([log.topic_partition for log in logs])
        self._on_directory(path)
        if not any(other.is_online for other in self._directories.values()):
            _log.critical("all log directories have failed")
            self._on_all_offline()
