"""SyncGroup in every state, and what is stored when the leader has decided."""

from __future__ import annotations

import pytest
from tests.unit.groups.classic.harness import REBALANCE_MS, SESSION_MS, Broker

from moldau.errors import ErrorCode
from moldau.groups.classic import ClassicGroupState as State
from moldau.groups.records import from_record
from moldau.wire.stored.group_records import GroupMetadataValue, MemberMetadata


@pytest.fixture
def broker() -> Broker:
    return Broker()


def last_stored(broker: Broker) -> GroupMetadataValue:
    decoded = from_record(*broker.log[-1])
    assert decoded is not None
    assert isinstance(decoded[1], GroupMetadataValue)
    return decoded[1]


def test_followers_wait_for_the_leader(broker: Broker) -> None:
    leader, *followers = broker.completing(3)
    waiting = [broker.sync(member, 1) for member in followers]
    assert not broker.answers.keys() & set(waiting)
    token = broker.sync(leader, 1, {leader: b"1", followers[0]: b"2"})
    answers = [broker.answers[t] for t in (token, *waiting)]
    assert [a.assignment for a in answers] == [b"1", b"2", b""]
    assert {(a.error_code, a.protocol_type, a.protocol_name) for a in answers} == {
        (ErrorCode.NONE, "consumer", "range")
    }
    assert broker.group.state is State.STABLE


def test_the_generation_is_stored_with_the_assignment(broker: Broker) -> None:
    ids = broker.stable(2)
    assert last_stored(broker) == GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=ids[0],
        current_state_timestamp=broker.now_ms,
        members=tuple(
            MemberMetadata(
                member_id=member,
                group_instance_id=None,
                client_id="app",
                client_host="/127.0.0.1",
                rebalance_timeout=REBALANCE_MS,
                session_timeout=SESSION_MS,
                subscription=b"r",
                assignment=f"part of {member}".encode(),
            )
            for member in ids
        ),
    )


def test_a_late_follower_gets_its_part_at_once(broker: Broker) -> None:
    leader, follower = broker.completing(2)
    broker.sync(leader, 1, {follower: b"yours"})
    stored = len(broker.log)
    assert broker.answers[broker.sync(follower, 1)].assignment == b"yours"
    assert len(broker.log) == stored


def test_a_part_for_somebody_else_is_dropped(broker: Broker) -> None:
    (only,) = broker.completing(1)
    broker.sync(only, 1, {"ghost": b"x", only: b"mine"})
    assert [m.member_id for m in last_stored(broker).members] == [only]


