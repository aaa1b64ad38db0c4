"""What ``poll`` returns: records grouped by partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord


class ConsumerRecords(Mapping[TopicPartition, list[ConsumerRecord]]):
    """A mapping from partition to its records, in order; false when there are none.

    ``len()`` is the number of partitions, as for every mapping; ``count`` that of records.
    """

    __slots__ = ("_by_partition",)

    def __init__(self, by_partition: dict[TopicPartition, list[ConsumerRecord]]) -> None:
        self._by_partition = by_partition

    @property
    def count(self) -> int:
        return sum(map(len, self._by_partition.values()))

    def records(self) -> Iterator[ConsumerRecord]:
        """One after the other, partition by partition."""
        for records in self._by_partition.values():
            yield from records

    def of_topic(self, topic: str) -> Iterator[ConsumerRecord]:
        for partition, records in self._by_partition.items():
            if partition.topic == topic:
                yield from records

    def __getitem__(self, partition: TopicPartition) -> list[ConsumerRecord]:
        return self._by_partition[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._by_partition)

    def __len__(self) -> int:
        return len(self._by_partition)

    def __repr__(self) -> str:
        shares = ", ".join(f"{key}: {len(rows)}" for key, rows in self._by_partition.items())
        return f"<ConsumerRecords {{{shares}}}>"


EMPTY = ConsumerRecords({})
