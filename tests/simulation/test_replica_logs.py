"""Logs of replicas converge and lose nothing committed; and what would make them is found out.

Faults are planted in the sources: machine code does not look up what it calls. Where modules are
compiled, a process without machine code tests it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.simulation.replica_logs import (
    POINT_BEYOND,
    UNCOMMITTED,
    UNEQUAL,
    UNREADABLE,
    WRONG_PRODUCERS,
    WRONG_TRANSACTIONS,
    BrokenPromiseError,
    ReplicaHistory,
    ReplicaLog,
    live,
)

from moldau.log.partition.durability import Durability
from moldau.log.partition.leader_epochs import LeaderEpochs
from moldau.log.partition.log import PartitionLog
from moldau.log.partition.producer_snapshots import ProducerSnapshots
from moldau.log.segment.offset_index import OffsetIndex
from moldau.log.segment.segment import Segment
from moldau.log.segment.time_index import TimeIndex
from moldau.log.segment.transaction_index import TransactionIndex
from moldau.machine.disk import File
from moldau.records.native import is_compiled
from moldau.source import VARIABLE

TRIES = 20
"""Histories in which a planted fault is found."""
SEEDS = 10 * TRIES


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_replicas_converge_and_keep_what_is_committed(first: int) -> None:
    for seed in range(first, first + 20):
        try:
            live(seed)
        except BrokenPromiseError as promise:
            raise AssertionError(f"seed {seed}: {promise}") from promise


Plant = Callable[[pytest.MonkeyPatch], type[ReplicaHistory]]


def recovery_point_not_lowered(patch: pytest.MonkeyPatch) -> type[ReplicaHistory]:
    truncated = Durability.truncated

    def keep(self: Durability, file: File) -> None:
        point = self._offsets.recovery_point
        truncated(self, file)
        self._offsets.recovery_point = point

    patch.setattr(Durability, "truncated", keep)
    patch.setattr(Durability, "begin_truncation", lambda self, offset: None)
    return ReplicaHistory


def recovery_point_lowered_too_late(patch: pytest.MonkeyPatch) -> type[ReplicaHistory]:
    """When the files have been cut: a power cut in the middle finds indexes that it believes."""
    patch.setattr(Durability, "begin_truncation", lambda self, offset: None)
    return ReplicaHistory


def index_not_truncated(patch: pytest.MonkeyPatch) -> type[ReplicaHistory]:
    patch.setattr(OffsetIndex, "truncate_to", lambda self, offset: None)
    return ReplicaHistory


def time_index_not_truncated(patch: pytest.MonkeyPatch) -> type[ReplicaHistory]:
    patch.setattr(TimeIndex, "truncate_to", lambda self, offset: None)
    return ReplicaHistory


def aborted_transactions_not_truncated(patch: pytest.MonkeyPatch) -> type[ReplicaHistory]:
    patch.setattr(TransactionIndex, "truncate_to", lambda self, offset: None)
    return ReplicaHistory


def producer_state_not_rebuilt(patch: pytest.MonkeyPatch) -> type[ReplicaHistory]:
    patch.setattr(ProducerSnapshots, "rebuild", lambda self, *args: None)
    return ReplicaHistory


def epochs_not_truncated(patch: pytest.MonkeyPatch) -> type[ReplicaHistory]:
    patch.setattr(LeaderEpochs, "truncate_from_end", lambda self, offset: None)
    return ReplicaHistory


def epoch_start_not_noted(patch: pytest.MonkeyPatch) -> type[ReplicaHistory]:
    patch.setattr(PartitionLog, "assign_epoch_start_offset", lambda self, epoch, offset: None)
    return ReplicaHistory


def end_not_cut(patch: pytest.MonkeyPatch) -> type[ReplicaHistory]:
    """The file keeps its end until the next append."""
    truncate_to = Segment.truncate_to

    def keep(self: Segment, offset: int) -> None:
        size = self.size
        truncate_to(self, offset)
        if self.size:
            self.size = size

    patch.setattr(Segment, "truncate_to", keep)
    return ReplicaHistory


def cut_at_the_high_watermark(_: pytest.MonkeyPatch) -> type[ReplicaHistory]:
    class ToHighWatermark(ReplicaHistory):
        def elect(self, number: int) -> None:
            for other, replica in enumerate(self.replicas):
                if other != number:
                    replica.cut(replica.high_watermark)
            super().elect(number)

    return ToHighWatermark


def high_watermark_not_clamped(patch: pytest.MonkeyPatch) -> type[ReplicaHistory]:
    cut = ReplicaLog.cut

    def keep(self: ReplicaLog, offset: int) -> None:
        high_watermark = self.high_watermark
        cut(self, offset)
        self.high_watermark = high_watermark

    patch.setattr(ReplicaLog, "cut", keep)

    class Unclean(ReplicaHistory):
        """Committed records go, as they do when somebody is elected who was not in sync."""

        def where_to_cut(self, follower: ReplicaLog, epoch: int, end: int) -> int:
            return max(super().where_to_cut(follower, epoch, end) - 3, 0)

    return Unclean


RARE: dict[Plant, int] = {recovery_point_lowered_too_late: 200}
"""Where to begin with those that show in one history of fifty."""


@pytest.mark.skipif(not is_compiled(), reason="the faults are planted in this process")
def test_every_planted_fault_is_found_in_plain_python() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-k",
            "is_found",
            __file__,
        ],
        env={**os.environ, VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


PLANTED: dict[Plant, str] = {
    recovery_point_not_lowered: POINT_BEYOND,
    recovery_point_lowered_too_late: WRONG_TRANSACTIONS,
    index_not_truncated: UNREADABLE,
    time_index_not_truncated: UNREADABLE,
    aborted_transactions_not_truncated: WRONG_TRANSACTIONS,
    producer_state_not_rebuilt: WRONG_PRODUCERS,
    epochs_not_truncated: UNEQUAL,
    epoch_start_not_noted: UNEQUAL,
    end_not_cut: UNREADABLE,
    cut_at_the_high_watermark: UNCOMMITTED,
    high_watermark_not_clamped: UNCOMMITTED,
}
"""Which invariant tells of which fault."""


@pytest.mark.skipif(is_compiled(), reason="faults are planted in the sources")
@pytest.mark.parametrize(("plant", "invariant"), PLANTED.items())
def test_a_planted_fault_is_found(
    plant: Plant, invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = plant(monkeypatch)
    first = RARE.get(plant, 0)
    broken = set()
    for seed in range(first, first + TRIES):
        try:
            live(seed, history)
        except BrokenPromiseError as promise:
            broken.add(str(promise))
            if invariant in broken:
                return
    pytest.fail(f"{TRIES} histories have not shown it, but broke {sorted(broken) or 'nothing'}")
