"""Directories that fail while the broker runs: theirs go offline, the others are not touched."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from moldau.log.directory.log_directory import LogDirectory
from moldau.log.directory.served_logs import ServedLogs
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)


def _ignore(_: object) -> None: ...


def _do_nothing() -> None: ...


class DirectoryFailures:
    def __init__(self, directories: Mapping[str, LogDirectory], served: ServedLogs) -> None:
        self._directories = directories
        self._served = served
        self.on_directory: Callable[[str], None] = _ignore
        """Called with a directory that has failed."""
        self.on_offline: Callable[[list[TopicPartition]], None] = _ignore
        """Called with the partitions that went offline with their directory."""
        self.on_all_offline: Callable[[], None] = _do_nothing
        """Called when no directory is left."""

    def fail(self, path: str, reason: str) -> None:
        """Stop using a directory."""
        directory = self._directories[path]
        if not directory.is_online:
            return
        directory.offline = reason
        _log.error("log directory %s is offline: %s", path, reason)
        logs = self._served.by_directory()[path]
        for log in logs:
            log.health.fail(f"log directory {path}: {reason}")
            self._served.forget(log)
            self._served.offline[log.topic_partition] = reason
            log.close()
        if logs:
            self.on_offline([log.topic_partition for log in logs])
        self.on_directory(path)
        if not any(one.is_online for one in self._directories.values()):
            _log.critical("all log directories have failed")
            self.on_all_offline()
