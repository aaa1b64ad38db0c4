"""Heartbeat, LeaveGroup, OffsetCommit and sessions, state by state."""

from __future__ import annotations

import pytest
from tests.unit.groups.classic.harness import GROUP, REBALANCE_MS, SESSION_MS, Broker

from moldau.errors import ErrorCode
from moldau.groups.classic import ClassicGroupState as State
from moldau.groups.records import from_record
from moldau.groups.timeouts import RETRY_MS
from moldau.outcome import Outcome
from moldau.wire.stored.group_records import GroupMetadataValue

OK = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
ILLEGAL = ErrorCode.ILLEGAL_GENERATION
STATES = [*State]


@pytest.fixture
def broker() -> Broker:
    return Broker()


def bring(broker: Broker, state: State) -> list[str]:
    """Two members that got to know each other, in a group that is in this state now."""
    ids = broker.completing(2) if state is State.COMPLETING_REBALANCE else broker.stable(2)
    if state is State.PREPARING_REBALANCE:
        broker.join(ids[0])
    if state in (State.EMPTY, State.DEAD):
        broker.leave(*((member, None) for member in ids))
    if state is State.DEAD:
        broker.apply(Outcome(records=broker.groups.delete(GROUP)[1]))
        assert GROUP not in broker.groups
    else:
        assert broker.group.state is state
    return ids


def errors(answer: object) -> list[ErrorCode]:
    return [member.error_code for member in answer.members]  # type: ignore[attr-defined]


# -- Heartbeat -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.EMPTY, UNKNOWN),
        (State.PREPARING_REBALANCE, REBALANCE),
        (State.COMPLETING_REBALANCE, OK),
        (State.STABLE, OK),
        (State.DEAD, UNKNOWN),
    ],
)
def test_heartbeat_of_a_member(broker: Broker, state: State, expected: ErrorCode) -> None:
    ids = bring(broker, state)
    assert broker.heartbeat(ids[1], 1) is expected


@pytest.mark.parametrize("state", STATES)
def test_heartbeat_of_a_stranger(broker: Broker, state: State) -> None:
    bring(broker, state)
    assert broker.heartbeat("ghost", 1) is UNKNOWN


@pytest.mark.parametrize(
    "state", [State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.STABLE]
)
@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_heartbeat_of_another_generation(broker: Broker, state: State, generation: int) -> None:
    ids = bring(broker, state)
    assert broker.heartbeat(ids[1], generation) is ILLEGAL


def test_heartbeat_without_a_group_id(broker: Broker) -> None:
    assert broker.heartbeat("a", 1, group_id="") is ErrorCode.INVALID_GROUP_ID


def test_heartbeats_keep_a_member_alive_and_silence_ends_it(broker: Broker) -> None:
    lively, silent = broker.stable(2)
    for _ in range(3):
        broker.advance(SESSION_MS // 2 - 1)
        broker.heartbeat(lively, 1)
    assert list(broker.group.members) == [lively]
    assert broker.group.state is State.PREPARING_REBALANCE
    assert broker.heartbeat(silent, 1) is UNKNOWN
    assert broker.answers[broker.join(lively)].generation_id == 2


def test_a_heartbeat_does_not_live_longer_than_the_session(broker: Broker) -> None:
    (only,) = broker.stable(1)
    broker.advance(SESSION_MS - 1)
    assert broker.heartbeat(only, 1) is OK
    broker.advance(SESSION_MS - 1)
    before = broker.group.state
    broker.advance(1)
    assert (before, broker.group.state) == (State.STABLE, State.EMPTY)


def test_when_the_last_member_dies_the_empty_group_is_stored(broker: Broker) -> None:
    broker.stable(2)
    broker.advance(SESSION_MS + REBALANCE_MS)
    assert broker.group.state is State.EMPTY
    decoded = from_record(*broker.log[-1])
    assert decoded is not None
    value = decoded[1]
    assert isinstance(value, GroupMetadataValue)
    assert (value.generation, value.protocol_type, value.protocol) == (2, "consumer", None)
    assert (value.leader, value.members) == (None, ())
    assert len(broker.timeouts) == 0


# -- LeaveGroup ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "expected", "after"),
    [
        (State.EMPTY, UNKNOWN, State.EMPTY),
        (State.PREPARING_REBALANCE, OK, State.COMPLETING_REBALANCE),
        (State.COMPLETING_REBALANCE, OK, State.PREPARING_REBALANCE),
        (State.STABLE, OK, State.PREPARING_REBALANCE),
        (State.DEAD, UNKNOWN, None),
    ],
)
def test_leave_of_a_member(
    broker: Broker, state: State, expected: ErrorCode, after: State | None
) -> None:
    ids = bring(broker, state)
    answer = broker.leave((ids[1], None))
    assert answer.error_code is OK
    assert [(m.member_id, m.group_instance_id) for m in answer.members] == [(ids[1], None)]
    assert errors(answer) == [expected]
    group = broker.groups.get(GROUP)
    assert (None if group is None else group.state) is after


