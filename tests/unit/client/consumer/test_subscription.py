"""What a consumer reads: three ways that exclude each other; and where it is in a partition."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from moldau.client.consumer.positions import (
    PREDECESSORS,
    FetchState,
    PartitionState,
    Position,
)
from moldau.client.consumer.reset import TO_EARLIEST, ResetKind, ResetPolicy
from moldau.client.consumer.subscription import SubscriptionState
from moldau.model import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)

WAYS: dict[str, Callable[[SubscriptionState], None]] = {
    "topics": lambda state: state.subscribe(["t"]),
    "pattern": lambda state: state.subscribe_pattern(re.compile("t")),
    "broker pattern": lambda state: state.subscribe_broker_pattern("t"),
    "assign": lambda state: state.assign([ZERO]),
}


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_ways_exclude_each_other_until_unsubscribed(first: str, second: str) -> None:
    state = SubscriptionState()
    WAYS[first](state)
    if first == second:
        WAYS[second](state)
    else:
        with pytest.raises(ValueError, match="unsubscribe"):
            WAYS[second](state)
    state.unsubscribe()
    WAYS[second](state)


def test_the_last_subscription_wins() -> None:
    state = SubscriptionState()
    state.subscribe(["a", "b"])
    state.subscribe(["b", "c"])
    assert state.topics == {"b", "c"}


def test_a_pattern_stands_for_the_topics_there_are() -> None:
    state = SubscriptionState()
    state.subscribe_pattern(re.compile("log-.*"))
    assert state.matched(["log-a", "other", "my-log-b"])
    assert state.topics == {"log-a"}
    assert not state.matched(["log-a", "another"])
    assert state.matched(["log-a", "log-c"])
    assert state.topics == {"log-a", "log-c"}


def test_partitions_that_stay_keep_their_position() -> None:
    state = SubscriptionState()
    state.assign([ZERO, ONE])
    state.state(ZERO).seek(Position(7))
    state.assign([ZERO])
    assert state.state(ZERO).position == Position(7)
    with pytest.raises(ValueError, match="not assigned"):
        state.state(ONE)


CHANGES: dict[FetchState, Callable[[PartitionState], object]] = {
    FetchState.AWAIT_RESET: lambda state: state.request_reset(TO_EARLIEST),
    FetchState.AWAIT_VALIDATION: lambda state: state.leader_changed(9),
    FetchState.FETCHING: lambda state: state.seek(Position(1)),
}


def in_state(wanted: FetchState) -> PartitionState:
    state = PartitionState()
    if wanted is FetchState.AWAIT_RESET:
        state.request_reset(TO_EARLIEST)
    elif wanted is not FetchState.INITIALIZING:
        state.seek(Position(5, 3), 3)
        if wanted is FetchState.AWAIT_VALIDATION:
            assert state.leader_changed(4)
    assert state.state is wanted
    return state


@pytest.mark.parametrize("before", FetchState)
@pytest.mark.parametrize("after", FetchState)
def test_a_partition_goes_only_where_the_table_lets_it(
    before: FetchState, after: FetchState
) -> None:
    state = in_state(before)
    if before in PREDECESSORS[after]:
        CHANGES[after](state)
        assert state.state is after
    else:
        with pytest.raises(ValueError, match="cannot go"):
            state._become(after)


def test_a_jump_makes_older_fetches_void() -> None:
    state = in_state(FetchState.FETCHING)
    versions = {state.version}
    state.seek(Position(9))
    versions.add(state.version)
    state.request_reset(TO_EARLIEST)
    versions.add(state.version)
    assert len(versions) == 3


def test_only_a_newer_leader_is_asked_and_only_about_something() -> None:
    state = PartitionState()
    state.seek(Position(5))
    assert not state.leader_changed(3), "nothing was read yet that could be lost"
    state.consumed(Position(6, 3))
    assert not state.leader_changed(3)
    assert state.leader_changed(4)
    assert not state.deliverable
    state.validated()
    assert state.deliverable


def test_paused_and_leaving_partitions_give_nothing() -> None:
    state = in_state(FetchState.FETCHING)
    assert state.deliverable
    state.paused = True
    assert not state.deliverable
    state.paused, state.pending_revocation = False, True
    assert not state.deliverable


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("earliest", -2),
        ("latest", -1),
        ("none", None),
        ("by_duration:PT1H", 10_000_000 - 3_600_000),
        ("by_duration:P1DT0.5S", 0),
        ("by_duration:PT2M30S", 10_000_000 - 150_000),
    ],
)
def test_reset_policies(text: str, timestamp: int | None) -> None:
    assert ResetPolicy.parse(text).timestamp(10_000_000) == timestamp


@pytest.mark.parametrize("text", ["", "newest", "by_duration:", "by_duration:P", "by_duration:1h"])
def test_reset_policies_that_make_no_sense(text: str) -> None:
    with pytest.raises(ValueError, match=r"auto\.offset\.reset"):
        ResetPolicy.parse(text)


def test_a_duration_is_its_own_kind() -> None:
    assert ResetPolicy.parse("by_duration:PT1S") == ResetPolicy(ResetKind.BY_DURATION, 1000)
