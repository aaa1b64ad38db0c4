"""One partition as this broker serves it: leadership, in-sync replicas, high watermark. What every
replica has, and what one does that follows, is in ``replication/replica.py``.

The rules are Kafka's; those of the in-sync replicas are in ``replication/isr.py``. The high
watermark is the smallest log end offset of the in-sync replicas; consumers see only what is below
it, followers see all. It is looked at again whenever it may move: on becoming leader, on an append,
on a follower's fetch, when the ISR changes. It stays where it is while fewer replicas are in sync
than ``min.insync.replicas`` asks for (KIP-966). With one replica it follows the log end at once, so
an ``acks=all`` request is answered without being parked; unless ``flush.messages`` is reached: then
it follows the disk, so that nobody sees what a power cut may still take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moldau.controller import AlterPartitionResult, LeaderAndIsr
from moldau.errors import ErrorCode, KafkaError
from moldau.log import (
    AppendInfo,
    AppendOrigin,
    CheckedBatch,
    DecompressionBudget,
    PartitionLog,
)
from moldau.machine import FileSlice
from moldau.records.control import TransactionMarker
from moldau.replication.isr import (
    UNKNOWN_BROKER_EPOCH,
    FollowerFetches,
    InSyncReplicas,
    IsrChange,
)
from moldau.replication.ports import AppendWaiter, DeletionWaiter, FetchWaiter, LeaderPorts
from moldau.replication.replica import UNDEFINED_EPOCH, UNKNOWN_OFFSET, Replica

NO_FOLLOWER: Final = -1


@dataclass(init=False)
class PartitionRead:
    """What a fetch finds in one partition; ``records`` is a place in a file, not data."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: FileSlice | None
    aborted: list[tuple[int, int]] | None
    diverging_epoch: tuple[int, int] | None

    def __init__(
        self,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        records: FileSlice | None,
        aborted: list[tuple[int, int]] | None = None,
        diverging_epoch: tuple[int, int] | None = None,
    ) -> None:
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.aborted = aborted
        self.diverging_epoch = diverging_epoch


