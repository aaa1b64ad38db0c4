"""Faults of replication, the controller and the store, planted one at a time in a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.simulation.cluster_circumstances import (
    CLUSTER_KILLS,
    COORDINATORS,
    DIVERGENCE,
    EARSHOT,
    ISOLATION,
    LAST_IN_SYNC,
    STORE,
)
from tests.simulation.planting import clean_seeds as clean_seeds
from tests.simulation.planting import fault

from moldau.controller import elections
from moldau.controller.outbox import Outbox
from moldau.coordination.kept_sessions import KeptSessions
from moldau.coordinators.commit_queue import CommitQueue
from moldau.errors import ErrorCode
from moldau.log.partition.leader_epochs import LeaderEpochs
from moldau.log.partition.producer_snapshots import ProducerSnapshots
from moldau.outcome import Effect, Reply
from moldau.replication import parked
from moldau.replication.followers.fetcher import ReplicaFetcher
from moldau.replication.isr import InSyncReplicas, IsrChange
from moldau.replication.partition import Partition, PartitionRead
from moldau.testing.simulation.checker import offsets, records, replicas, sessions
from moldau.testing.simulation.lives.life import STUCK

# Followers ---------------------------------------------------------------------------------------


@fault(CLUSTER_KILLS, replicas.NOT_IN_SYNC, records.LOST, records.GONE, seeds=8)
def followers_cut_their_logs_at_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """As Kafka did before KIP-101."""
    add = ReplicaFetcher.add

    def cut_and_add(self: ReplicaFetcher, partition: Partition) -> None:
        partition.log.truncate_to(partition.high_watermark, self._ports.clock.now_ms())
        add(self, partition)

    patch.setattr(ReplicaFetcher, "add", cut_and_add)


@fault(CLUSTER_KILLS, records.DOUBLED, seeds=2, first=8)
def producers_are_not_followed(patch: pytest.MonkeyPatch) -> None:
    """A new leader knows nothing of what producers have sent to the one before."""
    append = Partition.append_as_follower

    def append_and_forget(self: Partition, *args: Any) -> Any:
        info = append(self, *args)
        self.log.producers.clear(self.log.log_end_offset)
        return info

    patch.setattr(Partition, "append_as_follower", append_and_forget)


@fault(DIVERGENCE, records.LOST, records.DOUBLED, records.REORDERED, STUCK, seeds=6)
def producers_are_not_rebuilt_after_a_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerSnapshots, "rebuild", lambda *_: None)


@fault(CLUSTER_KILLS, replicas.UNEQUAL, records.LOST, records.GONE, STUCK, seeds=2, first=8)
def epoch_start_is_not_noted_by_leaders(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderEpochs, "assign", lambda *_: False)


# Leaders -----------------------------------------------------------------------------------------


@fault(LAST_IN_SYNC, records.LOST, records.GONE, seeds=2)
def min_isr_is_not_checked_after_the_append(patch: pytest.MonkeyPatch) -> None:
    advance = Partition._advance_high_watermark

    def advance_alone(self: Partition) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Partition, "is_under_min_isr", False)
            advance(self)

    patch.setattr(Partition, "_advance_high_watermark", advance_alone)
    commit_error = parked.commit_error

    def commit_error_alone(partition: Partition, end_offset: int) -> ErrorCode:
        error = commit_error(partition, end_offset)
        few = error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE if few else error

    patch.setattr(parked, "commit_error", commit_error_alone)


@fault(ISOLATION, records.LOST, records.GONE, replicas.NOT_IN_SYNC, seeds=2)
def who_leaves_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """The controller has not answered yet, and may never: it may elect who was left out."""
    shrink = InSyncReplicas.shrink

    def shrink_at_once(self: InSyncReplicas, *args: Any) -> IsrChange | None:
        change = shrink(self, *args)
        if change is not None:
            self.maximal = change.isr
        return change

    patch.setattr(InSyncReplicas, "shrink", shrink_at_once)


@fault(ISOLATION, records.GONE, seeds=2)
def consumers_read_to_the_end_of_the_log(patch: pytest.MonkeyPatch) -> None:
    read = Partition.read

    def read_all(self: Partition, *args: Any, **settings: Any) -> PartitionRead:
        before = self.high_watermark
        self.high_watermark = max(before, self.log.log_end_offset)
        try:
            return read(self, *args, **settings)
        finally:
            if self.high_watermark == self.log.log_end_offset:
                self.high_watermark = before

    patch.setattr(Partition, "read", read_all)


@fault(COORDINATORS, offsets.BEGAN_BEFORE, seeds=2)
def coordinators_answer_before_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    def announce(
        self: CommitQueue, _end_offset: int, replies: Sequence[Reply], effects: Sequence[Effect]
    ) -> None:
        self._announcer.send(replies)
        self._announcer.start(effects)

    patch.setattr(CommitQueue, "put", announce)


# The controller ----------------------------------------------------------------------------------


@fault(EARSHOT, replicas.DISAGREEMENT, seeds=1)
def what_a_broker_did_not_hear_is_not_told_again(patch: pytest.MonkeyPatch) -> None:
    def forget(self: Outbox) -> None:
        self._under_way = None

    patch.setattr(Outbox, "was_lost", forget)


@fault(LAST_IN_SYNC, records.LOST, records.GONE, replicas.NOT_IN_SYNC, seeds=4)
def restart_of_a_broker_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    def is_there(self: elections._Members, replica: int) -> bool:
        return replica in self._live

    patch.setattr(elections._Members, "is_steady", is_there)
    patch.setattr(elections._Members, "has_lost", lambda *_: False)


@fault(LAST_IN_SYNC, records.LOST, records.GONE, seeds=4)
def losses_of_a_broker_do_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(elections._Members, "has_lost", lambda *_: False)


# The store ---------------------------------------------------------------------------------------


@fault(STORE, sessions.NO_GRACE, seeds=12)
def a_store_that_starts_again_gives_nobody_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeptSessions, "_heard_before_the_restart", lambda _self, now: now - 3600.0)
