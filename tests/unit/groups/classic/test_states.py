"""Every pair of states: what the table allows, and that a group keeps to it."""

from __future__ import annotations

from itertools import product

import pytest
from tests.unit.groups.classic.test_stored import MEMBER

from moldau.groups.classic.group import ClassicGroup
from moldau.groups.classic.states import (
    PREDECESSORS,
    ClassicGroupState,
    IllegalTransitionError,
)
from moldau.wire.stored.group_records import GroupMetadataValue

EMPTY = ClassicGroupState.EMPTY
PREPARING = ClassicGroupState.PREPARING_REBALANCE
COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE
DEAD = ClassicGroupState.DEAD

ALLOWED = {
    (EMPTY, PREPARING),
    (PREPARING, COMPLETING),
    (PREPARING, EMPTY),
    (COMPLETING, STABLE),
    (COMPLETING, PREPARING),
    (STABLE, PREPARING),
    (EMPTY, DEAD),
    (PREPARING, DEAD),
    (COMPLETING, DEAD),
    (STABLE, DEAD),
    (DEAD, DEAD),
}


@pytest.mark.parametrize(("before", "after"), [*product(ClassicGroupState, repeat=2)])
def test_a_group_moves_only_along_the_table(
    before: ClassicGroupState, after: ClassicGroupState
) -> None:
    group = ClassicGroup("g", before, state_timestamp_ms=1)
    if (before, after) in ALLOWED:
        group.transition_to(after, 7)
        assert (group.state, group.state_timestamp_ms) == (after, 7)
    else:
        with pytest.raises(IllegalTransitionError, match=f"from {before.value} to {after.value}"):
            group.transition_to(after, 7)
        assert (group.state, group.state_timestamp_ms) == (before, 1)


@pytest.mark.parametrize(("before", "after"), [*product((PREPARING, COMPLETING), (EMPTY, STABLE))])
def test_a_rebalance_ends_only_where_the_table_lets_it(
    before: ClassicGroupState, after: ClassicGroupState
) -> None:
    group = ClassicGroup("g", before, generation=3)
    members = () if after is EMPTY else (MEMBER,)
    value = GroupMetadataValue("consumer", 4, "range", "m", 7, members)
    if (before, after) in ALLOWED:
        group.replay(value)
        assert (group.state, group.state_timestamp_ms, group.generation) == (after, 7, 4)
    else:
        with pytest.raises(IllegalTransitionError, match=f"from {before.value} to {after.value}"):
            group.replay(value)


@pytest.mark.parametrize(("before", "after"), [*product((EMPTY, STABLE), repeat=2)])
def test_a_group_at_rest_is_what_any_record_says(
    before: ClassicGroupState, after: ClassicGroupState
) -> None:
    group = ClassicGroup("g", before, generation=3)
    members = () if after is EMPTY else (MEMBER,)
    group.replay(GroupMetadataValue("consumer", 2, "range", "m", 7, members))
    assert (group.state, group.state_timestamp_ms, group.generation) == (after, 7, 2)


def test_a_group_that_is_stored_goes_on_with_the_rebalance_to_a_later_generation() -> None:
    group = ClassicGroup("g", PREPARING, generation=4)
    value = GroupMetadataValue("consumer", 4, "range", "m", 7, (MEMBER,))
    group.replay(value)
    assert (group.state, group.stored) == (PREPARING, value)


def test_the_table_names_every_state() -> None:
    assert set(PREDECESSORS) == set(ClassicGroupState)


@pytest.mark.parametrize("state", [*ClassicGroupState])
def test_a_rebalance_may_start_from_any_state_with_settled_members(
    state: ClassicGroupState,
) -> None:
    assert ClassicGroup("g", state).can_rebalance == (state in (EMPTY, COMPLETING, STABLE))


def test_the_names_are_those_that_clients_know() -> None:
    assert [state.value for state in ClassicGroupState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]
