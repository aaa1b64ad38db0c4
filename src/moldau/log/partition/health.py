"""Whether a log can be used, and what an error of its disk means for it (ADR 7)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moldau.log.errors import StorageError
from moldau.log.partition.events import LogEvents
from moldau.machine.errors import is_full, is_passing

_log = logging.getLogger(__name__)


class LogHealth:
    """A log is online until its disk fails it; then it is offline for good."""

    __slots__ = ("_events", "failure", "on_failure")

    def __init__(self, events: LogEvents) -> None:
        self._events = events
        self.failure: str | None = None
        """Why the log is offline, if it is."""
        self.on_failure: Callable[[str], None] | None = None
        """Called once with the reason, when the log has gone offline."""

    def check(self) -> None:
        """Raises KAFKA_STORAGE_ERROR if the log is offline."""
        if self.failure is not None:
            raise StorageError(f"{self._events.topic_partition} is offline: {self.failure}")

    def fail(self, reason: str) -> None:
        """Take the log offline: from now on every call raises KAFKA_STORAGE_ERROR."""
        if self.failure is None:
            self.failure = reason
            _log.error("%s is offline: %s", self._events.topic_partition, reason)
            if self.on_failure is not None:
                self.on_failure(reason)

    def retire(self, reason: str) -> None:
        """As ``fail``, but nothing is wrong: whoever still holds the log gets an error."""
        self.failure = reason

    def storage_error(self, doing: str, error: Exception) -> StorageError:
        """Returns what to raise. The log goes offline, unless the error passes or the disk is only
        full (and the caller has changed nothing).
        """
        if is_passing(error):
            _log.warning("%s: %s: %s", self._events.topic_partition, doing, error)
        elif is_full(error):
            self._tell_observer(doing, error)
        else:
            return self.fatal_error(doing, error)
        return StorageError(f"{self._events.topic_partition}: {doing}: {error}")

    def fatal_error(self, doing: str, error: Exception) -> StorageError:
        """Returns what to raise. The log goes offline, whatever the error is."""
        self.fail(f"{doing}: {error}")
        self._tell_observer(doing, error)
        return StorageError(f"{self._events.topic_partition} is offline: {doing}: {error}")

    def _tell_observer(self, doing: str, error: Exception) -> None:
        if isinstance(error, OSError):
            self._events.disk_refused(doing, error)

    @contextmanager
    def storage_errors(self, doing: str) -> Iterator[None]:
        """An OSError inside becomes what ``storage_error`` makes of it."""
        try:
            yield
        except OSError as error:
            raise self.storage_error(doing, error) from error

    @contextmanager
    def fatal_errors(self, doing: str) -> Iterator[None]:
        """An OSError inside becomes what ``fatal_error`` makes of it."""
        try:
            yield
        except OSError as error:
            raise self.fatal_error(doing, error) from error