@pytest.mark.parametrize("state", STATES)
def test_leave_of_a_stranger(broker: Broker, state: State) -> None:
    bring(broker, state)
    before = broker.groups.describe(GROUP)
    assert errors(broker.leave(("ghost", None), ("", "ghost"), ("", None))) == [UNKNOWN] * 3
    assert broker.groups.describe(GROUP) == before


def test_leave_without_a_group_id(broker: Broker) -> None:
    answer = broker.leave(("a", None), group_id="")
    assert (answer.error_code, answer.members) == (ErrorCode.INVALID_GROUP_ID, ())


def test_several_leave_with_one_request(broker: Broker) -> None:
    ids = broker.stable(3)
    answer = broker.leave((ids[0], None), ("ghost", None), (ids[1], None))
    assert errors(answer) == [OK, UNKNOWN, OK]
    assert list(broker.group.members) == [ids[2]]


def test_a_promised_member_can_leave_before_it_comes(broker: Broker) -> None:
    ids = broker.stable(1)
    promised = broker.answers[broker.join()].member_id
    token = broker.join(ids[0])
    assert token not in broker.answers
    assert errors(broker.leave((promised, None))) == [OK]
    assert broker.answers[token].generation_id == 2


def test_one_that_is_removed_while_it_waits_is_told(broker: Broker) -> None:
    ids = broker.stable(2)
    joining = broker.join(ids[0])
    broker.leave((ids[0], None))
    answer = broker.answers[joining]
    assert (answer.error_code, answer.member_id) == (UNKNOWN, "")


def test_one_that_is_removed_while_it_waits_for_the_leader_is_told(broker: Broker) -> None:
    _, follower = broker.completing(2)
    waiting = broker.sync(follower, 1)
    broker.leave((follower, None))
    assert broker.error(waiting) is UNKNOWN


def test_the_last_to_leave_empties_the_group(broker: Broker) -> None:
    ids = broker.stable(2)
    stored = len(broker.log)
    answer = broker.leave(*((member, None) for member in ids))
    assert errors(answer) == [OK, OK]
    assert broker.group.state is State.EMPTY
    assert len(broker.log) == stored + 1
    assert len(broker.timeouts) == 0


def test_a_departure_that_cannot_be_stored_is_answered_with_the_error(broker: Broker) -> None:
    (only,) = broker.stable(1)
    broker.fail_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer = broker.leave((only, None))
    assert (answer.error_code, answer.members) == (ErrorCode.NOT_COORDINATOR, ())


def test_that_a_group_is_empty_is_stored_as_soon_as_it_can_be(broker: Broker) -> None:
    (only,) = broker.stable(1)
    broker.fail_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.leave((only, None))
    stored = broker.group.stored
    broker.advance(10 * RETRY_MS)
    assert (broker.group.state, broker.group.members) == (State.PREPARING_REBALANCE, {})
    assert broker.group.stored is stored
    broker.fail_with = None
    broker.advance(RETRY_MS)
    assert (broker.group.state, broker.group.generation) == (State.EMPTY, 2)
    assert len(broker.timeouts) == 0


def test_who_joins_before_the_empty_group_is_stored_finds_it_preparing(broker: Broker) -> None:
    (only,) = broker.stable(1)
    broker.fail_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.leave((only, None))
    broker.fail_with = None
    member, parked = broker.new_member()
    assert broker.answers[parked].generation_id == 2
    broker.sync_all([member])
    assert broker.group.state is State.STABLE


def test_a_promised_member_that_leaves_an_empty_group_starts_nothing(broker: Broker) -> None:
    promised = broker.answers[broker.join()].member_id
    assert errors(broker.leave((promised, None))) == [OK]
    assert broker.group.state is State.EMPTY
    assert len(broker.timeouts) == 0


