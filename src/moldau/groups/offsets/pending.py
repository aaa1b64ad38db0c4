"""Offsets that belong to a transaction which is still open.

They are kept by producer id until the transaction ends, then become committed offsets or vanish. As
long as they are pending, a reader who asks for stable offsets must wait, and the committed offset
under them does not expire.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.groups.offsets.table import CommittedOffset, OffsetTable


class PendingOffsets:
    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, OffsetTable] = {}

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def put(
        self, producer_id: int, group: str, topic: str, partition: int, committed: CommittedOffset
    ) -> None:
        table = self._by_producer.setdefault(producer_id, OffsetTable())
        table.put(group, topic, partition, committed)

    def remove(self, group: str, topic: str, partition: int) -> None:
        """A tombstone takes the offset out of all transactions."""
        for producer_id, table in list(self._by_producer.items()):
            if table.remove(group, topic, partition) and not table.size:
                del self._by_producer[producer_id]

    def end(self, producer_id: int) -> OffsetTable | None:
        """The transaction is over: what it held."""
        return self._by_producer.pop(producer_id, None)

    def groups(self) -> set[str]:
        return {group for table in self._by_producer.values() for group in table.groups()}

    def has_group(self, group: str) -> bool:
        return any(table.has_group(group) for table in self._by_producer.values())

    def contains(self, group: str, topic: str, partition: int) -> bool:
        return any(
            table.get(group, topic, partition) is not None for table in self._by_producer.values()
        )

    def items(self) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        for table in self._by_producer.values():
            yield from table.items()

    def of_group(self, group: str) -> set[tuple[str, int]]:
        """The partitions for which the group's transactions hold offsets."""
        return {
            (topic, partition)
            for table in self._by_producer.values()
            for topic, partitions in table.topics(group).items()
            for partition in partitions
        }
