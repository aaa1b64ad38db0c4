"""The committed offsets of all groups of one partition of ``__consumer_offsets``.

State changes in ``replay`` and ``end_transaction`` only. Everything else reads the state and says
which records would change it; whoever runs the coordinator appends them and replays them here.
Answers to requests are made in ``moldau.groups.offsets.requests``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from moldau.groups.offsets.pending import PendingOffsets
from moldau.groups.offsets.retention import Retention
from moldau.groups.offsets.table import CommittedOffset, OffsetTable
from moldau.groups.records import tombstone
from moldau.groups.settings import GroupSettings
from moldau.outcome import Record
from moldau.wire.stored.group_records import OffsetCommitKey, OffsetCommitValue

NO_PRODUCER_ID = -1


class Expired(NamedTuple):
    records: list[Record]
    """The tombstones of what has expired."""
    nothing_left: bool
    """Whether the group has no offset any more, once these are replayed; then an empty group
    goes too."""


class OffsetStore:
    __slots__ = ("_pending", "_sequence", "_table", "settings")

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self._table = OffsetTable()
        self._pending = PendingOffsets()
        self._sequence = 0

    # What is there

    def __len__(self) -> int:
        return self._table.size

    def groups(self) -> Iterator[str]:
        """The groups that have committed something, if only in an open transaction."""
        yield from self._table.groups()
        yield from (group for group in self._pending.groups() if not self._table.has_group(group))

    def has_offsets(self, group: str) -> bool:
        return self._table.has_group(group)

    def has_open_transactions(self, group: str) -> bool:
        return self._pending.has_group(group)

    def topics(self, group: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """What a group has committed, by topic and partition."""
        return self._table.topics(group)

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._table.get(group, topic, partition)

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction holds an offset for this partition."""
        return bool(self._pending) and self._pending.contains(group, topic, partition)

    # How it changes

    def replay(
        self,
        key: OffsetCommitKey,
        value: OffsetCommitValue | None,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """Take over a record. With a producer id it waits for the end of that transaction."""
        if value is None:
            self._table.remove(key.group, key.topic, key.partition)
            self._pending.remove(key.group, key.topic, key.partition)
            return
        self._sequence += 1
        committed = CommittedOffset.of(value, self._sequence)
        if producer_id == NO_PRODUCER_ID:
            self._table.put(key.group, key.topic, key.partition, committed)
        else:
            self._pending.put(producer_id, key.group, key.topic, key.partition, committed)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Take over the marker that ends a transaction."""
        ended = self._pending.end(producer_id)
        if ended is None or not commit:
            return
        for group, topic, partition, committed in ended.items():
            # A plain commit that was written after the transactional one stays: it is what
            # compaction keeps too.
            current = self._table.get(group, topic, partition)
            if current is None or committed.sequence > current.sequence:
                self._table.put(group, topic, partition, committed)

    # What would change it

    def delete(self, group: str, partitions: Iterable[tuple[str, int]]) -> list[Record]:
        """The tombstones of these offsets, as far as they exist."""
        return [
            _tombstone(group, topic, partition)
            for topic, partition in partitions
            if self.get(group, topic, partition) is not None
            or self.is_pending(group, topic, partition)
        ]

    def delete_group(self, group: str) -> list[Record]:
        """The tombstones of everything a group has committed, open transactions included."""
        partitions = {
            (topic, partition)
            for topic, offsets in self._table.topics(group).items()
            for partition in offsets
        }
        partitions |= self._pending.of_group(group)
        return [_tombstone(group, topic, partition) for topic, partition in sorted(partitions)]

    def expire(self, group: str, retention: Retention | None, now_ms: int) -> Expired:
        """What of a group's offsets has outlived its time; without a ``Retention``, nothing."""
        topics = self._table.topics(group)
        records: list[Record] = []
        kept = self._pending.has_group(group)
        if retention is None:
            return Expired(records, not topics and not kept)
        retention_ms = self.settings.offsets_retention_ms
        for topic, partitions in topics.items():
            if retention.is_subscribed(topic):
                kept = True
                continue
            for partition, committed in partitions.items():
                if committed.is_expired(
                    now_ms, retention_ms, retention.since_ms
                ) and not self.is_pending(group, topic, partition):
                    records.append(_tombstone(group, topic, partition))
                else:
                    kept = True
        return Expired(records, not kept)

    def remove_topics(self, deleted: Iterable[tuple[str, UUID]]) -> list[Record]:
        """The tombstones of all offsets of deleted topics, given by name and id.

        An offset that was committed for another topic of the same name, one created since, stays.
        """
        ids = dict(deleted)
        gone: dict[tuple[str, str, int], None] = {}
        for table in (self._table, self._pending):
            for group, topic, partition, committed in table.items():
                if topic in ids and committed.is_of(ids[topic]):
                    gone[group, topic, partition] = None
        return [_tombstone(*key) for key in gone]


def _tombstone(group: str, topic: str, partition: int) -> Record:
    return tombstone(OffsetCommitKey(group, topic, partition))