def test_a_group_that_is_not_there_or_empty_knows_no_members(broker: Broker) -> None:
    assert broker.error(broker.sync("a", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    (only,) = broker.stable(1)
    broker.leave((only, None))
    assert broker.error(broker.sync(only, 2)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_id_is_refused(broker: Broker) -> None:
    assert broker.error(broker.sync("a", 1, group_id="")) is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("state", ["completing", "stable"])
def test_strangers_and_old_generations_are_told_so(broker: Broker, state: str) -> None:
    leader, _ = getattr(broker, state)(2)
    assert broker.error(broker.sync("ghost", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.error(broker.sync(leader, 0)) is ErrorCode.ILLEGAL_GENERATION
    assert broker.error(broker.sync(leader, 2)) is ErrorCode.ILLEGAL_GENERATION


def test_during_a_rebalance_it_is_too_late(broker: Broker) -> None:
    leader, follower = broker.stable(2)
    broker.join(leader)
    assert broker.error(broker.sync(follower, 1)) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("protocol_type", "protocol"), [("connect", "range"), ("consumer", "sticky")]
)
def test_another_protocol_than_the_chosen_is_inconsistent(
    broker: Broker, protocol_type: str, protocol: str
) -> None:
    leader, _ = broker.completing(2)
    token = broker.sync(leader, 1, protocol_type=protocol_type, protocol=protocol)
    assert broker.error(token) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_from_version_5_the_protocol_must_be_named(broker: Broker) -> None:
    leader, _ = broker.completing(2)
    for missing in ({"protocol_type": None}, {"protocol": None}):
        token = broker.sync(leader, 1, **missing)  # type: ignore[arg-type]
        assert broker.error(token) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    token = broker.sync(leader, 1, protocol_type=None, protocol=None, version=4)
    assert broker.error(token) is ErrorCode.NONE


def test_a_repeated_sync_takes_the_place_of_the_first(broker: Broker) -> None:
    leader, follower = broker.completing(2)
    first = broker.sync(follower, 1)
    second = broker.sync(follower, 1)
    assert broker.error(first) is ErrorCode.REBALANCE_IN_PROGRESS
    broker.sync(leader, 1, {follower: b"yours"})
    assert broker.answers[second].assignment == b"yours"


def test_a_leader_that_leaves_makes_the_waiting_join_again(broker: Broker) -> None:
    leader, follower, third = broker.completing(3)
    waiting = [broker.sync(follower, 1), broker.sync(third, 1)]
    broker.leave((leader, None))
    assert {broker.error(token) for token in waiting} == {ErrorCode.REBALANCE_IN_PROGRESS}
    tokens = [broker.join(follower), broker.join(third)]
    assert {broker.answers[t].leader for t in tokens} == {follower}
    assert {broker.answers[t].generation_id for t in tokens} == {2}


def test_a_leader_that_dies_makes_the_waiting_join_again(broker: Broker) -> None:
    leader, follower = broker.completing(2)
    waiting = broker.sync(follower, 1)
    broker.advance(SESSION_MS)
    assert leader not in broker.group.members
    assert broker.error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert broker.answers[broker.join(follower)].leader == follower


def test_one_who_waits_for_the_leader_is_not_taken_for_dead(broker: Broker) -> None:
    leader, follower = broker.completing(2)
    waiting = broker.sync(follower, 1)
    for _ in range(4):
        assert broker.heartbeat(leader, 1) is ErrorCode.NONE
        broker.advance(SESSION_MS - 1)
    assert follower in broker.group.members
    broker.sync(leader, 1, {follower: b"yours"})
    assert broker.answers[waiting].assignment == b"yours"
    broker.advance(SESSION_MS - 1)
    assert broker.heartbeat(follower, 1) is ErrorCode.NONE


def test_members_that_never_sync_are_removed_after_the_rebalance_timeout(broker: Broker) -> None:
    leader, follower = broker.completing(2)
    broker.sync(leader, 1, {})
    for _ in range(11):
        broker.advance(REBALANCE_MS // 12)
        broker.heartbeat(leader, 1)
        assert broker.heartbeat(follower, 1) is ErrorCode.NONE
    broker.advance(REBALANCE_MS // 12)
    assert broker.group.state is State.PREPARING_REBALANCE
    assert list(broker.group.members) == [leader]


def test_when_all_have_synced_nothing_is_waited_for_but_sessions(broker: Broker) -> None:
    broker.stable(3)
    assert len(broker.timeouts) == 3


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_an_assignment_that_cannot_be_stored_is_nobodys(
    broker: Broker, cause: ErrorCode, told: ErrorCode
) -> None:
    leader, follower = broker.completing(2)
    waiting = broker.sync(follower, 1)
    broker.fail_with = cause
    token = broker.sync(leader, 1, {leader: b"1", follower: b"2"})
    broker.fail_with = None
    assert [broker.error(t) for t in (token, waiting)] == [told, told]
    assert broker.answers[waiting].assignment == b""
    assert broker.group.state is State.PREPARING_REBALANCE
    assert all(not member.assignment for member in broker.group.members.values())
    tokens = [broker.join(leader), broker.join(follower)]
    assert {broker.answers[t].generation_id for t in tokens} == {2}
