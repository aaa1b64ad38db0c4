"""Static members: they keep their place over a restart, and fence their former selves (KIP-345)."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest
from tests.unit.groups.classic.harness import GROUP, REBALANCE_MS, SESSION_MS, Broker

from moldau.errors import ErrorCode
from moldau.groups.classic import ClassicGroupState as State

BOTH = (("range", b"r"), ("sticky", b"s"))
FENCED = ErrorCode.FENCED_INSTANCE_ID


@pytest.fixture
def broker() -> Broker:
    return Broker()


def pair(broker: Broker, **options: Any) -> tuple[str, str]:
    """A stable group of the static members a, who leads, and b."""
    tokens = [broker.join(instance_id=name, **options) for name in ("a", "b")]
    broker.advance(6000)
    a, b = (broker.answers[token].member_id for token in tokens)
    broker.sync_all([a, b])
    return a, b


def test_a_returning_follower_keeps_its_part_without_a_rebalance(broker: Broker) -> None:
    a, b = pair(broker)
    stored = len(broker.log)
    answer = broker.answers[broker.join(instance_id="b")]
    assert answer.error_code is ErrorCode.NONE
    assert answer.member_id not in ("", a, b)
    assert (answer.generation_id, answer.leader, answer.members) == (1, a, ())
    assert not answer.skip_assignment
    assert len(broker.log) == stored + 1
    assert broker.group.state is State.STABLE
    part = broker.answers[broker.sync(answer.member_id, 1, instance_id="b")].assignment
    assert part == f"part of {b}".encode()


def test_a_returning_leader_is_told_to_skip_the_assignment(broker: Broker) -> None:
    _, b = pair(broker)
    answer = broker.answers[broker.join(instance_id="a")]
    assert answer.skip_assignment
    assert answer.leader == answer.member_id
    assert [m.member_id for m in answer.members] == [answer.member_id, b]
    assert [m.group_instance_id for m in answer.members] == ["a", "b"]


def test_before_version_9_a_returning_leader_takes_itself_for_a_follower(broker: Broker) -> None:
    a, _ = pair(broker)
    answer = broker.answers[broker.join(instance_id="a", version=8)]
    assert not answer.skip_assignment
    assert (answer.leader, answer.members) == (a, ())
    assert broker.group.leader == answer.member_id


def test_the_former_self_is_fenced(broker: Broker) -> None:
    a, _ = pair(broker)
    broker.join(instance_id="a")
    assert broker.heartbeat(a, 1, instance_id="a") is FENCED
    assert broker.error(broker.sync(a, 1, instance_id="a")) is FENCED
    assert broker.error(broker.join(a, instance_id="a")) is FENCED
    assert broker.commit(a, 1, "a") is FENCED
    assert broker.leave((a, "a")).members[0].error_code is FENCED
    assert broker.heartbeat(a, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_former_self_that_waits_in_join_is_fenced_at_once(broker: Broker) -> None:
    old = broker.join(instance_id="a")
    new = broker.join(instance_id="a")
    answer = broker.answers[old]
    assert (answer.error_code, answer.member_id) == (FENCED, "a-1")
    assert answer.protocol_name is None
    broker.advance(3000)
    assert broker.answers[new].leader == "a-2"


def test_a_former_self_that_waits_in_sync_is_fenced_and_the_group_starts_over(
    broker: Broker,
) -> None:
    tokens = [broker.join(instance_id=name) for name in ("a", "b")]
    broker.advance(6000)
    a, b = (broker.answers[token].member_id for token in tokens)
    waiting = broker.sync(b, 1, instance_id="b")
    back = broker.join(instance_id="b")
    assert broker.error(waiting) is FENCED
    assert broker.group.state is State.PREPARING_REBALANCE
    assert broker.answers[broker.join(a, instance_id="a")].generation_id == 2
    assert broker.answers[back].generation_id == 2


def test_a_return_that_changes_the_vote_makes_the_group_rebalance(broker: Broker) -> None:
    a, b = pair(broker, protocols=BOTH)
    assert broker.group.protocol == "range"
    sticky = (("sticky", b"s"),)
    back = broker.join(instance_id="b", protocols=sticky)
    assert back not in broker.answers
    assert broker.group.state is State.PREPARING_REBALANCE
    broker.join(a, instance_id="a", protocols=BOTH)
    assert broker.answers[back].protocol_name == "sticky"
    assert b not in broker.group.members


def test_a_static_member_that_misses_a_rebalance_stays_until_its_session_ends(
    broker: Broker,
) -> None:
    a, b = pair(broker, rebalance_ms=SESSION_MS // 2)
    token = broker.join(a, instance_id="a", rebalance_ms=SESSION_MS // 2)
    broker.advance(SESSION_MS // 2)
    answer = broker.answers[token]
    assert [m.member_id for m in answer.members] == [a, b]
    broker.sync(a, answer.generation_id, {}, instance_id="a")
    broker.advance(SESSION_MS - 1)
    assert broker.heartbeat(a, 2, instance_id="a") in (
        ErrorCode.NONE,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
    assert b not in broker.group.members


def test_a_static_leader_that_misses_a_rebalance_hands_over_the_lead(broker: Broker) -> None:
    a, b = pair(broker, session_ms=2 * REBALANCE_MS)
    token = broker.join(b, instance_id="b", protocols=(("range", b"x"),))
    broker.advance(REBALANCE_MS)
    assert broker.answers[token].leader == b
    assert a in broker.group.members


def test_when_only_static_members_are_missing_the_group_waits_for_them(broker: Broker) -> None:
    a, b = pair(broker, session_ms=10 * REBALANCE_MS)
    newcomer, token = broker.new_member()
    broker.leave((newcomer, None))
    broker.advance(REBALANCE_MS)
    assert broker.group.state is State.PREPARING_REBALANCE
    tokens = [broker.join(a, instance_id="a"), broker.join(b, instance_id="b")]
    assert {broker.answers[t].generation_id for t in tokens} == {2}
    assert broker.error(token) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_administrator_removes_a_static_member_by_its_name(broker: Broker) -> None:
    a, b = pair(broker)
    answer = broker.leave(("", "b"), ("", "ghost"))
    assert [(m.member_id, m.group_instance_id) for m in answer.members] == [
        ("", "b"),
        ("", "ghost"),
    ]
    assert [m.error_code for m in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert broker.heartbeat(b, 1, instance_id="b") is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(broker.group.members) == [a]


def test_the_new_id_survives_a_restart_of_the_coordinator(broker: Broker) -> None:
    a, b = pair(broker)
    back = broker.answers[broker.join(instance_id="b")].member_id
    broker.restart()
    assert broker.heartbeat(back, 1, instance_id="b") is ErrorCode.NONE
    assert broker.heartbeat(b, 1, instance_id="b") is FENCED
    assert list(broker.group.members) == [a, back]


def test_a_return_that_cannot_be_stored_leaves_the_former_self_in_place(broker: Broker) -> None:
    a, b = pair(broker)
    before = broker.groups.describe(GROUP)
    for name in ("b", "a"):
        broker.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
        token = broker.join(instance_id=name, protocols=(("range", b"new"),))
        broker.fail_with = None
        answer = broker.answers[token]
        assert answer.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (answer.member_id, answer.leader) == ("", a)
        assert broker.groups.describe(GROUP) == before
    assert broker.heartbeat(a, 1, instance_id="a") is ErrorCode.NONE
    assert broker.heartbeat(b, 1, instance_id="b") is ErrorCode.NONE
    broker.advance(SESSION_MS)
    assert b not in broker.group.members


def test_a_returned_member_lives_as_long_as_its_session(broker: Broker) -> None:
    a, _ = pair(broker)
    back = broker.answers[broker.join(instance_id="b")].member_id
    broker.advance(SESSION_MS - 1)
    assert broker.heartbeat(a, 1, instance_id="a") is ErrorCode.NONE
    broker.advance(1)
    assert back not in broker.group.members


def test_a_newcomer_that_restarts_while_it_waits_is_patient(broker: Broker) -> None:
    a, _ = pair(broker, session_ms=10 * SESSION_MS)
    broker.join(instance_id="c")
    token = broker.join(instance_id="c")
    broker.advance(2 * SESSION_MS)
    assert token not in broker.answers
    assert broker.group.state is State.PREPARING_REBALANCE
    assert a in broker.group.members


def test_a_returned_member_may_read_other_topics(broker: Broker) -> None:
    def topic(name: bytes) -> tuple[tuple[str, bytes], ...]:
        return (("range", pack(">hih", 0, 1, len(name)) + name + pack(">i", -1)),)

    pair(broker, protocols=topic(b"old"))
    broker.join(instance_id="b", protocols=topic(b"new"))
    assert broker.group.subscribed_topics == frozenset({"old", "new"})
    broker.restart()
    assert broker.groups.is_subscribed(GROUP, "new")
