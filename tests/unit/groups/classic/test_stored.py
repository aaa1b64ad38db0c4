"""Groups out of records, also those that very old brokers wrote."""

from __future__ import annotations

from dataclasses import replace

from moldau.groups.classic import ClassicGroupState as State
from moldau.groups.classic.stored import group_record, restored
from moldau.groups.records import from_record
from moldau.wire.stored.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata

MEMBER = MemberMetadata(
    member_id="m",
    group_instance_id="name",
    client_id="client",
    client_host="/host",
    session_timeout=7000,
    subscription=b"wants",
    assignment=b"gets",
)


def test_a_record_without_rebalance_timeout_and_timestamp() -> None:
    group = restored("g", GroupMetadataValue("connect", 4, "default", "m", members=(MEMBER,)))
    assert (group.state, group.generation, group.leader) == (State.STABLE, 4, "m")
    assert group.state_timestamp_ms is None
    (member,) = group.members.values()
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (7000, 7000)
    assert (member.protocols, member.assignment) == ((("default", b"wants"),), b"gets")
    assert group.static_member_id("name") == "m"


def test_a_record_without_members_is_an_empty_group() -> None:
    group = restored("g", GroupMetadataValue("", 0, None, None, 5))
    assert (group.state, group.state_timestamp_ms, group.protocol_type) == (State.EMPTY, 5, None)
    assert group.is_simple


def test_what_is_written_is_what_was_read() -> None:
    member = replace(MEMBER, rebalance_timeout=9000)
    for value in (
        GroupMetadataValue("connect", 4, "default", "m", 77, (member,)),
        GroupMetadataValue("consumer", 9, None, None, -1),
    ):
        record = group_record(restored("g", value))
        assert from_record(*record) == (GroupMetadataKey("g"), value)
