"""Both membership machines under any order of answers, errors, polls and time: they never end up in
an illegal state, never ask twice, and never own what they were not given.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.client.consumer.assignors import MemberSubscription, make_assignors
from moldau.client.consumer.assignors.embedded import encode_assignment
from moldau.client.consumer.membership.actions import (
    Action,
    Beat,
    CallBack,
    CallbackKind,
    ConsumerBeat,
    Join,
    JoinAnswer,
    RunAssignor,
    Sync,
)
from moldau.client.consumer.membership.classic import ClassicMember, ClassicOptions
from moldau.client.consumer.membership.consumer_protocol import (
    JOIN_EPOCH,
    ConsumerOptions,
    ConsumerProtocolMember,
)
from moldau.client.consumer.membership.states import ClassicState, ConsumerState
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition

ERRORS = [
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
]
TOPIC_ID = uuid.UUID(int=7)
PARTITIONS = [TopicPartition("t", number) for number in range(4)]


class Walk:
    """A member, what it has asked for and was not answered yet, and the user's side of it."""

    def __init__(self, member: ClassicMember | ConsumerProtocolMember, seed: int) -> None:
        self.member = member
        self.choose = random.Random(seed)
        self.now = 0.0
        self.epoch = 0
        self.open: list[Action] = []
        self.callbacks: list[CallBack] = []
        self.reading: set[TopicPartition] = set()
        """What a consumer would read after the callbacks so far."""
        self.polling = False
        self.under_way: CallBack | None = None

    def step(self) -> None:
        self._take(self.member.actions(self.now))

    def _take(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, CallBack):
                self.callbacks.append(action)
                continue
            if isinstance(action, ConsumerBeat) and action.epoch == JOIN_EPOCH:
                assert not action.owned, "a member that joins owns nothing"
            if isinstance(action, Join):
                wanted = [one for one in self.callbacks if self.member.is_wanted(one)]
                assert not wanted, "joins only after the user has given up what it must"
            same = [one for one in self.open if type(one) is type(action)]
            current = [one for one in same if getattr(one, "attempt", 0) == self.member.attempt]
            assert len(current) <= 1, "one request of a kind at a time"
            self.open.append(action)

    def event(self) -> None:
        """Something happens."""
        happenings: list[Callable[[], None]] = [self._time, self._poll, self._subscribe]
        if self.open:
            happenings += [self._answer] * 4 + [self._fail]
        if self.under_way is not None:
            happenings += [self._finish_callback] * 4
        elif self.callbacks and self.polling:
            happenings += [self._start_callback] * 4
        self.choose.choice(happenings)()
        self.step()
        self._check()

    def _check(self) -> None:
        assert self.member.owned <= set(PARTITIONS)
        if not self.callbacks and self.under_way is None:
            assert self.member.owned == self.reading
        assert self.member.wake_at() > self.now or self.member.failure is None

    def _time(self) -> None:
        self.now += self.choose.choice([0.05, 1.0, 3.0, 400.0])

    def _poll(self) -> None:
        if self.under_way is not None:
            return  # the poll goes on until the callback returns
        if self.polling:
            self.member.poll_ended(self.now)
        else:
            self.member.poll_started()
        self.polling = not self.polling

    def _subscribe(self) -> None:
        if self.choose.random() < 0.2:
            if self.under_way is None:
                self.open += self.member.leave()
                self.callbacks.clear()
                self.reading.clear()
        else:
            self.member.subscribe(["t"] if self.choose.random() < 0.8 else ["t", "u"])

    def _start_callback(self) -> None:
        callback = self.callbacks.pop(0)
        if not self.member.is_wanted(callback):
            return
        self.under_way = callback
        self.member.callback_begins()
        if callback.kind is CallbackKind.ASSIGNED:
            self.reading |= callback.partitions

    def _finish_callback(self) -> None:
        callback, self.under_way = self.under_way, None
        assert callback is not None
        if callback.kind is not CallbackKind.ASSIGNED:
            self.reading -= callback.partitions
        self.member.callback_done(callback)

    def _fail(self) -> None:
        action = self.open.pop(self.choose.randrange(len(self.open)))
        self.member.failed(action, KafkaError(self.choose.choice(ERRORS)), self.now)

    def _share(self) -> list[TopicPartition]:
        return [one for one in PARTITIONS if self.choose.random() < 0.5]

    def _answer(self) -> None:
        action = self.open.pop(self.choose.randrange(len(self.open)))
        member = self.member
        if isinstance(member, ConsumerProtocolMember):
            if isinstance(action, ConsumerBeat):
                self._answer_consumer(member, action)
            return
        match action:
            case Join():
                self.epoch += 1
                leader = self.choose.choice(["me", "other"])
                members = {"me": MemberSubscription(("t",))} if leader == "me" else {}
                name = self.choose.choice([one for one, _ in action.protocols])
                answer = JoinAnswer(self.epoch, name, leader, "me", members)
                self._take(member.join_answered(action, answer, self.now))
            case RunAssignor():
                self._take(member.assign(action, {"t": [frozenset()] * 4}))
            case Sync():
                member.sync_answered(action, encode_assignment(self._share()), self.now)
            case Beat():
                member.beat_answered(action, self.now)

    def _answer_consumer(self, member: ConsumerProtocolMember, action: ConsumerBeat) -> None:
        self.epoch += 1
        target: dict[uuid.UUID, tuple[int, ...]] | None = None
        if action.full or self.choose.random() < 0.3:
            target = {TOPIC_ID: tuple(one.partition for one in self._share())}
        member.beat_answered(action, self.epoch, 5.0, target, self.now)


def run(member: ClassicMember | ConsumerProtocolMember, seed: int) -> set[Any]:
    """One walk; the states that it came through."""
    walk = Walk(member, seed)
    states = set()
    for _ in range(120):
        walk.event()
        states.add(member.state)
    return states


def classic(assignor: str) -> ClassicMember:
    return ClassicMember(ClassicOptions(), make_assignors([assignor]))


def consumer() -> ConsumerProtocolMember:
    member = ConsumerProtocolMember(ConsumerOptions("me"))
    member.learn_names({TOPIC_ID: "t"})
    return member


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.sampled_from(["range", "cooperative-sticky"]))
def test_classic_members(seed: int, assignor: str) -> None:
    run(classic(assignor), seed)


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_members_of_the_consumer_protocol(seed: int) -> None:
    run(consumer(), seed)


def test_walks_come_through_all_states() -> None:
    seen = set().union(*(run(classic("range"), seed) for seed in range(100)))
    assert seen == set(ClassicState)
    seen = set().union(*(run(consumer(), seed) for seed in range(100)))
    assert seen == set(ConsumerState)
