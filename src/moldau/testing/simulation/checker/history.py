"""What clients did and saw, as the checker reads it.

Records tell who sent them, and the how manieth they are; so whatever a reader finds can be held
against what was sent. Times are virtual seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from moldau.model import TopicPartition
from moldau.testing.simulation.checker.crash import Crash
from moldau.testing.simulation.checker.promise import harmful_cuts, is_promised

ATTEMPT: Final = 5.0
"""Seconds that a client waits for an answer before it asks again."""


class RecordId(NamedTuple):
    """The identity of a record: a producer's life, and a number that rises with every send."""

    producer: str
    number: int

    def __str__(self) -> str:
        return f"{self.producer}/{self.number}"


class Fate(Enum):
    """What became of something that a client asked for."""

    UNKNOWN = auto()
    """It may have happened, may happen still, or may never have."""
    DONE = auto()
    """The broker said so."""


@dataclass(slots=True)
class Send:
    """A record, from the moment its producer sent it."""

    id: RecordId
    partition: TopicPartition
    at: float
    acks: int
    idempotent: bool
    ordered: bool
    """Whether the producer promises to keep the order: idempotent, or one request at a time."""
    key: bytes | None = None
    fate: Fate = Fate.UNKNOWN
    settled_at: float = 0.0
    heard_at: float = 0.0
    """Since when the answer may have been there: before ``settled_at`` if the program was paused
    in between."""
    offset: int = -1


class Sight(NamedTuple):
    """A record that a reader was given."""

    at: float
    """When the program got it, or was done with it; it may have been fetched long before."""
    reader: str
    group: str
    """Empty for a reader without one."""
    partition: TopicPartition
    offset: int
    id: RecordId | None
    """None if the content is nothing that anybody sent."""


@dataclass(slots=True)
class Commit:
    """An offset that a member of a group asked to be committed."""

    group: str
    member: str
    partition: TopicPartition
    offset: int
    at: float
    fate: Fate = Fate.UNKNOWN
    settled_at: float = 0.0
    heard_at: float = 0.0
    """Since when the answer may have been there."""

    @property
    def may_come_again(self) -> bool:
        """Whether it was asked for more than once: the first time may have its effect later."""
        return self.settled_at - self.at >= ATTEMPT


class CommittedOffset(NamedTuple):
    """A committed offset as the broker told it to somebody who asked between two times."""

    group: str
    partition: TopicPartition
    offset: int
    """-1 for none."""
    asked_at: float
    told_at: float


@dataclass(slots=True)
class Ownership:
    """A partition that a member believed to be its own, in one generation of its group."""

    group: str
    member: str
    generation: int
    """Negative while the member is in none."""
    partition: TopicPartition
    since: float
    heard_at: float
    """Since when the assignment may have been there."""
    until: float = float("inf")


class TopicAction(Enum):
    CREATE = auto()
    DELETE = auto()
    GROW = auto()
    ALTER = auto()
    """Set ``retention.bytes``, which changes nothing that the other checks look at."""


UNSET = -1
"""The value of ``retention.bytes`` where nobody has set it."""


@dataclass(slots=True)
class TopicChange:
    """Something that an administrator asked for."""

    action: TopicAction
    topic: str
    value: int
    """Partitions of CREATE and GROW, the setting's value of ALTER."""
    at: float
    fate: Fate = Fate.UNKNOWN
    settled_at: float = 0.0

    @property
    def may_come_again(self) -> bool:
        """Whether it was asked for more than once: the first time may have its effect later."""
        return self.settled_at - self.at >= ATTEMPT


class TopicSight(NamedTuple):
    """A topic as the broker described it to somebody who asked between two times."""

    topic: str
    exists: bool
    partitions: int
    setting: int | None
    """The value of what ALTER sets, ``UNSET`` if nobody has; None if nobody asked for it."""
    asked_at: float
    told_at: float


class LostSession(NamedTuple):
    """A session that the coordination store ended because it had not heard of its owner."""

    at: float
    owner: str
    """The node."""
    timeout: float
    store_began_at: float
    """When the store's present life began."""


