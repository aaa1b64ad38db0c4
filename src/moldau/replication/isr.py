"""What the leader of a partition knows of its followers, and what it decides by it: pure.

There are three sets of in-sync replicas. The *committed* one is what the controller has last said;
elections choose from it. A *pending* change is one that the controller was asked for and whose
fate is not known. The *maximal* set is the committed one and whoever a pending change adds: the
controller may elect any of them, whatever becomes of the request (KIP-497). The high watermark is
the smallest log end of the maximal set, so a replica that joins counts from the moment in which it
is proposed, and one that leaves counts until the controller has answered.

A follower tells by each fetch where its log ends. That place may be further back than before: a
broker that lost the tail of its log comes back with less. Which life of the broker speaks is told
by its broker epoch; a life may join only if it is the one that the controller knows (KIP-903).

Times are milliseconds of a clock that never runs backwards, handed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.errors import ErrorCode, KafkaError

UNKNOWN_OFFSET: Final = -1
UNKNOWN_BROKER_EPOCH: Final = -1
NEVER: Final = -(1 << 62)
REFUSAL_PAUSE_MS: Final = 1000
"""After the controller found a replica ineligible, whose failure it learned of before us."""

OVERTAKEN: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The controller has a newer state, which it will send us or has sent already. An earlier copy of
the request may be part of it, so the change stays pending until that state is here. A controller
that finds a replica ineligible makes such a state: the same one, for which no copy can come in time
any more.
"""


class FollowerFetches:
    """When a follower last asked, in a session that covers many partitions.

    A session's fetch looks only at partitions that changed; all others of the session share this
    instead of being told one by one that they were asked about.
    """

    __slots__ = ("last_ms",)

    def __init__(self) -> None:
        self.last_ms = NEVER


