"""JoinGroup in every state, and the rules about who gets in."""

from __future__ import annotations

import pytest
from tests.unit.groups.classic.harness import (
    GROUP,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    Broker,
)

from moldau.errors import ErrorCode
from moldau.groups.classic import ClassicGroupState as State
from moldau.groups.records import from_record
from moldau.groups.settings import GroupSettings
from moldau.wire.stored.group_records import GroupMetadataValue

OTHER = (("range", b"other metadata"),)


@pytest.fixture
def broker() -> Broker:
    return Broker()


# -- checks before a group is touched ------------------------------------------------------------


def test_an_empty_group_id_is_refused(broker: Broker) -> None:
    assert broker.error(broker.join(group_id="")) is ErrorCode.INVALID_GROUP_ID
    assert len(broker.groups) == 0


@pytest.mark.parametrize("session_ms", [5999, 1_800_001])
def test_a_session_outside_the_bounds_is_refused(broker: Broker, session_ms: int) -> None:
    token = broker.join("some-id", session_ms=session_ms)
    assert broker.error(token) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert broker.answers[token].member_id == "some-id"
    assert len(broker.groups) == 0


@pytest.mark.parametrize("session_ms", [6000, 1_800_000])
def test_the_bounds_of_a_session_belong_to_it(broker: Broker, session_ms: int) -> None:
    assert broker.error(broker.join(session_ms=session_ms)) is ErrorCode.MEMBER_ID_REQUIRED


def test_a_member_id_of_a_group_that_is_not_there_is_unknown(broker: Broker) -> None:
    answer = broker.answers[broker.join("ghost")]
    assert answer.error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert (answer.member_id, answer.generation_id, answer.leader) == ("ghost", -1, "")
    assert len(broker.groups) == 0


# -- the first round -----------------------------------------------------------------------------


def test_a_new_member_is_given_an_id_and_asked_to_come_back(broker: Broker) -> None:
    answer = broker.answers[broker.join(client_id="billing")]
    assert answer.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id == "billing-1"
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", ())
    assert (answer.protocol_type, answer.protocol_name) == (None, None)
    assert broker.group.pending_join == {"billing-1"}
    assert broker.group.state is State.EMPTY


@pytest.mark.parametrize("version", range(10))
def test_the_extra_round_came_with_version_4(broker: Broker, version: int) -> None:
    token = broker.join(version=version)
    if version >= 4:
        assert broker.error(token) is ErrorCode.MEMBER_ID_REQUIRED
    else:
        assert token not in broker.answers
        assert broker.group.state is State.PREPARING_REBALANCE


@pytest.mark.parametrize("version", range(10))
def test_a_static_member_needs_no_extra_round(broker: Broker, version: int) -> None:
    token = broker.join(instance_id="rack-1", version=version)
    assert token not in broker.answers
    assert list(broker.group.members) == ["rack-1-1"]


def test_a_new_group_is_stored_at_once(broker: Broker) -> None:
    broker.join()
    ((key, value),) = broker.log
    decoded = from_record(key, value)
    assert decoded is not None
    assert decoded[1] == GroupMetadataValue("", 0, None, None, broker.now_ms)


