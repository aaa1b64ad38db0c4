"""Which dead letters are written already: what the end of their partition says. No IO.

Letters of one partition of a source lie in one partition of the dead-letter topic. They are in no
order: tasks that read parts of one partition write side by side, and a query may begin anew. So
each letter says up to where the partition had been read when it was written, by anybody. Whoever
runs a batch reads back until that is before the batch, or to the topic's beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.client.listener.headers import Failure
from moldau.client.producer.murmur import partition_for_key
from moldau.model import TopicPartition

FIRST_SPAN: Final = 500
"""Letters that are read at first; each step back is twice as long."""


class Writer(NamedTuple):
    """Whose letters of which partition: others' in the same topic do not count."""

    pipeline: str
    group: str
    """Of a pipeline it does not matter: a backfill has none, nor is it to write letters again."""
    partition: TopicPartition
    topic_id: str
    """A topic that was made anew has other records at the same offsets."""

    def wrote(self, failure: Failure) -> bool:
        source = failure.source
        return (
            (source.topic, source.partition) == self.partition
            and failure.topic_id == self.topic_id
            and failure.pipeline == self.pipeline
            and (bool(self.pipeline) or failure.group == self.group)
        )


class Tail:
    """Takes letters, the last ones first, until it knows all that a batch may have."""

    def __init__(self, writer: Writer, batch_start: int) -> None:
        self._writer = writer
        self._batch_start = batch_start
        self.offsets: set[int] = set()
        """Of records that have their letter."""
        self.is_known = False
        """Whether there can be none before those that were read."""
        self.read_until = 0
        """As far as letters say; for those that are written next."""

    def take(self, failure: Failure) -> None:
        if self._writer.wrote(failure):
            self.offsets.add(failure.source.offset)
            self.read_until = max(self.read_until, failure.read_until)
            self.is_known |= 0 < failure.read_until <= self._batch_start


def target_partition(source: TopicPartition, partitions: int) -> int:
    """Where all letters of a partition go, as long as the dead-letter topic gets no more."""
    return partition_for_key(f"{source.topic}-{source.partition}".encode(), partitions)


def spans(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """What to read of ``begin`` up to ``end``, from the end backwards."""
    length = FIRST_SPAN
    while end > begin:
        start = max(begin, end - length)
        yield start, end
        end, length = start, length * 2
