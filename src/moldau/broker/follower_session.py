"""The fetch session of a follower, which looks only at partitions that changed.

A follower has thousands of partitions, of which few are busy. Each of them watches the partition
here that it follows, and is told of appends, of high watermarks that move, and of leaderships that
end. Then it is *awake*: the next fetch reads it, and the fetch that waits looks again. When the
follower is at the end and was told all that there is to tell, it sleeps again. So a fetch costs
nothing for what is quiet, whether it is read at once or waits.

A few of those that sleep are looked at with each fetch, in turn: what nobody tells of, such as a
log start that retention moves, does not stay unsaid for long.
"""

from __future__ import annotations

from typing import Final

from moldau.broker.fetch_session import (
    FetchSession,
    PartitionKey,
    PartitionMap,
    SessionPartition,
)
from moldau.replication import FollowerFetches, ParkedFetch, Partition
from moldau.wire.fetch import FetchedPartition, FetchPartition

LOOKED_AT_IN_TURN: Final = 16
"""Quiet partitions that each fetch reads, too."""


class FollowerPartition(SessionPartition):
    """One that a follower fetches; it waits for news as a parked fetch does (``FetchWaiter``)."""

    __slots__ = ("_watched", "session", "was_touched")

    def __init__(self, key: PartitionKey, want: FetchPartition) -> None:
        super().__init__(key, want)
        self.session: FollowerSession | None = None
        self.was_touched = False
        """Something happened since it was read."""
        self._watched: Partition | None = None

    def change(self, want: FetchPartition) -> None:
        """The follower asks for something else. It may have thrown the last answer away, which was
        to an earlier epoch: it is told again what is committed.
        """
        super().change(want)
        self.told_high_watermark = -1

    def watch(self, partition: Partition) -> None:
        """It is read now: be told of what comes after."""
        self.was_touched = False
        if self.session is not None and self._watched is not partition:
            self.leave()
            self._watched = partition
            partition.watch(self)

    def leave(self) -> None:
        watched, self._watched = self._watched, None
        if watched is not None:
            watched.unwatch(self)
            if self.session is not None:
                watched.forget_fetches(self.session.replica_id, self.session.fetches)

    def was_read(self, answer: FetchedPartition, *, has_more: bool) -> None:
        """What there is was seen. If the follower knows it all already, look no more at this."""
        if has_more:
            self.was_touched = True  # the answer had no room for it
        elif (
            self.session is not None
            and not self.was_touched
            and not answer.records
            and answer.diverging_epoch is None
            and answer.high_watermark == self.told_high_watermark
            and answer.log_start_offset == self.told_log_start
        ):
            self.session.awake.pop(self.key, None)

    @property
    def fetches(self) -> FollowerFetches | None:
        return None if self.session is None else self.session.fetches

    def progress(self, size: int) -> None:
        if self.session is not None:
            self.session.wake(self)
            if size and self.session.parked is not None:
                self.session.parked.progress(size)

    def disturbed(self) -> None:
        if self.session is not None:
            self.session.wake(self)
            if self.session.parked is not None:
                self.session.parked.disturbed()


class FollowerSession(FetchSession):
    """All that one fetcher of a broker follows here."""

    __slots__ = ("_replica_epoch", "_turn", "awake", "fetches", "parked", "replica_id")

    def __init__(
        self,
        session_id: int,
        partitions: PartitionMap,
        now: float,
        *,
        uses_topic_ids: bool,
        replica_id: int,
    ) -> None:
        super().__init__(session_id, partitions, now, uses_topic_ids=uses_topic_ids)
        self.replica_id = replica_id
        self.fetches = FollowerFetches()
        """When it last asked: that holds for all its partitions, those that sleep, too."""
        self._replica_epoch = -1
        self.parked: ParkedFetch | None = None
        """The fetch that waits, if one does."""
        self.awake: PartitionMap = {}
        """What the next fetch reads. At first that is all: nobody has watched it yet."""
        self._turn: list[SessionPartition] = []
        for partition in partitions.values():
            self.add(partition)

    def add(self, partition: SessionPartition) -> None:
        if isinstance(partition, FollowerPartition):
            partition.session = self
        self.awake[partition.key] = partition

    def remove(self, partition: SessionPartition) -> None:
        self.awake.pop(partition.key, None)
        if isinstance(partition, FollowerPartition):
            partition.leave()
            partition.session = None

    def asks(self, replica_epoch: int, now: float) -> None:
        """The next fetch has come. A broker that is registered anew is another one to leaders, each
        of which has to hear of it.
        """
        self.fetches.last_ms = int(now * 1000)
        if replica_epoch != self._replica_epoch:
            self._replica_epoch = replica_epoch
            self.awake = dict(self.partitions)
        self._wake_some()

    def wake(self, partition: SessionPartition) -> None:
        if isinstance(partition, FollowerPartition):
            partition.was_touched = True
        self.awake[partition.key] = partition

    def _wake_some(self) -> None:
        """Let a few of those that sleep be looked at, in turn."""
        for _ in range(min(LOOKED_AT_IN_TURN, len(self.partitions))):
            if not self._turn:
                self._turn = list(self.partitions.values())
            partition = self._turn.pop()
            if self.partitions.get(partition.key) is partition:
                self.awake.setdefault(partition.key, partition)

    def awake_partitions(self) -> list[SessionPartition]:
        return list(self.awake.values())

    def told(self, partition: FollowerPartition, answer: FetchedPartition) -> None:
        """The follower hears this. What is quiet sleeps; what has data is read last next time."""
        key = partition.key
        if partition.session is not self:
            return
        if answer.records:
            self.awake.pop(key, None)
            self.awake[key] = partition
        elif not (partition.was_touched or answer.error_code or answer.diverging_epoch is not None):
            self.awake.pop(key, None)

    def end(self) -> None:
        """Nobody asks any more: leave all that is watched."""
        self.parked = None
        self.awake = {}
        self._turn = []
        for partition in self.partitions.values():
            self.remove(partition)
