"""Consumer groups for administrators and for offsets."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from tests.unit.groups.consumer.harness import GROUP, Harness

from moldau.errors import ErrorCode
from moldau.groups.records import to_record, tombstone
from moldau.outcome import Outcome
from moldau.wire.errors import DecodeError
from moldau.wire.primitives import error_from
from moldau.wire.stored.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    CurrentPartitions,
    OffsetCommitKey,
)


@pytest.fixture
def h() -> Iterator[Harness]:
    harness = Harness(orders=6)
    yield harness
    harness.check_log()


def test_describe_shows_epochs_members_and_assignments(h: Harness) -> None:
    h.join("a", "orders", instance_id="one", rack_id="r1")
    h.join("b", regex="o.*")
    h.pass_time(0)
    h.beat("b", 2)
    described, missing = h.groups.describe([GROUP, "nothing"])
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == (
        "Reconciling",
        3,
        3,
    )
    assert described.assignor_name == "uniform"
    b, a = described.members  # who came last first
    assert (a.member_id, a.instance_id, a.rack_id, a.member_epoch) == ("a", "one", "r1", 2)
    assert (a.client_id, a.client_host, a.member_type) == ("client", "/127.0.0.1", 1)
    assert a.subscribed_topic_names == ("orders",)
    assert b.subscribed_topic_regex == "o.*"
    (current,), (target,) = a.assignment.topic_partitions, a.target_assignment.topic_partitions
    assert (current.topic_name, current.partitions) == ("orders", (0, 1, 2, 3, 4, 5))
    assert (target.topic_id, target.partitions) == (h.id("orders"), (0, 1, 2))
    assert b.assignment.topic_partitions == ()
    assert (error_from(missing.error_code), missing.group_state) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "",
    )


def test_list_shows_state_and_type(h: Harness) -> None:
    h.join("a", "orders")
    (group,) = h.groups.list()
    assert (group.group_id, group.group_state) == (GROUP, "Stable")
    assert (group.group_type, group.protocol_type) == ("consumer", "consumer")


def test_only_an_empty_group_is_deleted_and_then_nothing_is_left(h: Harness) -> None:
    assert h.groups.delete(GROUP)[0] == ErrorCode.GROUP_ID_NOT_FOUND
    h.join("a", regex="o.*")
    assert h.groups.delete(GROUP) == (ErrorCode.NON_EMPTY_GROUP, [])
    h.beat("a", -1)
    error, records = h.groups.delete(GROUP)
    assert error == ErrorCode.NONE
    assert all(record.value is None for record in records)
    h.run(Outcome(records))
    assert GROUP not in h.groups
    live = {record.key: record.value for record in h.log}
    assert not any(live.values()), "every record of the group has its tombstone"


def test_a_group_that_was_deleted_can_be_made_again(h: Harness) -> None:
    h.join("a", "orders")
    h.beat("a", -1)
    h.run(Outcome(h.groups.delete(GROUP)[1]))
    assert h.join("a", "orders").member_epoch == 2


def test_only_members_with_their_epoch_commit(h: Harness) -> None:
    validate = h.groups.validate_commit
    assert validate(GROUP, "a", None, 2) == ErrorCode.GROUP_ID_NOT_FOUND
    h.join("a", "orders")
    assert validate(GROUP, "a", None, 2) == ErrorCode.NONE
    assert validate(GROUP, "a", None, 3) == ErrorCode.STALE_MEMBER_EPOCH
    assert validate(GROUP, "b", None, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert validate(GROUP, "", None, -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert validate(GROUP, "", None, -1, transactional=True) == ErrorCode.NONE
    assert validate(GROUP, "a", None, 2, version=8) == ErrorCode.UNSUPPORTED_VERSION
    h.beat("a", -1)
    assert validate(GROUP, "", None, -1) == ErrorCode.NONE


def test_a_member_that_is_behind_commits_for_partitions_that_it_had(h: Harness) -> None:
    orders = h.id("orders")
    h.join("a", "orders")
    h.join("b", "orders")
    h.beat("a", 2, owned={orders: frozenset({0, 1, 2})})
    h.beat("b", 3)
    assert h.groups.validate_commit(GROUP, "a", None, 2) == ErrorCode.STALE_MEMBER_EPOCH

    def validate(member_id: str, epoch: int, partition: int, topic: UUID = orders) -> ErrorCode:
        return h.groups.validate_partition_commit(GROUP, member_id, epoch, topic, partition)

    assert validate("a", 2, 0) == ErrorCode.NONE
    assert validate("a", 2, 3) == ErrorCode.STALE_MEMBER_EPOCH, "given up"
    assert validate("a", 4, 0) == ErrorCode.STALE_MEMBER_EPOCH, "not there yet"
    assert validate("b", 2, 3) == ErrorCode.STALE_MEMBER_EPOCH, "assigned later"
    assert validate("c", 2, 3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_read_offsets_with_their_epoch_and_strangers_without(h: Harness) -> None:
    h.join("a", "orders")
    assert h.groups.validate_fetch(GROUP, None, -1) == ErrorCode.NONE
    assert h.groups.validate_fetch(GROUP, "a", 2) == ErrorCode.NONE
    assert h.groups.validate_fetch(GROUP, "a", 3) == ErrorCode.STALE_MEMBER_EPOCH
    assert h.groups.validate_fetch(GROUP, "b", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert h.groups.validate_fetch("nothing", "b", 2) == ErrorCode.GROUP_ID_NOT_FOUND


def test_other_records_and_tombstones_of_nothing_are_ignored(h: Harness) -> None:
    h.groups.replay(*tombstone(OffsetCommitKey(GROUP, "orders", 0)))
    h.groups.replay(b"\0\x63rest", b"unknown")
    h.join("a", "orders")
    h.beat("a", -1)
    fresh = Harness()
    for record in h.log:
        fresh.groups.replay(record.key, None)
    assert len(fresh.groups) == 0


@pytest.mark.parametrize("epochs", [(1,), (1, 2, 3)])
def test_a_record_whose_epochs_are_not_one_for_each_partition_is_damaged(
    epochs: tuple[int, ...],
) -> None:
    held = CurrentPartitions(UUID(int=1), (0, 1), epochs)
    value = ConsumerGroupCurrentMemberAssignmentValue(2, 1, 0, (held,))
    record = to_record(ConsumerGroupCurrentMemberAssignmentKey(GROUP, "a"), value)
    with pytest.raises(DecodeError, match=f"2 partitions with {len(epochs)} epochs"):
        Harness().groups.replay(*record)
