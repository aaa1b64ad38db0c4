"""Faults of replication, the controller and the store, planted one at a time in a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from tests.simulation.cluster_circumstances import (
    CLUSTER_CUTS,
    CLUSTER_GROUPS,
    CLUSTER_KILLS,
    CLUSTER_TOPICS,
    ISOLATION,
    STORE,
)
from tests.simulation.planting import clean_seeds as clean_seeds
from tests.simulation.planting import fault

from moldau.broker.link import LocalLink
from moldau.controller import elections, fencing, writes
from moldau.controller.outbox import Outbox
from moldau.coordination.kept_sessions import KeptSessions
from moldau.coordination.store import Check
from moldau.coordinators.commit_queue import CommitQueue
from moldau.errors import ErrorCode
from moldau.log.partition.durability import Durability
from moldau.log.partition.leader_epochs import LeaderEpochs
from moldau.log.partition.producer_snapshots import ProducerSnapshots
from moldau.log.segment.offset_index import OffsetIndex
from moldau.replication import isr, parked
from moldau.replication.followers import log_work
from moldau.replication.followers.fetcher import ReplicaFetcher
from moldau.replication.isr import Follower, InSyncReplicas, IsrChange
from moldau.replication.partition import Partition, PartitionRead
from moldau.testing.simulation.checker import offsets, records, replicas
from moldau.testing.simulation.lives.life import STUCK

# Followers ---------------------------------------------------------------------------------------


@fault(CLUSTER_KILLS, replicas.NOT_IN_SYNC, records.LOST, records.GONE, seeds=4)
def followers_cut_their_logs_at_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """As Kafka did before KIP-101."""
    add = ReplicaFetcher.add

    def cut_and_add(self: ReplicaFetcher, partition: Partition) -> None:
        partition.log.truncate_to(partition.high_watermark, self._ports.clock.now_ms())
        add(self, partition)

    patch.setattr(ReplicaFetcher, "add", cut_and_add)


@fault(CLUSTER_CUTS, replicas.UNEQUAL, records.LOST, records.HOLE, records.GONE, STUCK, seeds=4)
def recovery_point_is_not_lowered(patch: pytest.MonkeyPatch) -> None:
    truncated = Durability.truncated

    def truncated_without(self: Durability, file: Any) -> None:
        point = self._offsets.recovery_point
        truncated(self, file)
        self._offsets.recovery_point = point

    patch.setattr(Durability, "truncated", truncated_without)


@fault(CLUSTER_CUTS, replicas.UNEQUAL, records.SKIPPED, records.HOLE, records.TORN, seeds=4)
def index_is_not_truncated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetIndex, "truncate_to", lambda *_: None)


@fault(CLUSTER_KILLS, records.DOUBLED, seeds=4)
def producers_are_not_followed(patch: pytest.MonkeyPatch) -> None:
    """A new leader knows nothing of what producers have sent to the one before."""
    append = Partition.append_as_follower

    def append_and_forget(self: Partition, *args: Any) -> Any:
        info = append(self, *args)
        self.log.producers.clear(self.log.log_end_offset)
        return info

    patch.setattr(Partition, "append_as_follower", append_and_forget)


@fault(CLUSTER_CUTS, records.DOUBLED, records.REORDERED, STUCK, seeds=4)
def producers_are_not_rebuilt_after_a_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerSnapshots, "rebuild", lambda *_: None)


@fault(CLUSTER_KILLS, replicas.UNEQUAL, records.LOST, records.GONE, STUCK, seeds=4)
def epoch_start_is_not_noted_by_leaders(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderEpochs, "assign", lambda *_: False)


# Leaders -----------------------------------------------------------------------------------------


@fault(ISOLATION, replicas.NOT_IN_SYNC, records.LOST, records.GONE, seeds=6)
def high_watermark_does_not_wait_for_who_joins(patch: pytest.MonkeyPatch) -> None:
    def replicated_end(self: InSyncReplicas, own_end: int, *_: Any) -> int:
        ends = (self.followers[each].log_end for each in self.committed if each in self.followers)
        return min((own_end, *ends))

    patch.setattr(InSyncReplicas, "replicated_end", replicated_end)


@fault(CLUSTER_CUTS, replicas.NOT_IN_SYNC, records.LOST, records.GONE, seeds=4)
def position_of_a_follower_never_falls(patch: pytest.MonkeyPatch) -> None:
    fetched = Follower.fetched

    def fetched_forward(self: Follower, epoch: int, offset: int, *args: Any) -> None:
        fetched(self, epoch, max(offset, self.log_end), *args)

    patch.setattr(Follower, "fetched", fetched_forward)


@fault(CLUSTER_CUTS, replicas.NOT_IN_SYNC, records.LOST, records.GONE, seeds=6)
def epoch_of_a_replica_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(isr, "is_alive", lambda *_: True)


@fault(CLUSTER_CUTS, records.LOST, records.GONE, seeds=4)
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


@fault(ISOLATION, records.LOST, records.GONE, replicas.NOT_IN_SYNC, seeds=4)
def who_leaves_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """The controller has not answered yet, and may never: it may elect who was left out."""
    shrink = InSyncReplicas.shrink

    def shrink_at_once(self: InSyncReplicas, *args: Any) -> IsrChange | None:
        change = shrink(self, *args)
        if change is not None:
            self.maximal = change.isr
        return change

    patch.setattr(InSyncReplicas, "shrink", shrink_at_once)


@fault(ISOLATION, records.GONE, seeds=4)
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


@fault(CLUSTER_GROUPS, offsets.WENT_BACK, offsets.INVENTED, seeds=6)
def coordinator_answers_before_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    def put(self: CommitQueue, _end: int, replies: Sequence[Any], effects: Sequence[Any]) -> None:
        self._announcer.send(replies)
        self._announcer.start(effects)

    patch.setattr(CommitQueue, "put", put)


# The controller ----------------------------------------------------------------------------------


@fault(STORE, replicas.TWO_LEADERS, replicas.DISAGREEMENT, records.LOST, STUCK, seeds=6)
def controller_is_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """It writes although another one has been elected."""


@fault(STORE, replicas.TWO_LEADERS, replicas.DISAGREEMENT, records.LOST, seeds=6)
def broker_obeys_a_deposed_controller(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fencing, "check_epochs", lambda *_: ErrorCode.NONE)


@fault(STORE, replicas.OUT_OF_SYNC, STUCK, seeds=4)
def sessions_have_no_grace(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeptSessions, "_heard_before_the_restart", lambda _, now: now - 3600.0)