def test_when_all_leave_before_the_leader_is_done_nothing_is_waited_for(broker: Broker) -> None:
    ids = broker.completing(2)
    broker.leave(*((member, None) for member in ids))
    assert broker.group.state is State.EMPTY
    assert len(broker.timeouts) == 0


def test_leaving_during_the_initial_delay_does_not_cut_it_short(broker: Broker) -> None:
    first, _ = broker.new_member()
    _, token = broker.new_member()
    broker.leave((first, None))
    assert token not in broker.answers
    broker.advance(6000)
    assert broker.answers[token].leader == "app-2"


# -- OffsetCommit --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "member", "admin"),
    [
        (State.EMPTY, UNKNOWN, OK),
        (State.PREPARING_REBALANCE, OK, UNKNOWN),
        (State.COMPLETING_REBALANCE, REBALANCE, UNKNOWN),
        (State.STABLE, OK, UNKNOWN),
        (State.DEAD, ErrorCode.GROUP_ID_NOT_FOUND, OK),
    ],
)
def test_commit_of_a_member_and_of_somebody_outside(
    broker: Broker, state: State, member: ErrorCode, admin: ErrorCode
) -> None:
    ids = bring(broker, state)
    assert broker.commit(ids[1], 1) is member
    assert broker.commit("", -1) is admin


@pytest.mark.parametrize("state", STATES)
def test_commit_of_a_stranger(broker: Broker, state: State) -> None:
    bring(broker, state)
    expected = ErrorCode.GROUP_ID_NOT_FOUND if state is State.DEAD else UNKNOWN
    assert broker.commit("ghost", 1) is expected


def test_an_empty_group_takes_a_commit_without_generation_from_anybody(broker: Broker) -> None:
    bring(broker, State.EMPTY)
    assert broker.commit("somebody", -1) is OK
    assert broker.commit("somebody", -1, "some name") is OK


def test_commit_of_another_generation(broker: Broker) -> None:
    ids = broker.stable(2)
    assert broker.commit(ids[0], 0) is ILLEGAL
    assert broker.commit(ids[0], -1) is ILLEGAL


def test_commit_to_a_group_that_is_not_there_in_old_versions(broker: Broker) -> None:
    assert broker.commit("a", 1, version=8) is ILLEGAL
    assert broker.commit("a", 1, version=9) is ErrorCode.GROUP_ID_NOT_FOUND
    assert broker.commit("a", 1, transactional=True) is ILLEGAL
    assert GROUP not in broker.groups


def test_transactions_commit_whatever_the_state(broker: Broker) -> None:
    leader, _ = broker.completing(2)
    assert broker.commit("", -1, transactional=True) is OK
    assert broker.commit(leader, 1, transactional=True) is OK
    assert broker.commit(leader, 0, transactional=True) is ILLEGAL


def test_a_commit_is_a_sign_of_life(broker: Broker) -> None:
    (only,) = broker.stable(1)
    for _ in range(4):
        broker.advance(SESSION_MS - 1)
        assert broker.commit(only, 1) is OK
    assert broker.group.state is State.STABLE


def test_a_refused_commit_is_none(broker: Broker) -> None:
    (only,) = broker.stable(1)
    broker.advance(SESSION_MS - 1)
    assert broker.commit(only, 0) is ILLEGAL
    broker.advance(1)
    assert broker.group.state is State.EMPTY


# -- administration ------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
def test_only_an_empty_group_can_be_deleted(broker: Broker, state: State) -> None:
    bring(broker, state)
    error, records = broker.groups.delete(GROUP)
    if state is State.EMPTY:
        assert error is OK
        broker.apply(Outcome(records=records))
        assert GROUP not in broker.groups
        broker.restart()
        assert GROUP not in broker.groups
    else:
        expected = (
            ErrorCode.GROUP_ID_NOT_FOUND if state is State.DEAD else ErrorCode.NON_EMPTY_GROUP
        )
        assert (error, records) == (expected, [])


def test_deleting_forgets_promised_members_too(broker: Broker) -> None:
    member_id = broker.answers[broker.join()].member_id
    assert broker.groups.delete_if_unused(GROUP) == []
    broker.apply(Outcome(records=broker.groups.delete(GROUP)[1]))
    assert len(broker.timeouts) == 0
    assert broker.error(broker.join(member_id)) is UNKNOWN


