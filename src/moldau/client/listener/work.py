"""The records of one partition on their way through the handlers.

Records wait in *lanes*: of one lane, one record at a time is handled, in the order of the log. What
a lane is depends on the ordering: the partition, a key, or the single record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from enum import Enum

from moldau.client.listener.acks import AckTracker
from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord


class Ordering(Enum):
    """Which records are handled one after the other."""

    PARTITION = "partition"
    """All of a partition."""
    KEY = "key"
    """Those of a partition with the same key; records without a key wait for nobody."""
    UNORDERED = "unordered"
    """None."""


class Work:
    """One record to be handled, perhaps more than once."""

    __slots__ = (
        "attempts",
        "due",
        "finished",
        "handled",
        "lane",
        "lost",
        "owner",
        "record",
        "running",
    )

    def __init__(
        self, record: ConsumerRecord, owner: PartitionWork, lane: Hashable, due: float
    ) -> None:
        self.record = record
        self.owner = owner
        self.lane = lane
        self.due = due
        """Not to be handled before this time."""
        self.attempts = 0
        """How often the handler was called with it since it was read."""
        self.running = False
        self.handled = False
        """The handler is through with it."""
        self.finished = False
        """It counts for commits; with manual acknowledgment that may be later."""
        self.lost = False
        """The log has lost it since: it counts for nothing."""

    @property
    def is_over(self) -> bool:
        """Whether no handler may begin with it any more."""
        return self.lost or self.owner.closed

    def __repr__(self) -> str:
        record = self.record
        return f"{record.topic}-{record.partition} offset {record.offset}"


class PartitionWork:
    """What one assignment of a partition has brought; its next assignment gets a new one."""

    __slots__ = (
        "_lanes",
        "_ordering",
        "closed",
        "partition",
        "ready",
        "running",
        "tracker",
        "unacknowledged",
    )

    def __init__(
        self,
        partition: TopicPartition,
        ordering: Ordering,
        finished_before: frozenset[int] = frozenset(),
    ) -> None:
        self.partition = partition
        self.tracker = AckTracker(finished_before)
        self.ready: deque[Work] = deque()
        """Heads of lanes that may be handled now."""
        self.running = 0
        self.unacknowledged = 0
        """Handled, but not finished."""
        self.closed = False
        """No longer ours, or ending: nothing new begins."""
        self._ordering = ordering
        self._lanes: dict[Hashable, deque[Work]] = {}

    @property
    def in_flight(self) -> int:
        """Records that a handler has begun with and that are not finished."""
        return self.running + self.unacknowledged

    def enter(self, record: ConsumerRecord, due: float) -> Work | None:
        """Put a record at the end of its lane; returns it if it is the head."""
        if not self.tracker.delivered(record.offset, record.leader_epoch):
            return None
        name = self._lane_of(record)
        lane = self._lanes.setdefault(name, deque())
        work = Work(record, self, name, due)
        lane.append(work)
        return work if len(lane) == 1 else None

    def leave(self, work: Work) -> Work | None:
        """The handler is through with the head of a lane; returns the next record."""
        lane = self._lanes[work.lane]
        lane.popleft()
        if lane:
            return lane[0]
        del self._lanes[work.lane]
        return None

    def go_back(self, offset: int) -> None:
        """The log was cut off at this offset: forget what lay there; what runs may still finish."""
        self.tracker.go_back(offset)
        for name, lane in tuple(self._lanes.items()):
            for work in lane:
                work.lost |= work.record.offset >= offset
            kept = deque(work for work in lane if work.running or not work.lost)
            if kept:
                self._lanes[name] = kept
            else:
                del self._lanes[name]
        self.ready = deque(work for work in self.ready if not work.lost)

    def close(self) -> None:
        """Forget what no handler has begun with; what runs may still finish."""
        self.closed = True
        self.ready.clear()
        self._lanes = {
            name: deque([lane[0]]) for name, lane in self._lanes.items() if lane[0].running
        }

    def _lane_of(self, record: ConsumerRecord) -> Hashable:
        if self._ordering is Ordering.PARTITION:
            return None
        if self._ordering is Ordering.KEY and record.key is not None:
            return bytes(record.key)
        return record.offset
