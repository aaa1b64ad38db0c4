"""The bookkeeping of a group: members, the vote, leaders, subscriptions."""

from __future__ import annotations

from struct import pack

import pytest

from moldau.errors import ErrorCode
from moldau.groups.classic.group import ClassicGroup
from moldau.groups.classic.member import ClassicMember, Parked, vote
from moldau.groups.classic.states import ClassicGroupState
from moldau.groups.classic.stored import without_members


def member(
    member_id: str,
    *names: str,
    instance_id: str | None = None,
    metadata: bytes = b"",
    rebalance_ms: int = 1000,
) -> ClassicMember:
    return ClassicMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id="client",
        client_host="/host",
        rebalance_timeout_ms=rebalance_ms,
        session_timeout_ms=500,
        protocol_type="consumer",
        protocols=tuple((name, metadata) for name in names or ("range",)),
    )


def group_of(*members: ClassicMember) -> ClassicGroup:
    group = ClassicGroup("g", ClassicGroupState.PREPARING_REBALANCE)
    for one in members:
        group.add(one)
    return group


def subscription(*topics: str, version: int = 0, rest: bytes = b"") -> bytes:
    """A subscription without user data; ``rest`` is whatever later versions have after it."""
    names = [topic.encode() for topic in topics]
    body = b"".join(pack(">h", len(name)) + name for name in names)
    return pack(">hi", version, len(names)) + body + pack(">i", -1) + rest


def test_the_first_member_leads_and_the_next_takes_over() -> None:
    group = group_of(member("a"), member("b"), member("c"))
    assert group.leader == "a"
    group.remove("b")
    assert group.leader == "a"
    group.remove("a")
    assert group.leader == "c"
    group.remove("c")
    assert group.leader is None


def test_the_protocol_with_most_votes_among_the_common_ones_wins() -> None:
    group = group_of(
        member("a", "sticky", "range", "robin"),
        member("b", "range", "robin"),
        member("c", "robin", "range"),
    )
    assert group.select_protocol() == "range"
    group.remove("a")
    assert group.select_protocol() in {"range", "robin"}
    group.remove("b")
    assert group.select_protocol() == "robin"


def test_a_vote_may_be_held_as_if_a_member_supported_something_else() -> None:
    group = group_of(member("a", "sticky", "range"), member("b", "sticky", "range"))
    assert group.select_protocol() == "sticky"
    assert group.select_protocol({"b": (("range", b""),)}) == "range"
    assert group.select_protocol() == "sticky"


def test_a_protocol_named_twice_counts_once() -> None:
    group = group_of(member("a", "range", "range"), member("b", "robin", "range"))
    assert group.select_protocol() == "range"
    assert not group.supports("consumer", ["robin"])


def test_a_newcomer_needs_a_protocol_that_all_members_have() -> None:
    group = group_of(member("a", "range", "robin"), member("b", "range"))
    assert group.supports("consumer", ["sticky", "range"])
    assert not group.supports("consumer", ["robin"])
    assert not group.supports("connect", ["range"])
    assert not group.supports("consumer", [])


def test_an_empty_group_takes_any_protocol_but_none() -> None:
    group = ClassicGroup("g")
    assert group.supports("connect", ["default"])
    assert not group.supports("", ["default"])
    assert not group.supports("connect", [])


def test_the_most_patient_member_sets_the_rebalance_timeout() -> None:
    group = group_of(member("a", rebalance_ms=10), member("b", rebalance_ms=30))
    assert group.rebalance_timeout_ms == 30
    assert ClassicGroup("g").rebalance_timeout_ms == 0


def test_a_leader_that_did_not_join_is_replaced_by_one_that_did() -> None:
    a, b = member("a"), member("b")
    group = group_of(a, b)
    assert not group.elect_joined_leader()
    assert group.leader == "a"
    group.park_join(b, Parked(1, 9))
    assert group.elect_joined_leader()
    assert group.leader == "b"
    group.park_join(a, Parked(2, 9))
    assert group.elect_joined_leader()
    assert group.leader == "b"


def test_a_renamed_static_member_keeps_place_lead_and_assignment() -> None:
    a, b = member("a-1", instance_id="a"), member("b")
    group = group_of(a, b)
    a.assignment = b"part"
    group.pending_sync = {"a-1"}
    group.rename_static(a, "a-2")
    assert list(group.members) == ["a-2", "b"]
    assert group.leader == "a-2"
    assert group.members["a-2"].assignment == b"part"
    assert group.static_member_id("a") == "a-2"
    assert group.pending_sync == {"a-2"}
    assert group.check_member("a-1", "a") is ErrorCode.FENCED_INSTANCE_ID
    assert group.check_member("a-1", None) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_member("a-2", "a") is ErrorCode.NONE
    assert group.check_member("a-2", "other") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_knows_its_metadata_by_protocol_only() -> None:
    one = ClassicMember("a", None, "c", "/h", 1, 1, "t", (("x", b"1"), ("y", b"2")))
    assert one.metadata("y") == b"2"
    assert vote(one.protocols, {"y"}) == "y"
    with pytest.raises(KeyError):
        one.metadata("z")
    with pytest.raises(KeyError):
        vote(one.protocols, {"z"})


def test_the_subscription_is_the_union_over_the_members() -> None:
    group = group_of(
        member("a", metadata=subscription("t1", "t2")),
        member("b", metadata=subscription("t2", "töpic", version=3, rest=b"any later field")),
    )
    group.next_generation(1)
    assert group.subscribed_topics == frozenset({"t1", "t2", "töpic"})
    assert group.is_subscribed("t1")
    assert not group.is_subscribed("t3")


def test_unreadable_metadata_counts_as_subscribed_to_anything() -> None:
    group = group_of(
        member("a", metadata=subscription("t1")), member("b", metadata=b"\x00\x00\x00")
    )
    group.next_generation(1)
    assert group.subscribed_topics is None
    assert group.is_subscribed("t3")


def test_a_group_of_another_kind_is_subscribed_to_nothing() -> None:
    group = ClassicGroup("g", protocol_type="connect")
    group.refresh_subscription()
    assert not group.is_subscribed("t1")


def test_an_empty_consumer_group_is_subscribed_to_nothing() -> None:
    group = group_of(member("a", metadata=subscription("t1")))
    group.remove("a")
    group.replay(without_members(group, 1))
    assert group.state is ClassicGroupState.EMPTY
    assert group.subscribed_topics == frozenset()