def test_a_promised_member_that_stays_away_is_forgotten(broker: Broker) -> None:
    member_id = broker.answers[broker.join()].member_id
    broker.advance(SESSION_MS)
    assert not broker.group.pending_join
    assert broker.error(broker.join(member_id)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_others_wait_for_a_promised_member_until_its_session_ends(broker: Broker) -> None:
    leader, follower = broker.stable(2)
    broker.join()
    tokens = [broker.join(leader), broker.join(follower)]
    assert not broker.answers.keys() & set(tokens)
    broker.advance(SESSION_MS)
    assert [broker.error(token) for token in tokens] == [ErrorCode.NONE] * 2


# -- the initial rebalance -----------------------------------------------------------------------


def test_the_first_rebalance_waits_for_more_members(broker: Broker) -> None:
    first, token = broker.new_member()
    broker.advance(2999)
    assert token not in broker.answers
    broker.advance(1)
    answer = broker.answers[token]
    assert answer.error_code is ErrorCode.NONE
    assert (answer.generation_id, answer.leader, answer.member_id) == (1, first, first)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert [(m.member_id, m.group_instance_id, m.metadata) for m in answer.members] == [
        (first, None, b"r")
    ]


def test_each_newcomer_extends_the_initial_delay(broker: Broker) -> None:
    tokens = [broker.new_member()[1]]
    for _ in range(4):
        broker.advance(2000)
        tokens.append(broker.new_member()[1])
    # Pieces of 3 s, each followed by another if somebody came in it; nobody came from 9 to 12 s.
    broker.advance(3999)
    assert broker.group.state is State.PREPARING_REBALANCE
    broker.advance(1)
    assert {broker.answers[token].generation_id for token in tokens} == {1}


def test_the_initial_delay_never_exceeds_the_rebalance_timeout(broker: Broker) -> None:
    start = broker.now_ms
    broker.new_member(rebalance_ms=10_000)
    while broker.group.generation == 0:
        broker.advance(1000)
        broker.join(instance_id=f"one more at {broker.now_ms}", rebalance_ms=10_000)
    assert broker.now_ms - start <= 13_000


def test_every_initial_delay_starts_with_a_clean_slate(broker: Broker) -> None:
    first, _ = broker.new_member(rebalance_ms=3000)
    second, _ = broker.new_member(rebalance_ms=3000)
    broker.advance(3000)
    broker.leave((first, None), (second, None))
    assert broker.group.state is State.EMPTY
    _, token = broker.new_member()
    broker.advance(3000)
    assert broker.answers[token].error_code is ErrorCode.NONE


def test_without_a_delay_the_first_member_starts_at_the_next_tick() -> None:
    broker = Broker(GroupSettings(group_initial_rebalance_delay_ms=0))
    _, token = broker.new_member()
    assert broker.timeouts.next() == broker.now_ms
    broker.advance(0)
    assert broker.answers[token].generation_id == 1


# -- a group with members ------------------------------------------------------------------------


def test_members_are_shown_to_the_leader_only(broker: Broker) -> None:
    tokens = [broker.new_member()[1] for _ in range(3)]
    broker.advance(6000)
    leader, *followers = (broker.answers[token] for token in tokens)
    assert [m.member_id for m in leader.members] == ["app-1", "app-2", "app-3"]
    assert all(not follower.members for follower in followers)
    assert {answer.leader for answer in (leader, *followers)} == {"app-1"}


def test_a_newcomer_makes_a_stable_group_rebalance(broker: Broker) -> None:
    leader, follower = broker.stable(2)
    newcomer, token = broker.new_member()
    assert broker.group.state is State.PREPARING_REBALANCE
    assert broker.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    tokens = [broker.join(leader), broker.join(follower)]
    assert {broker.answers[t].generation_id for t in (token, *tokens)} == {2}
    assert {broker.answers[t].leader for t in (token, *tokens)} == {leader}
    assert len(broker.answers[tokens[0]].members) == 3
    assert newcomer in broker.group.members


def test_a_follower_with_the_same_metadata_disturbs_nobody(broker: Broker) -> None:
    leader, follower = broker.stable(2)
    answer = broker.answers[broker.join(follower)]
    assert answer.error_code is ErrorCode.NONE
    assert (answer.generation_id, answer.leader, answer.members) == (1, leader, ())
    assert broker.group.state is State.STABLE


def test_a_follower_with_other_metadata_makes_the_group_rebalance(broker: Broker) -> None:
    _, follower = broker.stable(2)
    token = broker.join(follower, protocols=OTHER)
    assert token not in broker.answers
    assert broker.group.state is State.PREPARING_REBALANCE


def test_the_leader_may_ask_for_a_rebalance_without_a_reason(broker: Broker) -> None:
    leader, _ = broker.stable(2)
    token = broker.join(leader)
    assert token not in broker.answers
    assert broker.group.state is State.PREPARING_REBALANCE


def test_a_lost_join_answer_is_given_again_while_the_leader_works(broker: Broker) -> None:
    leader, follower = broker.completing(2)
    again = broker.answers[broker.join(leader)]
    assert (again.error_code, again.generation_id) == (ErrorCode.NONE, 1)
    assert [m.member_id for m in again.members] == [leader, follower]
    assert broker.answers[broker.join(follower)].members == ()
    assert broker.group.state is State.COMPLETING_REBALANCE


def test_other_metadata_while_the_leader_works_starts_over(broker: Broker) -> None:
    leader, follower = broker.completing(2)
    waiting = broker.sync(follower, 1)
    broker.join(follower, protocols=OTHER)
    assert broker.error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert broker.group.state is State.PREPARING_REBALANCE
    assert broker.error(broker.sync(leader, 1, {})) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_newcomer_while_the_leader_works_starts_over(broker: Broker) -> None:
    ids = broker.completing(2)
    waiting = broker.sync(ids[1], 1)
    _, token = broker.new_member()
    assert broker.error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    tokens = [broker.join(member) for member in ids]
    assert {broker.answers[t].generation_id for t in (token, *tokens)} == {2}


def test_a_repeated_join_takes_the_place_of_the_first(broker: Broker) -> None:
    leader, _ = broker.stable(2)
    first = broker.join(leader)
    second = broker.join(leader)
    assert broker.error(first) is ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in broker.answers
    assert len(broker.group.awaiting_join) == 1


def test_the_id_of_another_is_unknown(broker: Broker) -> None:
    broker.stable(1)
    answer = broker.answers[broker.join("ghost")]
    assert answer.error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert answer.protocol_name is None


def test_old_versions_cannot_be_told_that_there_is_no_protocol(broker: Broker) -> None:
    broker.stable(1)
    assert broker.answers[broker.join("ghost", version=6)].protocol_name == ""


def test_a_member_id_with_the_wrong_instance_is_unknown_or_fenced(broker: Broker) -> None:
    broker.stable(1)
    broker.join(instance_id="rack-1")
    assert broker.error(broker.join("app-1", instance_id="x")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.error(broker.join("app-1", instance_id="rack-1")) is ErrorCode.FENCED_INSTANCE_ID


def test_a_promised_id_with_an_instance_is_not_accepted(broker: Broker) -> None:
    member_id = broker.answers[broker.join()].member_id
    token = broker.join(member_id, instance_id="rack-1")
    assert broker.error(token) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", RANGE), ("consumer", (("sticky", b""),)), ("consumer", ())],
)
def test_who_shares_no_protocol_stays_out(
    broker: Broker, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    ids = broker.stable(2)
    for member_id in ("", ids[0]):
        token = broker.join(member_id, protocol_type=protocol_type, protocols=protocols)
        assert broker.error(token) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert broker.answers[token].member_id == member_id
    assert broker.group.state is State.STABLE


def test_a_new_group_needs_some_protocol(broker: Broker) -> None:
    token = broker.join(protocols=())
    assert broker.error(token) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_may_change_its_purpose(broker: Broker) -> None:
    (only,) = broker.stable(1)
    broker.leave((only, None))
    assert broker.group.state is State.EMPTY
    _, token = broker.new_member(protocol_type="connect", protocols=(("default", b""),))
    broker.advance(3000)
    answer = broker.answers[token]
    assert (answer.protocol_type, answer.protocol_name) == ("connect", "default")
    assert answer.generation_id == 3


def test_in_version_0_the_session_is_also_the_time_to_rejoin(broker: Broker) -> None:
    broker.join(version=0, rebalance_ms=-1)
    (member,) = broker.group.members.values()
    assert member.rebalance_timeout_ms == SESSION_MS
    broker.join(version=1)
    assert broker.group.rebalance_timeout_ms == REBALANCE_MS


def test_a_first_join_is_not_parked_for_ever(broker: Broker) -> None:
    ids = broker.stable(2, rebalance_ms=900_000)
    _, token = broker.new_member(rebalance_ms=900_000)
    for _ in range(30):
        for member in ids:
            broker.heartbeat(member, 1)
        broker.advance(9999)
    assert token not in broker.answers
    for member in ids:
        broker.heartbeat(member, 1)
    broker.advance(9999)
    answer = broker.answers[token]
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


# -- size ----------------------------------------------------------------------------------------


def small(size: int) -> Broker:
    return Broker(GroupSettings(group_max_size=size))


def test_a_full_group_takes_nobody_more() -> None:
    broker = small(2)
    ids = broker.stable(2)
    answer = broker.answers[broker.join()]
    assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert broker.group.state is State.STABLE
    assert broker.error(broker.join(ids[1])) is ErrorCode.NONE


def test_a_rebalance_fills_a_group_up_to_its_size() -> None:
    broker = small(2)
    promised = [broker.answers[broker.join()].member_id for _ in range(3)]
    tokens = [broker.join(member) for member in promised]
    broker.advance(6000)
    errors = [broker.error(token) for token in tokens]
    assert errors == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert not broker.group.pending_join


def test_a_lowered_limit_sends_the_last_to_rejoin_away() -> None:
    broker = Broker()
    ids = broker.stable(3)
    broker.settings = GroupSettings(group_max_size=2)
    broker.restart()
    assert broker.group.state is State.PREPARING_REBALANCE
    assert [broker.heartbeat(member, 1) for member in ids] == [ErrorCode.REBALANCE_IN_PROGRESS] * 3
    tokens = [broker.join(member) for member in ids]
    assert broker.error(tokens[2]) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [broker.answers[token].generation_id for token in tokens[:2]] == [2, 2]


# -- the rebalance timeout -------------------------------------------------------------------------


def test_who_does_not_rejoin_in_time_is_removed(broker: Broker) -> None:
    leader, follower = broker.stable(2)
    token = broker.join(leader)
    for _ in range(12):
        assert broker.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        broker.advance(REBALANCE_MS // 12)
    answer = broker.answers[token]
    assert (answer.generation_id, len(answer.members)) == (2, 1)
    assert broker.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_rejoin_in_time_loses_the_lead(broker: Broker) -> None:
    leader, follower = broker.stable(2)
    token = broker.join(follower, protocols=OTHER)
    for _ in range(12):
        broker.heartbeat(leader, 1)
        broker.advance(REBALANCE_MS // 12)
    assert broker.answers[token].leader == follower
    assert [m.metadata for m in broker.answers[token].members] == [b"other metadata"]


def test_a_group_that_nobody_joins_again_becomes_empty(broker: Broker) -> None:
    broker.stable(2)
    broker.new_member()
    broker.leave(("app-3", None))
    broker.advance(REBALANCE_MS)
    assert broker.group.state is State.EMPTY
    assert broker.group.generation == 2
    decoded = from_record(*broker.log[-1])
    assert decoded is not None
    assert isinstance(decoded[1], GroupMetadataValue)
    assert (decoded[1].generation, decoded[1].members) == (2, ())


# -- failing appends -------------------------------------------------------------------------------


def test_a_new_group_that_cannot_be_stored_was_never_there(broker: Broker) -> None:
    broker.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    parked = broker.join(version=3)
    assert broker.error(parked) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert GROUP not in broker.groups
    assert len(broker.timeouts) == 0