def test_a_group_without_offsets_and_members_goes(broker: Broker) -> None:
    bring(broker, State.EMPTY)
    broker.apply(Outcome(records=broker.groups.delete_if_unused(GROUP)))
    assert GROUP not in broker.groups
    assert broker.groups.delete_if_unused(GROUP) == []


@pytest.mark.parametrize("state", STATES)
def test_offsets_of_a_consumer_group_may_be_deleted_by_topic(broker: Broker, state: State) -> None:
    bring(broker, state)
    expected = ErrorCode.GROUP_ID_NOT_FOUND if state is State.DEAD else OK
    assert broker.groups.validate_offset_delete(GROUP) is expected


def test_offsets_of_another_kind_of_group_only_when_it_is_empty(broker: Broker) -> None:
    (only,) = broker.completing(1, protocol_type="connect")
    assert broker.groups.validate_offset_delete(GROUP) is ErrorCode.NON_EMPTY_GROUP
    broker.leave((only, None))
    assert broker.groups.validate_offset_delete(GROUP) is OK


def test_offsets_alone_make_a_simple_group(broker: Broker) -> None:
    group = broker.groups.ensure(GROUP, broker.now_ms)
    assert group.is_simple
    assert broker.groups.ensure(GROUP, 0) is group
    assert [(g.group_id, g.protocol_type, g.state) for g in broker.groups.list()] == [
        (GROUP, "", "Empty")
    ]
    broker.join()
    assert not group.is_simple


@pytest.mark.parametrize("state", [s for s in STATES if s is not State.DEAD])
def test_description(broker: Broker, state: State) -> None:
    ids = bring(broker, state)
    description = broker.groups.describe(GROUP)
    assert description is not None
    assert (description.state, description.protocol_type) == (state.value, "consumer")
    is_stable = state is State.STABLE
    assert description.protocol_data == ("range" if is_stable else "")
    expected = [] if state is State.EMPTY else ids
    assert [m.member_id for m in description.members] == expected
    for member in description.members:
        assert (member.client_id, member.client_host) == ("app", "/127.0.0.1")
        assert member.metadata == (b"r" if is_stable else b"")
    assert next(broker.groups.list()).state == state.value


def test_what_is_not_there_cannot_be_described(broker: Broker) -> None:
    assert broker.groups.describe(GROUP) is None
    assert not broker.groups.is_subscribed(GROUP, "topic")


# -- loading -------------------------------------------------------------------------------------


def test_a_loaded_group_is_stable_and_its_members_have_one_session(broker: Broker) -> None:
    ids = broker.stable(2)
    before = broker.groups.describe(GROUP)
    broker.advance(SESSION_MS - 1)
    broker.restart()
    assert broker.groups.describe(GROUP) == before
    broker.advance(SESSION_MS - 1)
    assert [broker.heartbeat(member, 1) for member in ids] == [OK, OK]
    assert broker.commit(ids[0], 1) is OK
    assert broker.answers[broker.sync(ids[1], 1)].assignment == f"part of {ids[1]}".encode()
    broker.advance(SESSION_MS + REBALANCE_MS)
    assert broker.group.state is State.EMPTY


def test_a_group_lost_in_the_middle_of_a_rebalance_is_what_it_was_before(broker: Broker) -> None:
    ids = broker.stable(2)
    token = broker.join(ids[0])
    broker.restart()
    assert broker.error(token) is ErrorCode.NOT_COORDINATOR
    assert broker.group.state is State.STABLE
    assert broker.group.generation == 1


def test_an_empty_group_keeps_its_generation_over_a_restart(broker: Broker) -> None:
    bring(broker, State.EMPTY)
    broker.restart()
    assert (broker.group.state, broker.group.generation) == (State.EMPTY, 2)
    assert broker.group.protocol_type == "consumer"
    broker.completing(1)
    assert broker.group.generation == 3


def test_a_group_that_becomes_something_else_lets_go_of_its_requests(broker: Broker) -> None:
    ids = broker.stable(2)
    token = broker.join(ids[0])
    broker.send(broker.groups.release(GROUP, REBALANCE, broker.now_ms))
    assert broker.error(token) is REBALANCE
    assert broker.answers[token].member_id == ids[0]
    assert broker.groups.release("nobody", REBALANCE, broker.now_ms) == []