class Partition(Replica):
    """A replica that may lead: what it knows of those that follow, and who waits for it."""

    __slots__ = (
        "_append_waiters",
        "_awaits_flush",
        "_deletion_waiters",
        "_epoch_start",
        "_fetch_waiters",
        "_follower_waiters",
        "_in_sync",
        "_partition_epoch",
        "_ports",
        "_unannounced",
        "_watchers",
    )

    def __init__(
        self,
        local_id: int,
        log: PartitionLog,
        state: LeaderAndIsr,
        *,
        high_watermark: int = 0,
        ports: LeaderPorts | None = None,
    ) -> None:
        """``high_watermark`` is what was last written down; the log may know better."""
        super().__init__(local_id, log, state, high_watermark)
        self._ports = LeaderPorts() if ports is None else ports
        self._fetch_waiters: dict[FetchWaiter, None] = {}
        self._follower_waiters: dict[FetchWaiter, None] = {}
        self._watchers: dict[FetchWaiter, None] = {}
        self._append_waiters: dict[AppendWaiter, int] = {}
        self._deletion_waiters: dict[DeletionWaiter, int] | None = None
        self._in_sync: InSyncReplicas | None = None
        """Of a leader that has followers."""
        self._epoch_start = 0
        """Where the log ended when this broker became its leader."""
        self._unannounced = 0
        """Bytes that parked fetches have not heard of; at least what is above the high
        watermark.
        """
        self._awaits_flush = False
        self._partition_epoch = -1
        log.on_failure = self._log_failed
        log.on_flushed = self._log_flushed
        self.apply(state)

    def use_log(self, log: PartitionLog) -> None:
        """The replica was moved to another directory: ``log`` has the same batches."""
        self.log.on_failure = self.log.on_flushed = None
        self.log = log
        log.on_failure = self._log_failed
        log.on_flushed = self._log_flushed
        self._log_flushed()

    @property
    def awaits_flush(self) -> bool:
        """Whether something that is stored is not seen before it is durable."""
        return self._awaits_flush

    def apply(self, state: LeaderAndIsr) -> None:
        """Take over the controller's decision; an older one is ignored."""
        if (state.leader_epoch, state.partition_epoch) < (self.leader_epoch, self._partition_epoch):
            return
        new_epoch = state.leader_epoch > self.leader_epoch
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self._partition_epoch = state.partition_epoch
        self.isr = tuple(state.isr)
        self.replicas = tuple(state.replicas)
        if new_epoch:
            self._in_sync = None
            if self.is_leader:
                self._epoch_start = self.log.log_end_offset
                self.log.assign_epoch_start_offset(state.leader_epoch, self._epoch_start)
                if self.high_watermark < self._epoch_start:
                    self._unannounced = self.log.size  # more than there is above it
                # What a crash left in the cache is not durable yet.
                self._await_flush()
            self.disturb()
        if self.is_leader:
            self._lead_followers()
            self._advance_high_watermark()
        else:
            self._in_sync = None
            self.give_up_appends()

    def resign(self) -> None:
        """This replica is no longer served here: whatever waits is told so."""
        self.leader_id = -1
        self._in_sync = None
        self.disturb()
        self.give_up_appends()

    def append(
        self,
        records: memoryview | CheckedBatch,
        acks: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        budget: DecompressionBudget | None = None,
    ) -> AppendInfo:
        """Append as leader; the high watermark follows as far as the ISR allows."""
        if self.leader_id != self.local_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.log
        if acks == -1 and len(self.isr) < log.config.min_insync_replicas and self.is_under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(self.isr)} in-sync replicas, "
                f"min.insync.replicas asks for {log.config.min_insync_replicas}",
            )
        info = log.append_as_leader(
            records, self.leader_epoch, now_ms, origin=origin, budget=budget
        )
        if not info.duplicate:
            if self._in_sync is not None:
                self._in_sync.appended(info.first_offset)
            self._unannounced += info.size
            if info.flush_due:
                self._await_flush()
            self._advance_high_watermark()
            if self._follower_waiters:
                # Followers read ahead of the high watermark: it is they who move it.
                for waiter in tuple(self._follower_waiters):
                    waiter.progress(info.size)
            if self._watchers:
                for watcher in tuple(self._watchers):
                    watcher.progress(info.size)
        return info

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> AppendInfo:
        """Append the end of a transaction as leader, unless its coordinator or producer is not the
        last one that this partition has heard of.
        """
        if self.leader_id != self.local_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.log.producers.check_marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            raises_epoch=marker.raises_epoch,
        )
        batch = memoryview(marker.batch(now_ms))
        return self.append(batch, -1, now_ms, AppendOrigin.COORDINATOR)

    # Parked requests -----------------------------------------------------------------------------

    def park_fetch(self, waiter: FetchWaiter, *, as_follower: bool = False) -> None:
        """Tell ``waiter`` of progress until it leaves; a follower's begins with the append."""
        waiters = self._follower_waiters if as_follower else self._fetch_waiters
        waiters[waiter] = None

    def watch(self, watcher: FetchWaiter) -> None:
        """Tell a follower's session of everything that it has to look at, until it leaves; of what
        is no more to read by progress of 0 bytes.
        """
        self._watchers[watcher] = None

    def unwatch(self, watcher: FetchWaiter) -> None:
        self._watchers.pop(watcher, None)

    def park_append(self, waiter: AppendWaiter, end_offset: int) -> None:
        """Tell ``waiter`` once, when the high watermark reaches ``end_offset`` or never will."""
        if self.high_watermark >= end_offset or not self.is_leader:
            waiter.settled(self)
        else:
            self._append_waiters[waiter] = end_offset

    def leave_fetch(self, waiter: FetchWaiter) -> None:
        self._fetch_waiters.pop(waiter, None)
        self._follower_waiters.pop(waiter, None)

    def leave_append(self, waiter: AppendWaiter) -> None:
        self._append_waiters.pop(waiter, None)

    @property
    def parked(self) -> int:
        """How many requests wait here."""
        deletions = 0 if self._deletion_waiters is None else len(self._deletion_waiters)
        fetches = len(self._fetch_waiters) + len(self._follower_waiters)
        return fetches + len(self._append_waiters) + deletions

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        current_leader_epoch: int = UNDEFINED_EPOCH,
        last_fetched_epoch: int = UNDEFINED_EPOCH,
        committed_only: bool = False,
        follower_id: int = NO_FOLLOWER,
        follower_epoch: int = UNKNOWN_BROKER_EPOCH,
        follower_log_start: int = UNKNOWN_OFFSET,
        fetches: FollowerFetches | None = None,
        min_one_batch: bool = True,
    ) -> PartitionRead:
        """Find the records from ``offset`` on, as far as this reader may see.

        A follower that asks for ``offset`` has everything before it, which may move the high
        watermark; but only if its epoch is ours and its log is a prefix of ours.
        ``follower_epoch`` is the epoch of its broker, ``fetches`` what its session is known by.
        """
        self.check_leader(current_leader_epoch)
        as_follower = follower_id >= 0
        if as_follower and follower_id not in self.replicas:
            known = current_leader_epoch != UNDEFINED_EPOCH
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH if known else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        log = self.log
        high_watermark = self.high_watermark
        stable = self.last_stable_offset
        if last_fetched_epoch != UNDEFINED_EPOCH:
            diverging = self.diverging_epoch(offset, last_fetched_epoch)
            if diverging is not None:
                return PartitionRead(
                    high_watermark, stable, log.log_start_offset, None, None, diverging
                )
        upper = stable if committed_only else high_watermark
        if as_follower:
            upper = log.log_end_offset
        records = log.read(offset, max_bytes, upper, min_one_batch)
        aborted = log.aborted_transactions(offset, upper) if committed_only and records else None
        if as_follower:
            self._follower_fetched(follower_id, follower_epoch, offset, follower_log_start, fetches)
        return PartitionRead(high_watermark, stable, log.log_start_offset, records, aborted)

    def delete_records(self, offset: int) -> int:
        """Move the log start up to ``offset`` (-1: the high watermark); returns the new low
        watermark.
        """
        self.check_leader()
        if offset == UNKNOWN_OFFSET:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not between 0 and the high watermark {self.high_watermark}",
            )
        if self.log.increment_log_start_offset(offset):
            for watcher in tuple(self._watchers):
                watcher.progress(0)
        return self.log.log_start_offset

    @property
    def low_watermark(self) -> int:
        """The smallest log start of the replicas whose brokers are up."""
        start = self.log.log_start_offset
        in_sync = self._in_sync
        return start if in_sync is None else in_sync.low_watermark(start, self._ports.alive)

    # As the leader of followers ------------------------------------------------------------------

    @property
    def has_followers(self) -> bool:
        """Whether this broker leads the partition, and others follow."""
        return self._in_sync is not None

    @property
    def isr_change(self) -> IsrChange | None:
        """The change of the in-sync replicas that the controller is to be asked for."""
        return None if self._in_sync is None else self._in_sync.pending

    @property
    def knows_its_end(self) -> bool:
        """Whether the high watermark has reached what there was when this broker was elected.

        Before that it may be behind what consumers have seen of the leader before (KIP-207).
        """
        return self.high_watermark >= self._epoch_start

    def _lead_followers(self) -> None:
        """Take over what the controller says about the replicas, as their leader."""
        in_sync = self._in_sync
        if in_sync is not None:
            now_ms = self._ports.now_ms()
            in_sync.update(self._partition_epoch, self.replicas, self.isr, now_ms)
            self._next_change()
        elif len(self.replicas) > 1:
            self._in_sync = InSyncReplicas(
                self.local_id,
                self.leader_epoch,
                self._partition_epoch,
                self.replicas,
                self.isr,
                self._epoch_start,
                self._ports.now_ms(),
            )

    def _follower_fetched(
        self,
        follower_id: int,
        follower_epoch: int,
        offset: int,
        log_start: int,
        fetches: FollowerFetches | None,
    ) -> None:
        in_sync, ports = self._in_sync, self._ports
        if in_sync is None:
            return
        now_ms, alive = ports.now_ms(), ports.alive
        end = self.log.log_end_offset
        follower = in_sync.fetched(
            follower_id, follower_epoch, offset, log_start, end, now_ms, alive
        )
        follower.fetches = fetches
        if (
            follower_id not in in_sync.maximal
            and in_sync.expand(follower_id, self.high_watermark, now_ms, alive) is not None
        ):
            ports.ask(self)
        self._advance_high_watermark()
        if self._deletion_waiters is not None:
            self._settle_deletions()

    def forget_fetches(self, follower_id: int, fetches: FollowerFetches) -> None:
        """A follower's session goes on without this partition."""
        follower = None if self._in_sync is None else self._in_sync.followers.get(follower_id)
        if follower is not None and follower.fetches is fetches:
            follower.fetches = None

    def review_replicas(self) -> None:
        """See whether somebody is in sync who lags, or may be in sync and is not; and whether those
        that others wait for are still there.
        """
        in_sync, ports = self._in_sync, self._ports
        if in_sync is None:
            return
        end = self.log.log_end_offset
        if in_sync.shrink(end, ports.now_ms(), ports.max_lag_ms) is not None:
            ports.ask(self)
        else:
            self._next_change()
        self._advance_high_watermark()
        self._settle_deletions()

    def _next_change(self) -> None:
        """Propose a replica that could not be proposed when it asked for the end."""
        in_sync, ports = self._in_sync, self._ports
        if in_sync is None or in_sync.pending is not None:
            return
        if len(in_sync.committed) <= len(in_sync.followers) and (
            in_sync.expand_any(
                self.high_watermark,
                self.log.log_end_offset,
                ports.now_ms(),
                ports.max_lag_ms,
                ports.alive,
            )
            is not None
        ):
            ports.ask(self)

    def isr_answered(self, change: IsrChange, answer: AlterPartitionResult) -> bool:
        """The controller has answered a change. Returns whether the in-sync replicas are what it
        asked for now.
        """
        in_sync = self._in_sync
        if in_sync is None or not in_sync.accepted(
            change, answer.leader_epoch, answer.partition_epoch, tuple(answer.isr)
        ):
            return False
        self._partition_epoch = in_sync.partition_epoch
        self.isr = in_sync.committed
        self._next_change()
        self._advance_high_watermark()
        return True

    def isr_refused(self, change: IsrChange, error: ErrorCode) -> bool:
        """A change was refused, or its fate is not known. Returns whether to ask again."""
        in_sync = self._in_sync
        if in_sync is None:
            return False
        ask_again = in_sync.refused(change, error, self._ports.now_ms())
        self._advance_high_watermark()
        return ask_again

    def park_deletion(self, waiter: DeletionWaiter, offset: int) -> None:
        """Tell ``waiter`` once, when the low watermark reaches ``offset`` or never will."""
        if self._deletion_waiters is None:
            self._deletion_waiters = {}
        self._deletion_waiters[waiter] = offset
        self._settle_deletions()

    def leave_deletion(self, waiter: DeletionWaiter) -> None:
        if self._deletion_waiters is not None:
            self._deletion_waiters.pop(waiter, None)

    def _settle_deletions(self) -> None:
        waiters = self._deletion_waiters
        if waiters is None:
            return
        low = self.low_watermark
        reached = [
            waiter for waiter, offset in waiters.items() if offset <= low or not self.is_leader
        ]
        for waiter in reached:
            del waiters[waiter]
        if not waiters:
            self._deletion_waiters = None
        for waiter in reached:
            waiter.deleted(self)

    def disturb(self) -> None:
        """Wake the fetches parked here: they look again and answer what they find."""
        for waiter in (*self._fetch_waiters, *self._follower_waiters, *self._watchers):
            waiter.disturbed()

    def give_up_appends(self) -> None:
        """Nobody here will ever see the parked appends replicated, nor the deletions."""
        appends, self._append_waiters = self._append_waiters, {}
        for waiter in appends:
            waiter.settled(self)
        deletions, self._deletion_waiters = self._deletion_waiters, None
        for deletion in deletions or ():
            deletion.deleted(self)

    def _log_failed(self, _log: object) -> None:
        self.disturb()
        self.give_up_appends()

    def _await_flush(self) -> None:
        """If too much is not durable, hold the high watermark back until it is."""
        log = self.log
        self._awaits_flush = log.settled_end < log.log_end_offset
        if self._awaits_flush:
            log.request_flush()

    def _log_flushed(self) -> None:
        if self._awaits_flush:
            log = self.log
            self._awaits_flush = log.settled_end < log.log_end_offset
            if self.is_leader:
                self._advance_high_watermark()

    def _advance_high_watermark(self) -> None:
        log = self.log
        end = log.settled_end if self._awaits_flush else log.log_end_offset
        in_sync = self._in_sync
        if in_sync is not None:
            if self.is_under_min_isr:
                return
            ports = self._ports
            end = in_sync.replicated_end(
                end, log.log_end_offset, ports.now_ms(), ports.max_lag_ms, ports.alive
            )
        if end <= self.high_watermark:
            return
        self.high_watermark = end
        if self._watchers:
            for watcher in tuple(self._watchers):
                watcher.progress(0)
        size = self._unannounced
        if end == log.log_end_offset:
            self._unannounced = 0
        # Else some of it is announced again with the next step: too much makes a fetch look once
        # more, too little would leave it asleep.
        if self._fetch_waiters:
            for waiter in tuple(self._fetch_waiters):
                waiter.progress(size)
        if self._append_waiters:
            reached = [waiter for waiter, offset in self._append_waiters.items() if offset <= end]
            for append in reached:
                del self._append_waiters[append]
            for append in reached:
                append.settled(self)
