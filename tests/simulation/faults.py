"""Faults of a broker or a client, planted one at a time to see whether the checker finds them.

Those of clusters are in ``cluster_faults.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.simulation.circumstances import (
    CLOCK_JUMPS,
    CRASHES,
    DAMAGES,
    FULL_AT_THE_END,
    FULL_DISKS,
    GROUPS,
    KEPT,
    KILLS,
    LOSSES,
    RESTARTS,
    SYNCED,
)
from tests.simulation.planting import clean_seeds as clean_seeds
from tests.simulation.planting import fault

from moldau.broker import adoption
from moldau.client.consumer.assignors.base import Layout, MemberSubscription
from moldau.client.consumer.assignors.base import Plan as Assignment
from moldau.client.consumer.assignors.range import RangeAssignor
from moldau.client.consumer.handover import Handover
from moldau.client.consumer.partition_state import PartitionState
from moldau.client.consumer.position import Position
from moldau.client.listener.acks import AckTracker
from moldau.controller import stray_topics
from moldau.controller.config_admin import ConfigAdmin
from moldau.controller.stray_topics import Comparison
from moldau.coordination import loading
from moldau.coordination.storage import DiskStorage
from moldau.coordinators import host
from moldau.coordinators.commit_queue import CommitQueue
from moldau.log.directory.log_directory import DirectoryContent, LogDirectory
from moldau.log.partition import producer_state
from moldau.log.partition.appending import Appender
from moldau.log.partition.flush_job import FlushJob
from moldau.log.partition.leader_epochs import LeaderEpochs
from moldau.log.partition.producer_state import AppendOrigin, BatchMetadata, ProducerState
from moldau.log.partition.results import AppendInfo
from moldau.log.recovery import crash
from moldau.log.recovery.crash import CrashRecovery
from moldau.log.segment.offset_index import OffsetIndex
from moldau.log.segment.segment import Segment
from moldau.log.upkeep.topic_configs import TopicConfigCopies
from moldau.machine.clock_watch import ClockWatch
from moldau.records.batch import BatchHeader
from moldau.replication.partition import Partition
from moldau.testing.simulation.checker import offsets, ownership, records, topics
from moldau.testing.simulation.checker.check import UNEXPECTED
from moldau.testing.simulation.lives.life import STUCK

# What is durable ---------------------------------------------------------------------------------


@fault(SYNCED, records.LOST, seeds=5)
def produce_is_acknowledged_before_its_flush(patch: pytest.MonkeyPatch) -> None:
    append = Appender.append_as_leader

    def append_carelessly(self: Appender, *args: Any) -> AppendInfo:
        info = append(self, *args)
        info.flush_due = False
        return info

    patch.setattr(Appender, "append_as_leader", append_carelessly)


@fault(SYNCED, records.GONE, seeds=10)
def records_are_visible_before_their_flush(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "_await_flush", lambda self: None)


@fault(SYNCED, records.UNREAD, topics.UNTRUE, STUCK, seeds=5)
def coordination_store_acknowledges_before_its_sync(patch: pytest.MonkeyPatch) -> None:
    def append(self: DiskStorage, name: str, data: bytes, at: int) -> None:
        file = self._open(name)
        file.size = at
        file.append(data)

    patch.setattr(DiskStorage, "append", append)


@fault(SYNCED, offsets.WENT_BACK, seeds=10)
def group_is_answered_before_its_record_is_durable(patch: pytest.MonkeyPatch) -> None:
    def put(self: CommitQueue, _end: int, replies: Sequence[Any], effects: Sequence[Any]) -> None:
        self._announcer.send(replies)
        self._announcer.start(effects)

    patch.setattr(CommitQueue, "put", put)


@fault(SYNCED, records.LOST, seeds=5)
def flush_syncs_no_segment(patch: pytest.MonkeyPatch) -> None:
    run = FlushJob.run

    def run_without_files(self: FlushJob) -> None:
        self.files = []
        run(self)

    patch.setattr(FlushJob, "run", run_without_files)


# Recovery ----------------------------------------------------------------------------------------


@fault(RESTARTS, records.LOST, records.HOLE, records.DOUBLED, seeds=12)
def clean_shutdown_marker_outlives_the_start(patch: pytest.MonkeyPatch) -> None:
    open_directory = LogDirectory.open

    def open_and_mark(self: LogDirectory) -> DirectoryContent:
        content = open_directory(self)
        if content.clean:
            self.write_clean_marker(1)
        return content

    patch.setattr(LogDirectory, "open", open_and_mark)


@fault(CRASHES, records.HOLE, records.TORN, records.LOST, STUCK, seeds=5)
def torn_tail_is_not_cut_off(patch: pytest.MonkeyPatch) -> None:
    scan = CrashRecovery._scan

    def scan_only(self: CrashRecovery, segment: Segment, position: int, expected: int) -> Any:
        size = segment.size
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(type(segment.file), "truncate", lambda self, size: None)
            end, intact = scan(self, segment, position, expected)
        segment.size = size
        return end, intact

    patch.setattr(CrashRecovery, "_scan", scan_only)


@fault(CRASHES, records.HOLE, records.SKIPPED, seeds=5)
def index_points_behind_what_is_looked_for(patch: pytest.MonkeyPatch) -> None:
    locate = OffsetIndex.locate
    patch.setattr(OffsetIndex, "locate", lambda self, offset: locate(self, offset + 5))


@fault(KILLS, records.DOUBLED, seeds=5)
def producers_are_not_rebuilt_in_recovery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(crash, "apply_batch", lambda *_: None)
    patch.setattr(crash, "replay", lambda *_: None)


@fault(KILLS, records.DOUBLED, seeds=5)
def duplicate_is_not_recognised_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    run = CrashRecovery.run

    def run_and_forget(self: CrashRecovery) -> int:
        end = run(self)
        for entry in self._content.producers.producers.values():
            entry.batches.clear()
        return end

    patch.setattr(CrashRecovery, "run", run_and_forget)


@fault(LOSSES, records.SKIPPED, offsets.UNREAD, seeds=6)
def epoch_start_is_not_noted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderEpochs, "end_offset_for", lambda _self, epoch, end: (epoch, end))


@fault(SYNCED, offsets.WENT_BACK, seeds=5)
def groups_are_not_loaded_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    async def load(*_: object) -> int:
        return 0

    patch.setattr(host, "load", load)


# Appending ---------------------------------------------------------------------------------------


@fault(FULL_DISKS, records.REORDERED, records.DOUBLED, seeds=20)
def sequences_may_have_gaps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producer_state, "_check_sequence", lambda *_: None)


@fault(KILLS, records.INVENTED, seeds=5)
def duplicate_is_told_the_end_of_the_log(patch: pytest.MonkeyPatch) -> None:
    check = ProducerState.check

    def check_at_end(
        self: ProducerState, header: BatchHeader, origin: AppendOrigin
    ) -> BatchMetadata | None:
        duplicate = check(self, header, origin)
        return duplicate and duplicate._replace(last_offset=self.end_offset + 10)

    patch.setattr(ProducerState, "check", check_at_end)


# Groups and topics -------------------------------------------------------------------------------


@fault(GROUPS, offsets.UNREAD, seeds=14, first=20)
def consumer_commits_what_it_has_only_fetched(patch: pytest.MonkeyPatch) -> None:
    def reached(_self: Handover, state: PartitionState) -> Position | None:
        position = state.position
        return position and position._replace(offset=max(position.offset, state.fetch_from))

    patch.setattr(Handover, "reached", reached)


@fault(GROUPS, offsets.UNREAD, seeds=8)
def listener_commits_what_is_not_handled_yet(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AckTracker, "lowest_unfinished", property(lambda self: self._next))


@fault(GROUPS, ownership.OWNED_TWICE, seeds=5)
def partition_is_assigned_to_two_members(patch: pytest.MonkeyPatch) -> None:
    assign = RangeAssignor.assign

    def assign_twice(
        self: RangeAssignor, layout: Layout, members: Mapping[str, MemberSubscription]
    ) -> Assignment:
        plan = assign(self, layout, members)
        everything = [partition for share in plan.values() for partition in share]
        return dict.fromkeys(plan, everything)

    patch.setattr(RangeAssignor, "assign", assign_twice)


@fault(CRASHES, topics.UNTRUE, seeds=5)
def changed_setting_is_not_written_down(patch: pytest.MonkeyPatch) -> None:
    """Neither in the store nor with the partitions: from either a start would have it back."""

    async def forget(*_: object) -> None:
        return

    patch.setattr(ConfigAdmin, "_write", forget)
    patch.setattr(TopicConfigCopies, "keep", forget)


# Damage ------------------------------------------------------------------------------------------


@fault(DAMAGES, topics.UNTRUE, records.UNREAD, STUCK, seeds=5)
def what_the_store_has_lost_is_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(adoption, "compare", lambda *_, **__: Comparison())


@fault(DAMAGES, topics.UNTRUE, seeds=5)
def settings_are_not_kept_with_the_partitions(patch: pytest.MonkeyPatch) -> None:
    async def keep(*_: object) -> None:
        return

    patch.setattr(TopicConfigCopies, "keep", keep)


@fault(KEPT, records.LOST, records.HOLE, records.GONE, seeds=5)
def topics_are_adopted_with_default_settings(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stray_topics._Comparing, "_config_of", lambda *_: ({}, True))


@fault(CLOCK_JUMPS, records.LOST, records.HOLE, records.GONE, seeds=5)
def a_clock_jump_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClockWatch, "jump_ms", lambda _: 0)


@fault(FULL_AT_THE_END, UNEXPECTED, seeds=5)
def the_journal_has_no_room_of_its_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loading, "reserve_for", lambda _: 0)
