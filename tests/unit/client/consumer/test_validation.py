"""Positions after a change of leaders: what the new leader says about where its log ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from moldau.client.cluster import Cluster
from moldau.client.consumer import position_lookups
from moldau.client.consumer.partition_state import BufferSpace, FetchState
from moldau.client.consumer.position import Position
from moldau.client.consumer.position_lookups import PositionLookups
from moldau.client.consumer.reset import ResetKind
from moldau.client.consumer.subscription import SubscriptionState
from moldau.client.errors import KafkaError, OffsetOutOfRangeError
from moldau.client.settings import ConsumerSettings
from moldau.errors import ErrorCode
from moldau.machine.real import this_machine
from moldau.model import TopicPartition

PARTITION = TopicPartition("t", 0)


class Script:
    """A partition at offset 100 of epoch 3, whose leader has changed to epoch 4."""

    def __init__(self, reset: str = "earliest") -> None:
        self.space = BufferSpace(1_000_000)
        self.subscription = SubscriptionState(self.space)
        self.subscription.assign([PARTITION])
        self.state = self.subscription.state(PARTITION)
        self.state.seek(Position(100, 3), 3)
        assert self.state.leader_changed(4)
        self.dropped: list[TopicPartition] = []
        self.space.dropped = self.dropped.append
        self.failures: list[KafkaError] = []
        self.asked: list[Mapping[TopicPartition, tuple[int, int]]] = []
        self.lookups = PositionLookups(
            cast("Cluster", self),
            ConsumerSettings(bootstrap_servers="localhost:9092", auto_offset_reset=reset),
            self.subscription,
            None,
            lambda: None,
            self.failures.append,
        )

    machine = this_machine()

    def request_update(self, *topics: str) -> None:
        """As a cluster does."""

    async def validate(self, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
        async def epoch_ends(_: Any, epochs: Any, *, within: float) -> dict[TopicPartition, Any]:
            self.asked.append(epochs)
            return {PARTITION: answer}

        monkeypatch.setattr(position_lookups, "epoch_ends", epoch_ends)
        await self.lookups._validate({PARTITION: self.state})


async def test_a_leader_that_has_everything_is_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    await script.validate(monkeypatch, (3, 100))
    assert script.asked == [{PARTITION: (3, 4)}]
    assert (script.state.fetch_state, script.state.position) == (
        FetchState.FETCHING,
        Position(100, 3),
    )
    assert script.dropped == []


async def test_a_truncated_log_is_read_on_where_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    await script.validate(monkeypatch, (2, 90))
    assert (script.state.fetch_state, script.state.position) == (
        FetchState.FETCHING,
        Position(90, 2),
    )
    assert script.dropped == [PARTITION]


async def test_without_a_policy_truncation_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script("none")
    await script.validate(monkeypatch, (2, 90))
    (failure,) = script.failures
    assert isinstance(failure, OffsetOutOfRangeError)
    assert failure.partitions == {PARTITION: 100}
    assert not script.state.deliverable


async def test_a_leader_that_knows_nothing_means_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    await script.validate(monkeypatch, (-1, -1))
    assert script.state.fetch_state is FetchState.AWAIT_RESET
    assert script.state.reset_policy is not None
    assert script.state.reset_policy.kind is ResetKind.EARLIEST


async def test_a_leader_that_does_not_answer_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script()
    await script.validate(monkeypatch, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert script.state.fetch_state is FetchState.AWAIT_VALIDATION
    assert script.state.retry_at > 0
    assert script.failures == []


async def test_a_seek_meanwhile_counts_more(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()

    async def epoch_ends(*_: Any, **__: Any) -> dict[TopicPartition, Any]:
        script.state.seek(Position(5))
        return {PARTITION: (2, 90)}

    monkeypatch.setattr(position_lookups, "epoch_ends", epoch_ends)
    await script.lookups._validate({PARTITION: script.state})
    assert script.state.position == Position(5)


async def test_what_was_taken_meanwhile_is_asked_about_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A poll in the user's thread may have been under way when the leader changed."""
    script = Script()

    async def epoch_ends(*_: Any, **__: Any) -> dict[TopicPartition, Any]:
        script.state.taken_to = Position(110, 3)
        return {PARTITION: (3, 100)}

    monkeypatch.setattr(position_lookups, "epoch_ends", epoch_ends)
    await script.lookups._validate({PARTITION: script.state})
    before = script.state.fetch_state
    await script.validate(monkeypatch, (3, 105))
    assert (before, script.state.fetch_state) == (FetchState.AWAIT_VALIDATION, FetchState.FETCHING)
    assert script.state.position == Position(105, 3)
