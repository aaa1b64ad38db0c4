"""Bytes of Apache Kafka 4.3.1's own classes, read and written by ours.

Each line of the data file is a name, a key and a value in hex ("-" for a tombstone), printed by
``tests/java/GroupRecords.java``.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.wire.errors import DecodeError, EncodeError
from moldau.wire.stored import group_records as r
from moldau.wire.stored.group_records import GROUP_RECORDS
from moldau.wire.stored.offset_commits import decode_offset_commit, encode_offset_commit

GOLDEN = {
    name: (bytes.fromhex(key), None if value == "-" else bytes.fromhex(value))
    for name, key, value in (
        line.split()
        for line in (Path(__file__).parent / "data" / "kafka_4_3_1_group_records.txt")
        .read_text()
        .splitlines()
    )
}


def topic_id(number: int) -> UUID:
    return UUID(int=0x0102030405060708 << 64 | number)


OFFSET = r.OffsetCommitKey("group", "töpic", 7)
GROUP = r.GroupMetadataKey("group")
MEMBER = r.ConsumerGroupMemberMetadataKey("group", "member")
CURRENT = r.ConsumerGroupCurrentMemberAssignmentKey("group", "member")
TARGET = r.ConsumerGroupTargetAssignmentMemberKey("group", "member")

FIRST_MEMBER = r.MemberMetadata(
    member_id="member-1",
    group_instance_id="instance",
    client_id="client",
    client_host="/127.0.0.1",
    rebalance_timeout=300_000,
    session_timeout=45_000,
    subscription=bytes([1, 2, 3]),
    assignment=bytes([4, 5]),
)
SECOND_MEMBER = r.MemberMetadata(
    member_id="member-2",
    client_id="c",
    client_host="/h",
    rebalance_timeout=2,
    session_timeout=1,
    subscription=b"",
    assignment=b"",
)
CLASSIC_MEMBERS = (FIRST_MEMBER, SECOND_MEMBER)

WRITTEN: dict[str, tuple[r.GroupKey, r.GroupValue | None]] = {
    "offset_commit": (
        OFFSET,
        r.OffsetCommitValue(
            1234567890123, "a note ☃", 1700000000000, leader_epoch=5, topic_id=topic_id(1)
        ),
    ),
    "offset_commit_bare": (OFFSET, r.OffsetCommitValue(0, "", 1700000000000)),
    "offset_commit_expires": (
        OFFSET,
        r.OffsetCommitValue(42, "m", 1700000000000, expire_timestamp=1700000060000),
    ),
    "offset_tombstone": (OFFSET, None),
    "offset_commit_v1": (OFFSET, r.OffsetCommitValue(99, "md", 1000, expire_timestamp=2000)),
    "offset_commit_v4": (
        OFFSET,
        r.OffsetCommitValue(99, "md", 1000, leader_epoch=3, topic_id=topic_id(2)),
    ),
    "group_metadata_v3": (
        GROUP,
        r.GroupMetadataValue("consumer", 11, "range", "member-1", 1700000000000, CLASSIC_MEMBERS),
    ),
    "group_metadata_empty": (GROUP, r.GroupMetadataValue("", 0, None, None, 5)),
    "group_metadata_tombstone": (GROUP, None),
    "consumer_group_metadata": (
        r.ConsumerGroupMetadataKey("group"),
        r.ConsumerGroupMetadataValue(12, 0x1122334455667788),
    ),
    "consumer_group_metadata_no_hash": (
        r.ConsumerGroupMetadataKey("group"),
        r.ConsumerGroupMetadataValue(12),
    ),
    "consumer_group_metadata_tombstone": (r.ConsumerGroupMetadataKey("group"), None),
    "consumer_group_partition_metadata": (
        r.ConsumerGroupPartitionMetadataKey("group"),
        r.ConsumerGroupPartitionMetadataValue(
            (r.TopicMetadata(topic_id(1), "t", 2, (r.PartitionMetadata(1, ("a", "b")),)),)
        ),
    ),
    "consumer_group_partition_metadata_tombstone": (
        r.ConsumerGroupPartitionMetadataKey("group"),
        None,
    ),
    "consumer_group_member_metadata": (
        MEMBER,
        r.ConsumerGroupMemberMetadataValue(
            "inst", "rack", "client", "/127.0.0.1", ("a", "b"), "a.*", 300_000, "uniform"
        ),
    ),
    "consumer_group_member_metadata_bare": (
        MEMBER,
        r.ConsumerGroupMemberMetadataValue(None, None, "", "", (), None),
    ),
    "consumer_group_member_metadata_classic": (
        MEMBER,
        r.ConsumerGroupMemberMetadataValue(
            None,
            None,
            "c",
            "/h",
            ("a",),
            None,
            5,
            None,
            r.ClassicMemberMetadata(45_000, (r.ClassicProtocol("range", bytes([9, 8])),)),
        ),
    ),
    "consumer_group_member_metadata_tombstone": (MEMBER, None),
    "consumer_group_target_assignment_metadata": (
        r.ConsumerGroupTargetAssignmentMetadataKey("group"),
        r.ConsumerGroupTargetAssignmentMetadataValue(13, 1700000000000),
    ),
    "consumer_group_target_assignment_metadata_default": (
        r.ConsumerGroupTargetAssignmentMetadataKey("group"),
        r.ConsumerGroupTargetAssignmentMetadataValue(13),
    ),
    "consumer_group_target_assignment_metadata_tombstone": (
        r.ConsumerGroupTargetAssignmentMetadataKey("group"),
        None,
    ),
    "consumer_group_target_assignment_member": (
        TARGET,
        r.ConsumerGroupTargetAssignmentMemberValue((r.TargetPartitions(topic_id(3), (0, 1, 2)),)),
    ),
    "consumer_group_target_assignment_member_empty": (
        TARGET,
        r.ConsumerGroupTargetAssignmentMemberValue(),
    ),
    "consumer_group_target_assignment_member_tombstone": (TARGET, None),
    "consumer_group_current_member_assignment": (
        CURRENT,
        r.ConsumerGroupCurrentMemberAssignmentValue(
            7,
            6,
            1,
            (r.CurrentPartitions(topic_id(3), (0, 1), (5, 6)),),
            (r.CurrentPartitions(topic_id(4), (2,)),),
        ),
    ),
    "consumer_group_current_member_assignment_bare": (
        CURRENT,
        r.ConsumerGroupCurrentMemberAssignmentValue(-1, -1, -1),
    ),
    "consumer_group_current_member_assignment_tombstone": (CURRENT, None),
    "consumer_group_regular_expression": (
        r.ConsumerGroupRegularExpressionKey("group", "a.*"),
        r.ConsumerGroupRegularExpressionValue(("a", "ab"), 77, 1700000000000),
    ),
    "consumer_group_regular_expression_tombstone": (
        r.ConsumerGroupRegularExpressionKey("group", "a.*"),
        None,
    ),
}

WITHOUT_INSTANCE = (replace(FIRST_MEMBER, group_instance_id=None), SECOND_MEMBER)
WITH_ONE_TIMEOUT = tuple(
    replace(member, rebalance_timeout=r.NO_TIMEOUT) for member in WITHOUT_INSTANCE
)

ONLY_READ: dict[str, tuple[r.GroupKey, r.GroupValue | None] | None] = {
    "offset_commit_v0": (OFFSET, r.OffsetCommitValue(99, "md", 1000)),
    "offset_commit_v2": (OFFSET, r.OffsetCommitValue(99, "md", 1000)),
    "offset_commit_v3": (OFFSET, r.OffsetCommitValue(99, "md", 1000, leader_epoch=3)),
    "legacy_offset_commit": (
        r.OffsetCommitKey("group", "t", 1),
        r.OffsetCommitValue(5, "x", 9),
    ),
    "group_metadata_v0": (
        GROUP,
        r.GroupMetadataValue("consumer", 11, "range", "member-1", -1, WITH_ONE_TIMEOUT),
    ),
    "group_metadata_v1": (
        GROUP,
        r.GroupMetadataValue("consumer", 11, "range", "member-1", -1, WITHOUT_INSTANCE),
    ),
    "group_metadata_v2": (
        GROUP,
        r.GroupMetadataValue("consumer", 11, "range", "member-1", 1700000000000, WITHOUT_INSTANCE),
    ),
    "group_metadata_v4": WRITTEN["group_metadata_v3"],
    "share_group_metadata": None,
}


def test_every_golden_record_is_used() -> None:
    assert WRITTEN.keys() | ONLY_READ.keys() == GOLDEN.keys()


@pytest.mark.parametrize("name", WRITTEN)
def test_writes_the_bytes_that_kafka_writes(name: str) -> None:
    key, value = WRITTEN[name]
    assert GROUP_RECORDS.encode(key, value) == GOLDEN[name]


@pytest.mark.parametrize("name", [*WRITTEN, *ONLY_READ])
def test_reads_what_kafka_wrote(name: str) -> None:
    expected = WRITTEN[name] if name in WRITTEN else ONLY_READ[name]
    assert GROUP_RECORDS.decode(*GOLDEN[name]) == expected


@pytest.mark.parametrize("name", [*WRITTEN, *ONLY_READ])
def test_a_cut_record_is_refused(name: str) -> None:
    key, value = GOLDEN[name]
    if ONLY_READ.get(name, True) is None:
        return
    for end in range(len(key)):
        with pytest.raises(DecodeError):
            GROUP_RECORDS.decode(key[:end], value)
    for end in range(len(value or b"")):
        with pytest.raises(DecodeError):
            GROUP_RECORDS.decode(key, value[:end] if value else value)


@pytest.mark.parametrize("name", [*WRITTEN, *ONLY_READ])
@given(data=st.data())
def test_a_damaged_record_never_raises_anything_else(name: str, data: st.DataObject) -> None:
    key, value = GOLDEN[name]
    if value is None:
        return
    position = data.draw(st.integers(0, len(value) - 1))
    damaged = bytearray(value)
    damaged[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(DecodeError):
        GROUP_RECORDS.decode(key, bytes(damaged))


def test_a_value_of_a_future_version_is_refused() -> None:
    key, _ = GROUP_RECORDS.encode(OFFSET, None)
    with pytest.raises(DecodeError, match="version 5"):
        GROUP_RECORDS.decode(key, b"\0\5" + bytes(40))


def test_a_key_of_an_unknown_kind_is_left_alone() -> None:
    assert GROUP_RECORDS.decode(b"\x7f\xff whatever", b"?") is None


def test_unknown_tagged_fields_are_skipped() -> None:
    value = r.OffsetCommitValue(1, "", 2)
    key, encoded = GROUP_RECORDS.encode(OFFSET, value)
    assert encoded is not None
    future = encoded[:-1] + b"\x01\x09\x02ab"
    assert GROUP_RECORDS.decode(key, future) == (OFFSET, value)


def test_a_member_without_a_classic_part_says_so() -> None:
    """Left out it is an empty one to Kafka: a member under the classic protocol."""
    key, encoded = GROUP_RECORDS.encode(*WRITTEN["consumer_group_member_metadata_bare"])
    assert encoded is not None
    assert encoded.endswith(b"\x01\x00\x01\x00")
    decoded = GROUP_RECORDS.decode(key, encoded[:-4] + b"\x00")
    assert decoded is not None
    assert isinstance(decoded[1], r.ConsumerGroupMemberMetadataValue)
    assert decoded[1].classic_member_metadata == r.ClassicMemberMetadata(0)


# Round trips. Names are at most 249 characters where Kafka says so; ids of groups and members have
# no limit but the two bytes of their length.

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
OPTIONAL = st.none() | TEXT
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
UUIDS = st.uuids()
BYTES = st.binary(max_size=20)


def tuples_of(element: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(element, max_size=3).map(tuple)


INTS = tuples_of(INT32)
CURRENT_PARTITIONS = tuples_of(st.builds(r.CurrentPartitions, UUIDS, INTS, st.none() | INTS))
CLASSIC = st.builds(
    r.ClassicMemberMetadata, INT32, tuples_of(st.builds(r.ClassicProtocol, TEXT, BYTES))
)
RECORDS: st.SearchStrategy[tuple[r.GroupKey, r.GroupValue | None]] = st.one_of(
    st.tuples(
        st.builds(r.OffsetCommitKey, TEXT, TEXT, INT32),
        st.none()
        | st.builds(r.OffsetCommitValue, INT64, TEXT, INT64, leader_epoch=INT32, topic_id=UUIDS)
        | st.builds(
            r.OffsetCommitValue,
            INT64,
            TEXT,
            INT64,
            expire_timestamp=INT64.filter(lambda timestamp: timestamp != r.NO_TIMESTAMP),
        ),
    ),
    st.tuples(
        st.builds(r.GroupMetadataKey, TEXT),
        st.none()
        | st.builds(
            r.GroupMetadataValue,
            TEXT,
            INT32,
            OPTIONAL,
            OPTIONAL,
            INT64,
            tuples_of(
                st.builds(
                    r.MemberMetadata,
                    member_id=TEXT,
                    group_instance_id=OPTIONAL,
                    client_id=TEXT,
                    client_host=TEXT,
                    rebalance_timeout=INT32,
                    session_timeout=INT32,
                    subscription=BYTES,
                    assignment=BYTES,
                )
            ),
        ),
    ),
    st.tuples(
        st.builds(r.ConsumerGroupMetadataKey, TEXT),
        st.none() | st.builds(r.ConsumerGroupMetadataValue, INT32, INT64),
    ),
    st.tuples(
        st.builds(r.ConsumerGroupMemberMetadataKey, TEXT, TEXT),
        st.none()
        | st.builds(
            r.ConsumerGroupMemberMetadataValue,
            OPTIONAL,
            OPTIONAL,
            TEXT,
            TEXT,
            tuples_of(TEXT),
            OPTIONAL,
            INT32,
            OPTIONAL,
            st.none() | CLASSIC,
        ),
    ),
    st.tuples(
        st.builds(r.ConsumerGroupTargetAssignmentMetadataKey, TEXT),
        st.none() | st.builds(r.ConsumerGroupTargetAssignmentMetadataValue, INT32, INT64),
    ),
    st.tuples(
        st.builds(r.ConsumerGroupTargetAssignmentMemberKey, TEXT, TEXT),
        st.none()
        | st.builds(
            r.ConsumerGroupTargetAssignmentMemberValue,
            tuples_of(st.builds(r.TargetPartitions, UUIDS, INTS)),
        ),
    ),
    st.tuples(
        st.builds(r.ConsumerGroupCurrentMemberAssignmentKey, TEXT, TEXT),
        st.none()
        | st.builds(
            r.ConsumerGroupCurrentMemberAssignmentValue,
            INT32,
            INT32,
            st.integers(-128, 127),
            CURRENT_PARTITIONS,
            CURRENT_PARTITIONS,
        ),
    ),
    st.tuples(
        st.builds(r.ConsumerGroupRegularExpressionKey, TEXT, TEXT),
        st.none() | st.builds(r.ConsumerGroupRegularExpressionValue, tuples_of(TEXT), INT64, INT64),
    ),
)


@given(RECORDS)
def test_what_is_written_is_read_back(record: tuple[r.GroupKey, r.GroupValue | None]) -> None:
    assert GROUP_RECORDS.decode(*GROUP_RECORDS.encode(*record)) == record


COMMITS = {
    name: (key, value)
    for name, (key, value) in WRITTEN.items()
    if isinstance(key, r.OffsetCommitKey) and isinstance(value, r.OffsetCommitValue)
}
NAMES = TEXT | st.just("x" * 0x7FFF) | st.just("y" * 0x8000)
NOTES = TEXT | st.text(st.characters(codec="utf-8"), min_size=100, max_size=150)


@pytest.mark.parametrize("name", COMMITS)
def test_commits_are_written_by_hand_as_by_their_schema(name: str) -> None:
    assert encode_offset_commit(*COMMITS[name]) == GOLDEN[name]


@given(
    st.builds(r.OffsetCommitKey, NAMES, NAMES, INT32),
    st.builds(
        r.OffsetCommitValue,
        INT64,
        NOTES,
        INT64,
        st.just(r.NO_TIMESTAMP) | INT64,
        st.none() | UUIDS,
        leader_epoch=INT32,
    ),
)
def test_any_commit_is_written_by_hand_as_by_its_schema(
    key: r.OffsetCommitKey, value: r.OffsetCommitValue
) -> None:
    try:
        expected = GROUP_RECORDS.encode(key, value)
    except EncodeError:
        with pytest.raises(EncodeError):
            encode_offset_commit(key, value)
    else:
        assert encode_offset_commit(key, value) == expected
        by_hand = decode_offset_commit(*expected)
        assert by_hand is None or by_hand == GROUP_RECORDS.decode(*expected)


@given(st.sampled_from(sorted(COMMITS)), st.data())
def test_commits_are_read_by_hand_as_by_their_schema(name: str, data: st.DataObject) -> None:
    """Whatever bytes it is given: it says the same, or nothing."""
    key, value = (bytearray(part or b"") for part in GOLDEN[name])
    for part in (key, value):
        for _ in range(data.draw(st.integers(0, 2))):
            part[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
        del part[data.draw(st.integers(0, len(part))) :]
    by_hand = decode_offset_commit(bytes(key), bytes(value))
    if by_hand is not None:
        assert by_hand == GROUP_RECORDS.decode(bytes(key), bytes(value))


@pytest.mark.parametrize("name", ["offset_commit", "offset_commit_bare", "offset_tombstone"])
def test_what_kafka_writes_today_is_read_by_hand(name: str) -> None:
    assert decode_offset_commit(*GOLDEN[name]) == WRITTEN[name]
