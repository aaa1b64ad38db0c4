"""Groups out of records, also those that very old brokers wrote."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.groups.classic import ClassicGroup
from moldau.groups.classic import ClassicGroupState as State
from moldau.groups.classic.stored import as_it_is
from moldau.wire.errors import DecodeError
from moldau.wire.stored.group_records import GroupMetadataValue, MemberMetadata

MEMBER = MemberMetadata(
    member_id="m",
    group_instance_id="name",
    client_id="client",
    client_host="/host",
    session_timeout=7000,
    subscription=b"wants",
    assignment=b"gets",
)


def restored(value: GroupMetadataValue) -> ClassicGroup:
    group = ClassicGroup("g")
    group.replay(value)
    return group


def test_a_record_without_rebalance_timeout_and_timestamp() -> None:
    group = restored(GroupMetadataValue("connect", 4, "default", "m", members=(MEMBER,)))
    assert (group.state, group.generation, group.leader) == (State.STABLE, 4, "m")
    assert group.state_timestamp_ms is None
    (member,) = group.members.values()
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (7000, 7000)
    assert (member.protocols, member.assignment) == ((("default", b"wants"),), b"gets")
    assert group.static_member_id("name") == "m"


def test_a_record_without_members_is_an_empty_group() -> None:
    group = restored(GroupMetadataValue("", 0, None, None, 5))
    assert (group.state, group.state_timestamp_ms, group.protocol_type) == (State.EMPTY, 5, None)
    assert group.is_simple


@pytest.mark.parametrize(
    "value",
    [
        GroupMetadataValue(
            "connect", 4, "default", "m", 77, (replace(MEMBER, rebalance_timeout=9000),)
        ),
        GroupMetadataValue("consumer", 9, None, None, -1),
    ],
)
def test_what_is_written_is_what_was_read(value: GroupMetadataValue) -> None:
    assert as_it_is(restored(value)) == value


def test_what_members_support_is_remembered_where_it_fits_the_record() -> None:
    value = GroupMetadataValue("connect", 4, "default", "m", 77, (MEMBER,))
    group = restored(value)
    both: tuple[tuple[str, bytes], ...] = (("other", b"more"), ("default", b"wants"))
    group.members["m"].protocols = both
    group.replay(replace(value, generation=5))
    assert group.members["m"].protocols == both
    group.replay(replace(value, members=(replace(MEMBER, subscription=b"else"),)))
    assert group.members["m"].protocols == (("default", b"else"),)


@pytest.mark.parametrize(
    "other", [replace(MEMBER, member_id="other"), replace(MEMBER, group_instance_id=None)]
)
def test_a_record_with_the_same_member_twice_is_damaged(other: MemberMetadata) -> None:
    with pytest.raises(DecodeError, match="twice"):
        restored(GroupMetadataValue("consumer", 4, "range", "m", members=(MEMBER, other)))
