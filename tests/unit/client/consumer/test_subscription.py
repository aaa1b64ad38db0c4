"""What a consumer reads: three ways that exclude each other; and where it starts."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from moldau.client.consumer.partition_state import BufferSpace
from moldau.client.consumer.position import Position
from moldau.client.consumer.reset import ResetKind, ResetPolicy
from moldau.client.consumer.subscription import SubscriptionState
from moldau.model import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def subscription() -> SubscriptionState:
    return SubscriptionState(BufferSpace(1_000_000))


WAYS: dict[str, Callable[[SubscriptionState], None]] = {
    "topics": lambda state: state.subscribe(["t"]),
    "pattern": lambda state: state.subscribe_pattern(re.compile("t")),
    "broker pattern": lambda state: state.subscribe_broker_pattern("t"),
    "assign": lambda state: state.assign([ZERO]),
}


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_ways_exclude_each_other_until_unsubscribed(first: str, second: str) -> None:
    state = subscription()
    WAYS[first](state)
    if first == second:
        WAYS[second](state)
    else:
        with pytest.raises(ValueError, match="unsubscribe"):
            WAYS[second](state)
    state.unsubscribe()
    WAYS[second](state)


def test_the_last_subscription_wins() -> None:
    state = subscription()
    state.subscribe(["a", "b"])
    state.subscribe(["b", "c"])
    assert state.topics == {"b", "c"}


def test_a_pattern_stands_for_the_topics_there_are() -> None:
    state = subscription()
    state.subscribe_pattern(re.compile("log-.*"))
    assert state.matched(["log-a", "other", "my-log-b"])
    assert state.topics == {"log-a"}
    assert not state.matched(["log-a", "another"])
    assert state.matched(["log-a", "log-c"])
    assert state.topics == {"log-a", "log-c"}


def test_partitions_that_stay_keep_their_position() -> None:
    state = subscription()
    state.assign([ZERO, ONE])
    state.state(ZERO).seek(Position(7))
    gone = state.state(ONE)
    state.assign([ZERO])
    assert state.state(ZERO).position == Position(7)
    with pytest.raises(ValueError, match="not assigned"):
        state.state(ONE)
    assert not gone.deliverable


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
