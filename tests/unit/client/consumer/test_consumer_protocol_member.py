"""A member under the consumer protocol as a machine: heartbeats, reconciliation, fencing."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from moldau.client.consumer.membership.actions import (
    Action,
    CallBack,
    CallbackKind,
    ConsumerBeat,
)
from moldau.client.consumer.membership.consumer_protocol import (
    ConsumerOptions,
    ConsumerProtocolMember,
)
from moldau.client.consumer.membership.states import CONSUMER_PREDECESSORS, ConsumerState
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition

ID, OTHER_ID = uuid.uuid4(), uuid.uuid4()
P = [TopicPartition("t", number) for number in range(6)]
INTERVAL = 5.0


class Script:
    def __init__(self, *, static: bool = False) -> None:
        self.now = 0.0
        self.epoch = 0
        self.member = ConsumerProtocolMember(ConsumerOptions("me", static=static))
        self.member.learn_names({ID: "t"})

    def step(self) -> list[Action]:
        return self.member.actions(self.now)

    def beat(self, share: Sequence[int] | None = None) -> ConsumerBeat:
        """The heartbeat that is due now, answered with an assignment or without."""
        (beat,) = (action for action in self.step() if isinstance(action, ConsumerBeat))
        target = None if share is None else {ID: tuple(share)}
        self.epoch += 1
        self.member.beat_answered(beat, self.epoch, INTERVAL, target, self.now)
        return beat

    def carry_out(self, *kinds: CallbackKind) -> list[CallBack]:
        callbacks = [action for action in self.step() if isinstance(action, CallBack)]
        assert [callback.kind for callback in callbacks] == list(kinds)
        for callback in callbacks:
            self.member.callback_done(callback)
        return callbacks

    def settle(self, *share: int) -> None:
        self.member.subscribe(["t"])
        self.member.poll_started()
        self.beat(share)
        self.carry_out(CallbackKind.ASSIGNED)
        self.beat()
        assert self.member.state is ConsumerState.STABLE

    def fail(self, code: ErrorCode) -> None:
        self.now += INTERVAL
        (beat,) = self.step()
        self.member.failed(beat, KafkaError(code), self.now)


def test_the_first_heartbeat_tells_everything_and_the_next_only_what_changed() -> None:
    script = Script()
    assert script.step() == []
    script.member.subscribe(["t"])
    first = script.beat([0, 1])
    assert (first.epoch, first.topics, first.owned, first.full) == (0, frozenset({"t"}), {}, True)
    assert script.member.owned == set()
    script.carry_out(CallbackKind.ASSIGNED)
    assert script.member.owned == set(P[:2])
    acknowledgement = script.beat()
    assert (acknowledgement.epoch, acknowledgement.topics) == (1, None)
    assert acknowledgement.owned == {ID: (0, 1)}
    assert script.step() == []
    script.now += INTERVAL
    routine = script.beat()
    assert (routine.epoch, routine.topics, routine.owned) == (2, None, None)


def test_after_a_lost_answer_everything_is_told_so_that_the_assignment_comes_again() -> None:
    script = Script()
    script.settle(0, 1)
    script.fail(ErrorCode.NOT_COORDINATOR)
    script.now += INTERVAL
    again = script.beat([0, 1, 2])
    assert (again.topics, again.owned, again.full) == (frozenset({"t"}), {ID: (0, 1)}, True)
    script.carry_out(CallbackKind.ASSIGNED)
    assert script.member.owned == set(P[:3])
    assert not script.beat().full


def test_a_group_that_the_coordinator_has_lost_is_joined_anew() -> None:
    script = Script()
    script.settle(0)
    script.fail(ErrorCode.GROUP_ID_NOT_FOUND)
    script.carry_out(CallbackKind.LOST)
    beat = script.beat([0])
    assert (beat.epoch, beat.owned) == (0, {})


def test_an_answer_lost_while_partitions_are_given_up_is_asked_for_again_too() -> None:
    script = Script()
    script.settle(0, 1)
    script.now += INTERVAL
    script.beat([0])
    callbacks = [action for action in script.step() if isinstance(action, CallBack)]
    script.fail(ErrorCode.NOT_COORDINATOR)
    script.now += INTERVAL
    again = script.beat()
    assert (again.owned, again.full) == ({ID: (0, 1)}, True)
    for callback in callbacks:
        script.member.callback_done(callback)
    assert script.beat().owned == {ID: (0,)}, "what was given up meanwhile is told as well"


def test_partitions_are_given_up_before_that_is_acknowledged() -> None:
    script = Script()
    script.settle(0, 1, 2)
    script.now += INTERVAL
    script.beat([0])
    (revoked, assigned) = [action for action in script.step() if isinstance(action, CallBack)]
    assert (revoked.kind, revoked.partitions) == (CallbackKind.REVOKED, frozenset(P[1:3]))
    script.now += INTERVAL
    while_busy = script.beat()
    assert while_busy.owned is None, "nothing is said before it is done"
    script.member.callback_done(revoked)
    script.member.callback_done(assigned)
    assert script.beat().owned == {ID: (0,)}
    assert script.member.state is ConsumerState.STABLE


def test_an_assignment_that_comes_during_another_is_next() -> None:
    script = Script()
    script.member.subscribe(["t"])
    script.beat([0])
    callbacks = script.step()
    script.now += INTERVAL
    script.beat([0, 1])
    (first,) = [action for action in callbacks if isinstance(action, CallBack)]
    script.member.callback_done(first)
    script.carry_out(CallbackKind.ASSIGNED)
    assert script.member.owned == set(P[:2])


def test_a_topic_without_a_name_waits_for_it() -> None:
    script = Script()
    script.member.learn_names({})
    script.member.subscribe(["t"])
    script.beat([0])
    assert script.step() == []
    assert script.member.unknown_topics == {ID}
    script.member.learn_names({ID: "t"})
    script.carry_out(CallbackKind.ASSIGNED)
    assert script.member.owned == {P[0]}


def test_a_topic_made_anew_is_another_topic() -> None:
    script = Script()
    script.settle(0)
    script.member.learn_names({OTHER_ID: "t"})
    script.now += INTERVAL
    (beat,) = script.step()
    assert isinstance(beat, ConsumerBeat)
    script.member.beat_answered(beat, 9, INTERVAL, {OTHER_ID: (0,)}, script.now)
    script.carry_out(CallbackKind.REVOKED, CallbackKind.ASSIGNED)
    assert script.beat().owned == {OTHER_ID: (0,)}


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_everything_and_joins_again(code: ErrorCode) -> None:
    script = Script()
    script.settle(0, 1)
    script.fail(code)
    assert not script.member.joined
    (callback,) = script.carry_out(CallbackKind.LOST)
    assert callback.partitions == set(P[:2])
    again = script.beat([])
    assert (again.epoch, again.topics, again.owned) == (0, frozenset({"t"}), {})


def test_what_is_assigned_while_being_fenced_is_lost_too() -> None:
    script = Script()
    script.member.subscribe(["t"])
    script.beat([0])
    (assigned,) = [action for action in script.step() if isinstance(action, CallBack)]
    script.fail(ErrorCode.UNKNOWN_MEMBER_ID)
    script.member.callback_done(assigned)
    (lost,) = script.carry_out(CallbackKind.LOST)
    assert lost.partitions == {P[0]}


def test_an_answer_that_never_came_is_asked_for_with_everything() -> None:
    script = Script()
    script.settle(0)
    script.fail(ErrorCode.NETWORK_EXCEPTION)
    assert script.step() == []
    script.now = script.member.wake_at()
    again = script.beat()
    assert (again.epoch, again.topics, again.owned) == (2, frozenset({"t"}), {ID: (0,)})


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_ASSIGNOR, ErrorCode.UNRELEASED_INSTANCE_ID])
def test_errors_that_stay_are_the_users(code: ErrorCode) -> None:
    script = Script()
    script.member.subscribe(["t"])
    script.fail(code)
    state, failure = script.member.state, script.member.failure
    assert state is ConsumerState.FAILED
    assert failure is not None
    assert script.step() == []
    script.member.subscribe(["t"])
    assert script.member.failure is None
    assert script.beat().epoch == 0


@pytest.mark.parametrize(("static", "epoch"), [(False, -1), (True, -2)])
def test_a_user_who_does_not_poll_gives_way(static: bool, epoch: int) -> None:
    script = Script(static=static)
    script.settle(0)
    script.member.poll_ended(script.now)
    script.now += 300.0
    (goodbye,) = script.step()
    assert isinstance(goodbye, ConsumerBeat)
    assert goodbye.epoch == epoch
    assert script.step() == []
    script.member.poll_started()
    script.carry_out(CallbackKind.LOST)
    assert script.beat().epoch == 0


@pytest.mark.parametrize(("static", "epoch"), [(False, -1), (True, -2)])
def test_leaving_is_a_heartbeat_too(static: bool, epoch: int) -> None:
    script = Script(static=static)
    script.settle(0)
    (goodbye,) = script.member.leave()
    assert isinstance(goodbye, ConsumerBeat)
    assert goodbye.epoch == epoch
    assert script.step() == []


def test_a_new_subscription_is_told_at_once() -> None:
    script = Script()
    script.settle(0)
    script.member.subscribe(["t", "u"])
    assert script.beat().topics == frozenset({"t", "u"})


def test_a_pattern_goes_to_the_coordinator() -> None:
    script = Script()
    script.member.subscribe([], "^t.*")
    beat = script.beat([])
    assert (beat.topics, beat.pattern) == (frozenset(), "^t.*")


@pytest.mark.parametrize("before", ConsumerState)
@pytest.mark.parametrize("after", ConsumerState)
def test_a_member_goes_only_where_the_table_lets_it(
    before: ConsumerState, after: ConsumerState
) -> None:
    member = Script().member
    member.state = before
    if before in CONSUMER_PREDECESSORS[after]:
        member._become(after)
        assert member.state is after
    else:
        with pytest.raises(ValueError, match="cannot go"):
            member._become(after)