class Deletion(NamedTuple):
    """Records that an administrator asked to be deleted: all before an offset."""

    partition: TopicPartition
    offset: int
    at: float


class FinalLog(NamedTuple):
    """A partition as it is read at the end, from its start."""

    partition: TopicPartition
    start_offset: int
    end_offset: int
    records: list[tuple[int, RecordId | None]]
    read_at: float = float("inf")
    """When the end was known. What a producer had given up may be stored even later."""


@dataclass(slots=True)
class History:
    """Everything that the checks look at, in the order in which it happened."""

    now: Callable[[], float]
    brokers: int = 1
    """How many have every record."""
    sends: dict[RecordId, Send] = field(default_factory=dict)
    sights: list[Sight] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    committed: list[CommittedOffset] = field(default_factory=list)
    ownerships: list[Ownership] = field(default_factory=list)
    topic_changes: list[TopicChange] = field(default_factory=list)
    topic_sights: list[TopicSight] = field(default_factory=list)
    crashes: list[Crash] = field(default_factory=list)
    caught_up: list[float] = field(default_factory=list)
    """When every replica of every partition was in sync."""
    truces: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, float("inf"))])
    """Between which times every broker knows what is true. In a cluster, one that others do not
    reach may tell what was true once, as Kafka's may."""
    lost_sessions: list[LostSession] = field(default_factory=list)
    damages: list[float] = field(default_factory=list)
    """When the coordination store was damaged."""
    final_logs: dict[TopicPartition, FinalLog] = field(default_factory=dict)
    errors: list[tuple[float, str, str]] = field(default_factory=list)
    """Time, node and text of what a program logged as an error that it did not expect."""
    noting_groups: set[str] = field(default_factory=set)
    """Groups whose members note each of their commits."""
    synced_always: bool = False
    """Whether the broker syncs before it acknowledges (``flush.messages=1``)."""
    retention: bool = False
    """Whether brokers delete old records by themselves."""
    deletions: list[Deletion] = field(default_factory=list)
    compacted: set[str] = field(default_factory=set)
    """Topics of which only the last record of every key is kept."""

    def may_have_lost(self, heard_at: float) -> bool:
        """Whether a power cut since then may have taken something that was not synced."""
        return bool(self.cuts_since(heard_at))

    def cuts_since(self, heard_at: float) -> list[float]:
        """Returns the times of the power cuts that may have taken what was there at a time."""
        if self.synced_always:
            return []
        harmful = harmful_cuts(self.crashes, self.caught_up, brokers=self.brokers)
        return [at for at in harmful if at >= heard_at]

    def is_promised(self, send: Send) -> bool:
        """Whether a record that was acknowledged so must stay."""
        return is_promised(send.acks, brokers=self.brokers)

    def is_trusted(self, asked_at: float, told_at: float) -> bool:
        """Whether what a client was told between two times must be true."""
        return any(begin <= asked_at and told_at <= end for begin, end in self.truces)

    def may_be_deleted(self, partition: TopicPartition, offset: int) -> bool:
        """Whether a record may have been deleted because it was old."""
        return self.retention or self.was_asked_to_go(partition, offset)

    def was_asked_to_go(self, partition: TopicPartition, offset: int) -> bool:
        """Whether somebody asked for a record to be deleted."""
        return any(
            deletion.partition == partition and offset < deletion.offset
            for deletion in self.deletions
        )

    def is_compacted(self, partition: TopicPartition) -> bool:
        return partition.topic in self.compacted

    def last_offsets(self, log: FinalLog) -> dict[bytes | None, int]:
        """Returns the last offset of every key."""
        return {
            self.sends[record].key: offset
            for offset, record in log.records
            if record is not None and record in self.sends
        }

    def lasting_offsets(self, log: FinalLog) -> list[int]:
        """Returns the offsets of the records that whoever reads later must still be given."""
        if self.is_compacted(log.partition):
            return sorted(self.last_offsets(log).values())
        partition = log.partition
        return [offset for offset, _ in log.records if not self.was_asked_to_go(partition, offset)]
