"""Every state of a small cluster: nothing that was acknowledged or seen is ever lost."""

from __future__ import annotations

import pytest
from tests.support.soak import SOAK
from tests.unit.replication.isr_model import SOUND
from tests.unit.replication.isr_states import explore
from tests.unit.replication.isr_world import Bounds, first_world

TWO, THREE = (1, 2), (1, 2, 3)
"""Who is in sync at first."""


QUICK = {
    "requests are lost and come twice": (TWO, Bounds(appends=1, changes=1)),
    "the same, with longer logs": (THREE, Bounds(appends=2, changes=1)),
    "a replica may not join for now": (TWO, Bounds(appends=1, changes=2, refusals=1)),
    "a process is killed": (TWO, Bounds(appends=1, changes=1, kills=1)),
    "a power cut": (TWO, Bounds(appends=1, changes=1, cuts=1)),
    "a power cut, all in sync": (THREE, Bounds(appends=1, changes=1, cuts=1)),
    "a session expires": (TWO, Bounds(appends=1, changes=1, expiries=1)),
}
LONG = {
    "two are killed": (TWO, Bounds(appends=1, kills=2)),
    "all in sync, a process is killed": (THREE, Bounds(appends=1, changes=1, kills=1)),
    "all in sync, a session expires": (THREE, Bounds(appends=1, changes=1, expiries=1)),
    "two power cuts": (TWO, Bounds(appends=1, changes=2, cuts=2)),
    "a power cut, with longer logs": (THREE, Bounds(appends=2, changes=1, cuts=1)),
    "a power cut, a process is killed": (TWO, Bounds(appends=1, kills=1, cuts=1)),
    "the same, all in sync": (THREE, Bounds(appends=1, kills=1, cuts=1)),
    "a session expires, a process is killed": (
        TWO,
        Bounds(appends=1, changes=1, kills=1, expiries=1),
    ),
}
SCENARIOS = {**QUICK, **LONG} if SOAK else QUICK


@pytest.mark.parametrize(("isr", "left"), SCENARIOS.values(), ids=SCENARIOS)
def test_no_order_of_events_breaks_a_promise(isr: tuple[int, ...], left: Bounds) -> None:
    found = explore(first_world(isr, left))
    assert not found.violation, (found.violation, found.story)


@pytest.mark.parametrize(
    ("rule", "isr", "left", "violations"),
    [
        (
            "pending_member_counts",
            TWO,
            Bounds(appends=1, changes=1),
            {"committed_in_every_clean_leader", "high_watermark_within_isr"},
        ),
        (
            "positions_may_fall",
            THREE,
            Bounds(appends=1, changes=1, cuts=1),
            {"committed_in_every_clean_leader", "isr_has_caught_up"},
        ),
        (
            "replica_epoch_checked",
            TWO,
            Bounds(appends=1, changes=1, cuts=1),
            {"committed_in_every_clean_leader", "isr_has_caught_up"},
        ),
        ("min_isr_holds_back", TWO, Bounds(appends=1, kills=1), {"acknowledged_by_min_isr"}),
        ("shrink_awaits_answer", THREE, Bounds(appends=1, changes=1), {"acknowledged_by_min_isr"}),
        (
            "truncates_by_epoch",
            THREE,
            Bounds(appends=1, kills=1),
            {"committed_in_every_clean_leader"},
        ),
        (
            "restart_noticed",
            THREE,
            Bounds(appends=1, cuts=1),
            {"committed_in_every_clean_leader", "one_history_per_epoch"},
        ),
        (
            "last_member_stays",
            TWO,
            Bounds(appends=1, kills=2),
            {"committed_in_every_clean_leader"},
        ),
        (
            "same_state_settles_nothing",
            TWO,
            Bounds(appends=1, changes=1),
            {"isr_has_caught_up", "committed_in_every_clean_leader"},
        ),
        (
            "epoch_start_required",
            TWO,
            Bounds(appends=1, changes=1, kills=1),
            {"committed_in_every_clean_leader"},
        ),
        (
            "eligible_leaders_kept",
            TWO,
            Bounds(appends=1, changes=1, cuts=1),
            {"committed_in_every_clean_leader"},
        ),
        (
            "refusal_is_written",
            TWO,
            Bounds(appends=1, changes=1, refusals=1),
            {"isr_has_caught_up", "committed_in_every_clean_leader"},
        ),
    ],
)
def test_each_fault_breaks_a_promise(
    rule: str, isr: tuple[int, ...], left: Bounds, violations: set[str]
) -> None:
    found = explore(first_world(isr, left), SOUND.without(rule))
    assert found.violation in violations
    assert found.story
