"""One assigned partition: where the user is in it, what was fetched of it, and what may be done.

All that is known about its position is here and nowhere else, in the order of the log:

``mark``
    Where the user is for certain. None unless records behind it are on their way to the user.
``position``
    What the user reads next; commits count what lies before it.
``taken_to``
    What leaves the buffer next. Not the position while a poll's records are given one by one.
``fetch_from``
    What a broker is asked for next: behind all that is buffered.

The event loop moves them, the user's thread takes records: each holds the lock of the
``BufferSpace``, so that place and buffered records change together (docs/adr/0014). The fetch
states are an Enum with a table of legal predecessors; ``tests`` walk every pair.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final

from moldau.client.consumer.fetch.fetched import Convert, FetchedRecords
from moldau.client.consumer.position import NO_EPOCH, Position
from moldau.client.consumer.reset import ResetPolicy
from moldau.client.user_threads import new_lock
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.records.consumer_record import ConsumerRecord
from moldau.records.reader import RecordColumns


class FetchState(Enum):
    """What a partition waits for before records can be fetched."""

    INITIALIZING = "initializing"
    """Assigned a moment ago: the committed offset has to be looked up."""

    AWAIT_RESET = "await reset"
    """There is no offset to go on from: the start or end of the log has to be looked up."""

    AWAIT_VALIDATION = "await validation"
    """The leader has changed: it may have less than we have read (KIP-320), so ask first."""

    FETCHING = "fetching"
    """The position is good."""


PREDECESSORS: Final[dict[FetchState, frozenset[FetchState]]] = {
    FetchState.INITIALIZING: frozenset(),
    FetchState.AWAIT_RESET: frozenset(FetchState),
    FetchState.AWAIT_VALIDATION: frozenset({FetchState.FETCHING}),
    FetchState.FETCHING: frozenset(FetchState),
}


class BufferSpace:
    """What the partitions of a consumer share: the lock, and the bytes they may hold together."""

    __slots__ = ("dropped", "limit", "lock", "used")

    def __init__(self, limit: int) -> None:
        self.lock = new_lock()
        self.limit = limit
        self.used = 0
        self.dropped: Callable[[TopicPartition], object] = lambda _: None
        """Told of every partition whose records are void from here on."""

    @property
    def left(self) -> int:
        """Bytes that may still be fetched; not negative."""
        return max(0, self.limit - self.used)


class PartitionState:
    """``version`` changes with every jump: what was fetched, or polled, before it is void."""

    __slots__ = (
        "_space",
        "buffered",
        "fetch_from",
        "fetch_state",
        "fetched",
        "high_watermark",
        "iterated",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "mark",
        "partition",
        "paused",
        "pending_revocation",
        "preferred_replica",
        "preferred_until",
        "reset_policy",
        "retry_at",
        "stored",
        "taken_to",
        "version",
    )

    def __init__(self, partition: TopicPartition, space: BufferSpace) -> None:
        self.partition = partition
        self._space = space
        self.fetch_state = FetchState.INITIALIZING
        self.mark: Position | None = None
        self.iterated: tuple[int, Position] | None = None
        """How far an iteration over the records of a poll has come, and in which version. Set by
        the user's thread without the lock: in another version it means nothing."""
        self.taken_to: Position | None = None
        self.fetch_from = 0
        self.version = 0
        self.stored: OffsetAndMetadata | None = None
        """What the user has stored for the next commit, with enable.auto.offset.store=false."""
        self.fetched: deque[FetchedRecords] = deque()
        """What is buffered, from ``taken_to`` on."""
        self.buffered = 0
        """Its bytes."""
        self.paused = False
        self.pending_revocation = False
        """Being given away, or gone: nothing more may be handed out."""
        self.leader_epoch = NO_EPOCH
        """The leader's epoch when the position was last known to be good."""
        self.reset_policy: ResetPolicy | None = None
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.preferred_replica: int | None = None
        self.preferred_until = 0.0
        self.retry_at = 0.0

    @property
    def position(self) -> Position | None:
        iterated = self.iterated
        if iterated is not None and iterated[0] == self.version:
            return iterated[1]
        return self.taken_to

    @property
    def deliverable(self) -> bool:
        """Whether records may be handed to the user."""
        return (
            self.fetch_state is FetchState.FETCHING
            and not self.paused
            and not self.pending_revocation
        )

    @property
    def needs_work(self) -> bool:
        return self.fetch_state is not FetchState.FETCHING

    # -- jumps: what was fetched for the old place goes with them

    def seek(self, position: Position, leader_epoch: int = NO_EPOCH) -> None:
        """Go on from another place.

        A place that the leader of some epoch named needs no validation by it.
        """
        with self._space.lock:
            self._become(FetchState.FETCHING)
            self._jump(position)
            self.reset_policy = None
            self.leader_epoch = leader_epoch
        self._space.dropped(self.partition)

    def request_reset(self, policy: ResetPolicy) -> None:
        with self._space.lock:
            self._become(FetchState.AWAIT_RESET)
            self._jump(None)
            self.reset_policy = policy
        self._space.dropped(self.partition)

    def truncate(self, end: Position) -> None:
        """The new leader's log ends before what we have taken: go on where it ends, or before.

        What was polled and not given yet, or is on its way to the user and gets lost, comes again
        as far as the log still has it.
        """
        with self._space.lock:
            mark, position = self.mark, self.position
            self._become(FetchState.FETCHING)
            self._jump(_lower(position, end))
            self.mark = None if mark is None else _lower(mark, end)
        self._space.dropped(self.partition)

    def close(self) -> None:
        """The partition is no longer ours."""
        with self._space.lock:
            self.pending_revocation = True
            self._jump(None)
        self._space.dropped(self.partition)

    # -- leaders

    def leader_changed(self, epoch: int) -> bool:
        """If this is a newer leader, and there is something to ask it about: validate first."""
        if epoch <= self.leader_epoch or self.taken_to is None:
            return False
        with self._space.lock:
            self.leader_epoch = epoch
            self.preferred_replica = None
            if self.taken_to.offset_epoch == NO_EPOCH or self.needs_work:
                return False
            self._become(FetchState.AWAIT_VALIDATION)
            return True

    def validated(self, taken_to: Position) -> None:
        """The new leader has all that lies before this.

        If the user's thread took more while the leader was asked, that has to be asked again.
        """
        with self._space.lock:
            if self.taken_to == taken_to:
                self._become(FetchState.FETCHING)

    def retry_later(self, at: float) -> None:
        self.retry_at = at

    # -- records in and out; the lock is held

    def add(self, fetched: FetchedRecords, end: int) -> None:
        """More records, from ``fetch_from`` to ``end``."""
        self.fetched.append(fetched)
        self.fetch_from = end
        self._count(fetched.size)

    def take(self, records: list[ConsumerRecord], limit: int, convert: Convert | None) -> None:
        """Move records from the buffer to the list until that has so many."""
        while len(records) < limit and self.fetched:
            first = self.fetched[0]
            decoded = first.take(limit - len(records), convert)
            self.taken_to = first.position
            if decoded:
                records += decoded
            else:
                self._count(-self.fetched.popleft().size)

    def take_columns(self) -> RecordColumns | None:
        """A whole batch, maybe without records; None when there is none."""
        while self.fetched:
            first = self.fetched[0]
            columns = first.take_columns()
            self.taken_to = first.position
            if columns is not None:
                return columns
            self._count(-self.fetched.popleft().size)
        return None

    # -- parts

    def _jump(self, position: Position | None) -> None:
        self.version += 1
        self.mark = None
        self.taken_to = position
        if position is not None:
            self.fetch_from = position.offset
        self.preferred_replica = None
        self.retry_at = 0.0
        self.fetched.clear()
        self._count(-self.buffered)

    def _count(self, size: int) -> None:
        self.buffered += size
        self._space.used += size

    def _become(self, state: FetchState) -> None:
        if self.fetch_state not in PREDECESSORS[state]:
            raise ValueError(
                f"a partition cannot go from {self.fetch_state.value} to {state.value}"
            )
        self.fetch_state = state


def _lower(position: Position | None, end: Position) -> Position:
    return position if position is not None and position.offset < end.offset else end
