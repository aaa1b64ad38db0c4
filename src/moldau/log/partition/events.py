"""What a log tells whoever looks after it."""

from __future__ import annotations

from typing import Protocol

from moldau.model import TopicPartition


class LogObserver(Protocol):
    """The one that looks after logs, and hears from each as long as it is served."""

    def rolled(self, topic_partition: TopicPartition, base_offset: int) -> None:
        """A segment begins at ``base_offset``: what lies before it should be flushed soon."""
        ...

    def flush_due(self, topic_partition: TopicPartition) -> None:
        """``flush.messages`` is reached: what was appended counts once it is flushed."""
        ...

    def disk_refused(self, topic_partition: TopicPartition, doing: str, error: OSError) -> None:
        """The disk failed; or it is full, and the log goes on."""
        ...

    def segments_removed(self, topic_partition: TopicPartition, paths: list[str]) -> None:
        """The files of removed segments have these names now, and may be deleted later."""
        ...


class LogEvents:
    """The way from the parts of one log to its observer, if there is one at the time."""

    __slots__ = ("observer", "topic_partition")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.observer: LogObserver | None = None

    def rolled(self, base_offset: int) -> None:
        if self.observer is not None:
            self.observer.rolled(self.topic_partition, base_offset)

    def flush_due(self) -> None:
        if self.observer is not None:
            self.observer.flush_due(self.topic_partition)

    def disk_refused(self, doing: str, error: OSError) -> None:
        if self.observer is not None:
            self.observer.disk_refused(self.topic_partition, doing, error)

    def segments_removed(self, paths: list[str]) -> None:
        if self.observer is not None:
            self.observer.segments_removed(self.topic_partition, paths)
