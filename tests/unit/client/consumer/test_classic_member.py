"""A member of a classic group as a machine: what it sends, in which order, after which answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from moldau.client.consumer.assignors import MemberSubscription, make_assignors
from moldau.client.consumer.assignors.embedded import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from moldau.client.consumer.membership.actions import (
    Action,
    Beat,
    CallBack,
    CallbackKind,
    Join,
    JoinAnswer,
    Leave,
    RunAssignor,
    Sync,
)
from moldau.client.consumer.membership.classic import ClassicMember, ClassicOptions
from moldau.client.consumer.membership.states import CLASSIC_PREDECESSORS, ClassicState
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition

P = [TopicPartition("t", number) for number in range(6)]


class Script:
    """A member and the time; answers its requests as a coordinator would."""

    def __init__(self, *assignors: str, instance_id: str | None = None) -> None:
        self.now = 0.0
        options = ClassicOptions(
            heartbeat_interval=3.0, max_poll_interval=300.0, instance_id=instance_id
        )
        self.member = ClassicMember(options, make_assignors(assignors or ("range",)))
        self.generation = 0
        self.log: list[Action] = []

    def step(self) -> list[Action]:
        found = self.member.actions(self.now)
        self.log += found
        return found

    def one(self, kind: type) -> Action:
        """The only action that is wanted now."""
        (action,) = self.step()
        assert isinstance(action, kind), action
        return action

    def carry_out(self, *kinds: CallbackKind) -> list[CallBack]:
        """Do the callbacks that are wanted now, which are of these kinds."""
        callbacks = [action for action in self.step() if isinstance(action, CallBack)]
        assert [callback.kind for callback in callbacks] == list(kinds)
        for callback in callbacks:
            self.member.callback_done(callback)
        return callbacks

    def join(self, share: Sequence[TopicPartition], *, lead: bool = False) -> Join:
        """From a JoinGroup that is wanted now to the assignment that it brings."""
        join = next(action for action in self.step() if isinstance(action, Join))
        self.generation += 1
        leader = "me" if lead else "somebody"
        members = {"me": MemberSubscription(("t",))} if lead else {}
        answer = JoinAnswer(self.generation, "range", leader, "me", members)
        if self.member._assignors.keys() == {"cooperative-sticky"}:
            answer = JoinAnswer(self.generation, "cooperative-sticky", leader, "me", members)
        (sync,) = self.member.join_answered(join, answer, self.now)
        if isinstance(sync, RunAssignor):
            (sync,) = self.member.assigned(sync, {"me": share})
        assert isinstance(sync, Sync)
        self.member.sync_answered(sync, encode_assignment(share), self.now)
        return join

    def settle(self, share: Sequence[TopicPartition]) -> None:
        """To a stable member with this share."""
        self.member.subscribe(["t"])
        self.member.poll_started()
        self.join(share)
        self.carry_out(CallbackKind.ASSIGNED)
        assert self.member.state is ClassicState.STABLE

    def beat(self, code: ErrorCode | None = None) -> None:
        """The next heartbeat, answered with an error or without."""
        self.now += 3.0
        beat = next(action for action in self.step() if isinstance(action, Beat))
        if code is None:
            self.member.beat_answered(beat, self.now)
        else:
            self.member.failed(beat, KafkaError(code), self.now)


def test_first_join() -> None:
    script = Script()
    member = script.member
    assert script.step() == []
    member.subscribe(["t"])
    join = script.one(Join)
    assert isinstance(join, Join)
    assert decode_subscription(join.protocols[0][1]).topics == ("t",)
    (again,) = member.member_id_given(join, "me")
    assert isinstance(again, Join)
    assert (again.member_id, again.protocols) == ("me", join.protocols)
    assert script.step() == [], "one request at a time"
    (sync,) = member.join_answered(again, JoinAnswer(1, "range", "other", "me", {}), 0.0)
    assert isinstance(sync, Sync)
    assert (sync.generation, sync.assignments) == (1, {})
    assert (member.identity.member_id, member.identity.generation) == ("me", 1)
    member.sync_answered(sync, encode_assignment(P[:2]), 0.0)
    assert member.owned == set(), "not before the callback"
    script.carry_out(CallbackKind.ASSIGNED)
    assert member.state is ClassicState.STABLE
    assert member.owned == set(P[:2])


def test_the_leader_divides_the_partitions() -> None:
    script = Script()
    script.member.subscribe(["t"])
    join = script.one(Join)
    assert isinstance(join, Join)
    members = {"me": MemberSubscription(("t",)), "other": MemberSubscription(("t",))}
    (run,) = script.member.join_answered(join, JoinAnswer(1, "range", "me", "me", members), 0.0)
    assert isinstance(run, RunAssignor)
    assert run.topics == {"t"}
    (sync,) = script.member.assign(run, {"t": [frozenset()] * 4})
    assert isinstance(sync, Sync)
    shares = {name: decode_assignment(data) for name, data in sync.assignments.items()}
    assert shares == {"me": tuple(P[:2]), "other": tuple(P[2:4])}


def test_a_static_leader_that_came_back_keeps_what_there_is() -> None:
    script = Script(instance_id="one")
    script.member.subscribe(["t"])
    join = script.one(Join)
    assert isinstance(join, Join)
    answer = JoinAnswer(1, "range", "me", "me", {"me": MemberSubscription(("t",))}, True)
    (sync,) = script.member.join_answered(join, answer, 0.0)
    assert isinstance(sync, Sync)
    assert sync.assignments == {}


def test_an_eager_member_gives_up_everything_before_it_joins_again() -> None:
    script = Script("range")
    script.settle(P[:2])
    script.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    (callback,) = script.carry_out(CallbackKind.REVOKED)
    assert callback.partitions == set(P[:2])
    assert script.member.owned == set()
    script.join(P[:1])
    script.carry_out(CallbackKind.ASSIGNED)
    assert script.member.owned == {P[0]}


def test_heartbeats_go_on_while_the_user_takes_its_time() -> None:
    script = Script("range")
    script.settle(P[:2])
    script.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    (callback,) = script.step()
    assert isinstance(callback, CallBack)
    script.beat()
    script.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.member.state is ClassicState.PREPARING
    script.member.callback_done(callback)
    assert isinstance(script.one(Join), Join)


def test_a_cooperative_member_gives_up_only_what_others_get_and_joins_once_more() -> None:
    script = Script("cooperative-sticky")
    script.settle(P[:4])
    script.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    join = script.join(P[:2])
    assert decode_subscription(join.protocols[0][1]).owned == tuple(P[:4])
    assert script.member.owned == set(P[:4])
    revoked, assigned = script.carry_out(CallbackKind.REVOKED, CallbackKind.ASSIGNED)
    assert (revoked.partitions, assigned.partitions) == (frozenset(P[2:4]), frozenset())
    assert script.member.owned == set(P[:2])
    second = script.join(P[:2])
    assert decode_subscription(second.protocols[0][1]).owned == tuple(P[:2])
    script.carry_out(CallbackKind.ASSIGNED)
    assert script.member.state is ClassicState.STABLE
    assert not any(isinstance(action, Join) for action in script.step())


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_member_that_was_dropped_has_lost_its_partitions(assignor: str, code: ErrorCode) -> None:
    script = Script(assignor)
    script.settle(P[:2])
    script.beat(code)
    assert not script.member.joined
    (callback,) = script.carry_out(CallbackKind.LOST)
    assert callback.partitions == set(P[:2])
    join = script.one(Join)
    assert isinstance(join, Join)
    assert join.member_id == ("" if code is ErrorCode.UNKNOWN_MEMBER_ID else "me")


def test_a_failed_attempt_is_repeated_after_a_pause_without_more_callbacks() -> None:
    script = Script("range")
    script.settle(P[:2])
    script.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.carry_out(CallbackKind.REVOKED)
    join = script.one(Join)
    script.member.failed(join, KafkaError(ErrorCode.NOT_COORDINATOR), script.now)
    assert script.step() == []
    assert script.member.wake_at() > script.now
    script.now = script.member.wake_at()
    assert isinstance(script.one(Join), Join)


def test_a_rebalance_during_sync_means_joining_again_at_once() -> None:
    script = Script()
    script.member.subscribe(["t"])
    join = script.one(Join)
    assert isinstance(join, Join)
    (sync,) = script.member.join_answered(join, JoinAnswer(1, "range", "x", "me", {}), 0.0)
    script.member.failed(sync, KafkaError(ErrorCode.REBALANCE_IN_PROGRESS), 0.0)
    assert isinstance(script.one(Join), Join)


def test_what_is_owned_is_owned_in_the_generation_that_gave_it() -> None:
    """A generation that was only joined may be forgotten, and its number given once more."""
    script = Script("cooperative-sticky")
    script.settle(P[:2])
    script.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    join = script.one(Join)
    assert isinstance(join, Join)
    answer = JoinAnswer(2, "cooperative-sticky", "x", "me", {})
    (sync,) = script.member.join_answered(join, answer, script.now)
    assert isinstance(sync, Sync)
    assert (script.member.identity.generation, script.member.owner.generation) == (2, 1)
    script.member.sync_answered(sync, encode_assignment(P[:2]), script.now)
    assert script.member.owner == script.member.identity
    script.member.leave()
    assert script.member.owner.generation == -1


def test_errors_that_stay_are_the_users() -> None:
    script = Script()
    script.member.subscribe(["t"])
    join = script.one(Join)
    script.member.failed(join, KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED), 0.0)
    failure = script.member.failure
    assert failure is not None
    assert failure.code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert script.step() == []
    script.member.subscribe(["t"])
    assert script.member.failure is None
    assert isinstance(script.one(Join), Join)


def test_a_fenced_instance_stops() -> None:
    script = Script(instance_id="one")
    script.settle(P[:1])
    script.beat(ErrorCode.FENCED_INSTANCE_ID)
    assert script.member.state is ClassicState.FAILED


@pytest.mark.parametrize("instance_id", [None, "one"])
def test_a_user_who_does_not_poll_loses_everything(instance_id: str | None) -> None:
    script = Script(instance_id=instance_id)
    script.settle(P[:2])
    script.member.poll_ended(script.now)
    script.now += 300.0
    goodbye = [action for action in script.step() if isinstance(action, Leave)]
    assert len(goodbye) == (1 if instance_id is None else 0)
    assert script.member.state is ClassicState.STALE
    assert not script.member.joined
    script.now += 1000.0
    assert script.step() == []
    script.member.poll_started()
    (callback,) = script.carry_out(CallbackKind.LOST)
    assert callback.partitions == set(P[:2])
    assert isinstance(script.one(Join), Join)


def test_a_long_poll_is_no_reason_to_leave() -> None:
    script = Script()
    script.settle(P[:2])
    script.member.poll_started()
    script.now += 1000.0
    assert [type(action) for action in script.step()] == [Beat]


def test_another_subscription_is_another_join() -> None:
    script = Script("cooperative-sticky")
    script.settle(P[:2])
    script.member.subscribe(["t"])
    assert script.step() == []
    script.member.subscribe(["u"])
    (callback,) = script.carry_out(CallbackKind.REVOKED)
    assert callback.partitions == set(P[:2])
    join = script.one(Join)
    assert isinstance(join, Join)
    assert decode_subscription(join.protocols[0][1]).topics == ("u",)


def test_leaving_says_goodbye_and_old_answers_are_ignored() -> None:
    script = Script()
    script.settle(P[:2])
    script.now += 3.0
    (beat,) = script.step()
    assert isinstance(beat, Beat)
    assert [type(action) for action in script.member.leave()] == [Leave]
    script.member.failed(beat, KafkaError(ErrorCode.UNKNOWN_MEMBER_ID), script.now)
    assert script.member.state is ClassicState.LEFT
    assert script.step() == []


@pytest.mark.parametrize("before", ClassicState)
@pytest.mark.parametrize("after", ClassicState)
def test_a_member_goes_only_where_the_table_lets_it(
    before: ClassicState, after: ClassicState
) -> None:
    member = Script().member
    member.state = before
    if before in CLASSIC_PREDECESSORS[after]:
        member._become(after)
        assert member.state is after
    else:
        with pytest.raises(ValueError, match="cannot go"):
            member._become(after)