class Follower:
    """One follower, as its fetches show it to the leader."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "fetch_ms",
        "fetches",
        "leader_end_at_fetch",
        "log_end",
        "log_start",
    )

    def __init__(self, caught_up_ms: int) -> None:
        self.log_end = UNKNOWN_OFFSET
        self.log_start = UNKNOWN_OFFSET
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        """Of the life that fetched last."""
        self.fetch_ms = NEVER
        self.leader_end_at_fetch = UNKNOWN_OFFSET
        """Where the leader's log ended at the last fetch: whoever reaches it has caught up with
        what there was then, however much has come since.
        """
        self.caught_up_ms = caught_up_ms
        """The last time at which it had all that the leader had."""
        self.fetches: FollowerFetches | None = None

    def fetched(
        self, broker_epoch: int, offset: int, log_start: int, leader_end: int, now_ms: int
    ) -> None:
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_at_fetch:
            self.caught_up_ms = max(self.caught_up_ms, self.fetch_ms)
        self.log_end = offset
        self.log_start = log_start
        self.broker_epoch = broker_epoch
        self.fetch_ms = now_ms
        self.leader_end_at_fetch = max(leader_end, self.leader_end_at_fetch)

    def has_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        return self.log_end == leader_end or now_ms - self.caught_up_ms <= max_lag_ms


class IsrChange:
    """A change of the in-sync replicas that the controller is asked for.

    It is compared by identity: the answer to one request is no answer to another of the same words.
    """

    __slots__ = ("added", "isr", "isr_epochs", "leader_epoch", "partition_epoch")

    def __init__(
        self,
        leader_epoch: int,
        partition_epoch: int,
        isr: tuple[int, ...],
        isr_epochs: tuple[int, ...],
        added: tuple[int, ...] = (),
    ) -> None:
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        """The state that it changes: refused when there is a newer one."""
        self.isr = isr
        self.isr_epochs = isr_epochs
        """The life of each broker that is meant; -1 for the leader, whose request it is, and for
        one that has not fetched from this leader and stays what it was.
        """
        self.added = added


class InSyncReplicas:
    """The replicas of one partition during one leadership, as the leader sees them."""

    __slots__ = (
        "_not_before_ms",
        "committed",
        "epoch_start",
        "followers",
        "leader_epoch",
        "local_id",
        "maximal",
        "partition_epoch",
        "pending",
    )

    def __init__(
        self,
        local_id: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        isr: tuple[int, ...],
        epoch_start: int,
        now_ms: int,
    ) -> None:
        """``epoch_start`` is the leader's log end as its leadership begins."""
        self.local_id = local_id
        self.leader_epoch = leader_epoch
        self.epoch_start = epoch_start
        self.partition_epoch = partition_epoch
        self.committed = isr
        self.maximal = isr
        self.pending: IsrChange | None = None
        self._not_before_ms = NEVER
        # Whoever is in sync gets the whole lag time to show itself. Nobody waits for the others.
        self.followers: dict[int, Follower] = {
            replica: Follower(now_ms if replica in isr else NEVER)
            for replica in replicas
            if replica != local_id
        }

    def update(
        self, partition_epoch: int, replicas: Sequence[int], isr: tuple[int, ...], now_ms: int
    ) -> None:
        """The controller's word within this leadership.

        A newer state settles what is pending: a request made for an older one is refused. The same
        state once more settles nothing, for the request may still be on its way.
        """
        if partition_epoch <= self.partition_epoch:
            return
        for replica in [known for known in self.followers if known not in replicas]:
            del self.followers[replica]
        for replica in replicas:
            if replica != self.local_id and replica not in self.followers:
                self.followers[replica] = Follower(now_ms if replica in isr else NEVER)
        for replica in self.committed:
            if replica in self.followers and replica not in isr:
                # Its disk has failed, or its broker is about to stop: it has to show itself before
                # anybody waits for it to join again.
                self.followers[replica].caught_up_ms = NEVER
        self._commit(partition_epoch, isr)

    def _commit(self, partition_epoch: int, isr: tuple[int, ...]) -> None:
        self.partition_epoch = partition_epoch
        self.committed = isr
        self.maximal = isr
        self.pending = None

    # Followers -----------------------------------------------------------------------------------

    def fetched(
        self,
        follower_id: int,
        broker_epoch: int,
        offset: int,
        log_start: int,
        leader_end: int,
        now_ms: int,
        alive: Mapping[int, int],
    ) -> Follower:
        """A follower asks for ``offset``: it has everything before it.

        ``alive`` has the epochs of the brokers that are registered. A request of an earlier life
        says nothing about the log as it is now, and is refused with NOT_LEADER_OR_FOLLOWER.
        """
        follower = self.followers[follower_id]
        newest = max(alive.get(follower_id, UNKNOWN_BROKER_EPOCH), follower.broker_epoch)
        if broker_epoch < newest:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {follower_id} fetches with epoch {broker_epoch}, but has {newest} by now",
            )
        follower.fetched(broker_epoch, offset, log_start, leader_end, now_ms)
        return follower

    def appended(self, previous_end: int) -> None:
        """The leader's log grew: whoever had all of it until now had it at its last fetch."""
        for follower in self.followers.values():
            fetches = follower.fetches
            if fetches is not None and follower.log_end == previous_end:
                last_ms = fetches.last_ms
                if last_ms > follower.caught_up_ms:
                    follower.caught_up_ms = last_ms
                if last_ms > follower.fetch_ms:
                    follower.fetch_ms = last_ms

    def replicated_end(
        self,
        own_end: int,
        leader_end: int,
        now_ms: int,
        max_lag_ms: int,
        alive: Mapping[int, int],
    ) -> int:
        """Returns up to where the maximal in-sync replicas have the log, ``own_end`` at most.

        A replica that is about to join is waited for, too: otherwise a steady stream of appends
        would keep it behind the high watermark, and so out, for ever.
        """
        end = own_end
        maximal = self.maximal
        for replica, follower in self.followers.items():
            if follower.log_end < end and (
                replica in maximal
                or (
                    follower.has_caught_up(leader_end, now_ms, max_lag_ms)
                    and is_alive(replica, follower, alive)
                )
            ):
                end = follower.log_end
        return end

    def low_watermark(self, own_log_start: int, alive: Mapping[int, int]) -> int:
        """Returns the smallest log start of the replicas whose brokers are up."""
        low = own_log_start
        for replica, follower in self.followers.items():
            if follower.log_start < low and replica in alive:
                low = follower.log_start
        return low

    # Changes of the in-sync replicas -------------------------------------------------------------

    def expand(
        self, follower_id: int, high_watermark: int, now_ms: int, alive: Mapping[int, int]
    ) -> IsrChange | None:
        """Returns the change by which this follower joins, which is pending from now on; None if
        it may not join, or another change is pending.

        It must have all that is committed: everything below the high watermark, and everything
        that the leader had when it was elected, for the high watermark of a new leader is late.
        """
        if self.pending is not None or follower_id in self.committed:
            return None
        follower = self.followers[follower_id]
        if (
            follower.log_end < max(high_watermark, self.epoch_start)
            or now_ms < self._not_before_ms
            or not is_alive(follower_id, follower, alive)
        ):
            return None
        change = self._change((*self.committed, follower_id), (follower_id,))
        self.maximal = change.isr
        return change

    def expand_any(
        self,
        high_watermark: int,
        leader_end: int,
        now_ms: int,
        max_lag_ms: int,
        alive: Mapping[int, int],
    ) -> IsrChange | None:
        """As ``expand``, for one that may have been able to join before its turn came: another
        change was pending, or its registration was not known yet.
        """
        for replica, follower in self.followers.items():
            if replica not in self.committed and follower.has_caught_up(
                leader_end, now_ms, max_lag_ms
            ):
                change = self.expand(replica, high_watermark, now_ms, alive)
                if change is not None:
                    return change
        return None

    def shrink(self, leader_end: int, now_ms: int, max_lag_ms: int) -> IsrChange | None:
        """Returns the change by which those leave who have not caught up for too long, which is
        pending from now on; None if nobody has to, or another change is pending.
        """
        if self.pending is not None:
            return None
        kept = tuple(
            [
                replica
                for replica in self.committed
                if replica not in self.followers
                or self.followers[replica].has_caught_up(leader_end, now_ms, max_lag_ms)
            ]
        )
        return None if len(kept) == len(self.committed) else self._change(kept, ())

    def _change(self, isr: tuple[int, ...], added: tuple[int, ...]) -> IsrChange:
        epochs = tuple(
            [
                self.followers[replica].broker_epoch
                if replica in self.followers
                else UNKNOWN_BROKER_EPOCH
                for replica in isr
            ]
        )
        self.pending = IsrChange(self.leader_epoch, self.partition_epoch, isr, epochs, added)
        return self.pending

    def accepted(
        self, change: IsrChange, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...]
    ) -> bool:
        """The controller's answer to a change; returns whether it settled it.

        It does not if the controller's word came first, or if the answer is about another
        leadership.
        """
        if (
            change is not self.pending
            or leader_epoch != self.leader_epoch
            or partition_epoch < self.partition_epoch
        ):
            return False
        self._commit(partition_epoch, isr)
        return True

    def refused(self, change: IsrChange, error: ErrorCode, now_ms: int) -> bool:
        """The controller refused a change, or nothing is known of it: a time-out, a lost
        connection, no controller. Returns whether to ask again, for the same.
        """
        if error is ErrorCode.INELIGIBLE_REPLICA:
            self._not_before_ms = now_ms + REFUSAL_PAUSE_MS
        return change is self.pending and error not in OVERTAKEN


def is_alive(replica: int, follower: Follower, alive: Mapping[int, int]) -> bool:
    """Returns whether the life of the broker that fetched is the one that is registered."""
    epoch = alive.get(replica, UNKNOWN_BROKER_EPOCH)
    return epoch != UNKNOWN_BROKER_EPOCH and follower.broker_epoch == epoch
