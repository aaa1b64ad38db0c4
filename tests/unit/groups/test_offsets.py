from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.unit.groups.offset_harness import Harness, codes, commit_request, contents

from moldau.errors import ErrorCode
from moldau.groups import offsets
from moldau.groups.offsets import FROM_COMMIT, Retention
from moldau.groups.settings import GroupSettings
from moldau.outcome import Outcome, append_error
from moldau.wire.make import make
from moldau.wire.offset_shapes import OffsetFetchRequestGroup

DAY = 24 * 3600 * 1000
FIRST = UUID(int=1)
SECOND = UUID(int=2)
NOTHING = (ErrorCode.NONE, -1, -1, "")


@pytest.fixture
def harness() -> Harness:
    return Harness(GroupSettings(offsets_retention_ms=7 * DAY))


def test_a_committed_offset_is_fetched_with_its_epoch_and_note(harness: Harness) -> None:
    assert harness.commit("g", {("t", 0): 5}, metadata="note", leader_epoch=3) == [ErrorCode.NONE]
    assert harness.fetch("g", "t", 0) == (ErrorCode.NONE, 5, 3, "note")


def test_the_last_commit_wins_and_may_go_back(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 5})
    harness.commit("g", {("t", 0): 2})
    assert harness.fetch("g", "t", 0)[1] == 2


def test_a_missing_note_is_an_empty_one(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 5}, metadata=None)
    assert harness.fetch("g", "t", 0) == (ErrorCode.NONE, 5, -1, "")


@pytest.mark.parametrize(
    ("group", "topic", "partition"), [("x", "t", 0), ("g", "x", 0), ("g", "t", 9)]
)
def test_what_was_never_committed_is_minus_one(
    harness: Harness, group: str, topic: str, partition: int
) -> None:
    harness.commit("g", {("t", 0): 5})
    assert harness.fetch(group, topic, partition) == NOTHING


def test_nothing_changes_before_the_records_are_replayed(harness: Harness) -> None:
    outcome = offsets.commit(harness.store, commit_request("g", {("t", 0): 5}), "token", 0)
    assert codes(outcome) == [ErrorCode.NONE]
    assert harness.fetch("g", "t", 0) == NOTHING
    harness.append(outcome.records)
    assert harness.fetch("g", "t", 0)[1] == 5


@pytest.mark.parametrize(
    ("append", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_a_failed_append_is_told_for_every_partition(
    harness: Harness, append: ErrorCode, told: ErrorCode
) -> None:
    request = commit_request("g", {("t", 0): 5, ("u", 1): 6})
    outcome = offsets.commit(harness.store, request, "token", 0)
    assert codes(Outcome(replies=outcome.failed(append))) == [told, told]
    assert append_error(append) == told
    assert not harness.store


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ("x" * 10, ErrorCode.NONE),
        ("x" * 11, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("ä" * 10, ErrorCode.NONE),  # 20 bytes, 10 code units
        ("😀" * 5, ErrorCode.NONE),
        ("😀" * 6, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_a_long_note_is_refused(metadata: str, code: ErrorCode) -> None:
    harness = Harness(GroupSettings(offset_metadata_max_bytes=10))
    assert harness.commit("g", {("t", 0): 5}, metadata=metadata) == [code]
    assert len(harness.store) == (code == ErrorCode.NONE)


def test_a_refused_partition_refuses_the_whole_commit(harness: Harness) -> None:
    def check(topic: str, topic_id: UUID | None, partition: int) -> ErrorCode:
        assert topic_id == FIRST
        return ErrorCode.STALE_MEMBER_EPOCH if (topic, partition) == ("u", 1) else ErrorCode.NONE

    request = commit_request("g", {("t", 0): 5, ("u", 1): 6}, topic_id=FIRST)
    outcome = offsets.commit(harness.store, request, "token", 0, check=check)
    assert codes(outcome) == [ErrorCode.STALE_MEMBER_EPOCH] * 2
    assert outcome.records == []


def test_all_offsets_of_a_group(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 5, ("u", 1): 6})
    harness.commit("other", {("t", 0): 7})
    request = OffsetFetchRequestGroup(group_id="g", topics=None)
    response = offsets.fetch(harness.store, request)
    found = {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in response.topics
        for partition in topic.partitions
    }
    assert found == {("t", 0): 5, ("u", 1): 6}
    nobody = OffsetFetchRequestGroup(group_id="nobody", topics=None)
    assert offsets.fetch(harness.store, nobody).topics == ()


def test_an_offset_of_an_earlier_topic_of_the_same_name_is_not_found(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 5}, topic_id=FIRST)
    assert harness.fetch("g", "t", 0, topic_id=FIRST)[1] == 5
    assert harness.fetch("g", "t", 0, topic_id=SECOND) == NOTHING
    assert harness.fetch("g", "t", 0)[1] == 5  # by name nobody can tell
    harness.commit("g", {("u", 0): 6})
    assert harness.fetch("g", "u", 0, topic_id=SECOND)[1] == 6


# Deletion


def delete_request(group: str, *partitions: tuple[str, int]) -> OffsetDeleteRequest:
    return make(
        OffsetDeleteRequest,
        group_id=group,
        topics=tuple(
            make(
                OffsetDeleteRequestTopic,
                name=topic,
                partitions=(make(OffsetDeleteRequestPartition, partition_index=partition),),
            )
            for topic, partition in partitions
        ),
    )


def test_deleted_offsets_are_gone_and_subscribed_topics_are_refused(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 5, ("u", 0): 6})
    outcome = offsets.delete(
        harness.store,
        delete_request("g", ("t", 0), ("u", 0), ("never", 3)),
        "token",
        lambda topic: topic == "u",
    )
    assert codes(outcome) == [
        ErrorCode.NONE,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    ]
    assert len(outcome.records) == 1
    harness.append(outcome.records)
    assert harness.fetch("g", "t", 0) == NOTHING
    assert harness.fetch("g", "u", 0)[1] == 6


def test_a_failed_deletion_has_one_error_for_all(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 5})
    outcome = offsets.delete(harness.store, delete_request("g", ("t", 0)), "t", lambda _: False)
    (reply,) = outcome.failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (reply.response.error_code, reply.response.topics) == (ErrorCode.NOT_COORDINATOR, ())


def test_a_deleted_group_leaves_nothing(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 5, ("t", 1): 6, ("u", 0): 7})
    harness.commit("other", {("t", 0): 8})
    harness.append(harness.store.delete_group("g"))
    assert contents(harness.store).keys() == {("other", "t", 0)}
    assert list(harness.store.groups()) == ["other"]
    assert harness.store.delete_group("g") == []


def test_offsets_go_with_their_topic(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 1, ("u", 0): 2})
    harness.commit("h", {("t", 7): 3}, topic_id=FIRST)
    harness.commit("i", {("t", 0): 4}, topic_id=SECOND)  # created anew, and read already
    harness.append(harness.store.remove_topics([("t", FIRST), ("unknown", SECOND)]))
    assert contents(harness.store).keys() == {("g", "u", 0), ("i", "t", 0)}


# Expiry


def test_offsets_of_a_simple_group_expire_after_their_commit(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 5}, now_ms=DAY)
    harness.commit("g", {("t", 1): 5}, now_ms=2 * DAY)
    assert harness.store.expire("g", FROM_COMMIT, 8 * DAY - 1) == ([], False)
    expired = harness.store.expire("g", FROM_COMMIT, 8 * DAY)
    assert not expired.nothing_left
    harness.append(expired.records)
    assert contents(harness.store).keys() == {("g", "t", 1)}
    expired = harness.store.expire("g", FROM_COMMIT, 9 * DAY)
    assert expired.nothing_left
    harness.append(expired.records)
    assert not harness.store


def test_offsets_of_an_empty_group_expire_after_it_became_empty(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 5}, now_ms=0)
    empty = Retention(since_ms=10 * DAY)
    assert harness.store.expire("g", empty, 17 * DAY - 1) == ([], False)
    assert harness.store.expire("g", empty, 17 * DAY).nothing_left


def test_offsets_of_subscribed_topics_never_expire(harness: Harness) -> None:
    harness.commit("g", {("read", 0): 5, ("left", 0): 6}, now_ms=0)
    retention = Retention(is_subscribed=lambda topic: topic == "read")
    expired = harness.store.expire("g", retention, 1000 * DAY)
    assert not expired.nothing_left
    harness.append(expired.records)
    assert contents(harness.store).keys() == {("g", "read", 0)}


def test_nothing_expires_in_a_group_in_motion(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 5}, now_ms=0)
    assert harness.store.expire("g", None, 1000 * DAY) == ([], False)


def test_a_group_without_offsets_has_nothing_left(harness: Harness) -> None:
    assert harness.store.expire("g", FROM_COMMIT, 0) == ([], True)
    assert harness.store.expire("g", None, 0) == ([], True)


def test_a_retention_time_of_an_old_client_comes_first(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 5}, now_ms=DAY, retention_time=timedelta(seconds=1))
    empty = Retention(since_ms=DAY)
    assert not harness.store.expire("g", empty, DAY + 999).nothing_left
    assert harness.store.expire("g", empty, DAY + 1000).nothing_left
    harness.commit("g", {("t", 0): 5}, now_ms=DAY, retention_time=timedelta(days=30))
    assert not harness.store.expire("g", empty, 31 * DAY - 1).nothing_left


# Transactions


def pending(harness: Harness, producer_id: int, offset: int) -> None:
    request = commit_request("g", {("t", 0): offset})
    harness.append(offsets.commit(harness.store, request, "token", 0).records, producer_id)


def test_an_offset_in_a_transaction_is_seen_when_it_commits(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 1})
    pending(harness, 9, 2)
    assert harness.fetch("g", "t", 0)[1] == 1
    assert harness.fetch("g", "t", 0, require_stable=True) == (
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        -1,
        -1,
        "",
    )
    assert harness.store.has_open_transactions("g")
    harness.end_transaction(9, commit=True)
    assert harness.fetch("g", "t", 0, require_stable=True)[1] == 2
    assert not harness.store.has_open_transactions("g")


def test_an_aborted_transaction_leaves_the_offset_as_it_was(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 1})
    pending(harness, 9, 2)
    harness.end_transaction(9, commit=False)
    assert harness.fetch("g", "t", 0, require_stable=True)[1] == 1


def test_a_plain_commit_after_the_transactional_one_stays(harness: Harness) -> None:
    pending(harness, 9, 2)
    harness.commit("g", {("t", 0): 3})
    harness.end_transaction(9, commit=True)
    assert harness.fetch("g", "t", 0)[1] == 3


def test_an_open_transaction_keeps_the_group(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 1}, now_ms=0)
    pending(harness, 9, 2)
    assert harness.store.expire("g", FROM_COMMIT, 1000 * DAY) == ([], False)
    harness.append(harness.store.delete_group("g"))
    harness.end_transaction(9, commit=True)
    assert not harness.store
    assert not harness.store.has_open_transactions("g")


def test_the_marker_of_an_unknown_transaction_is_ignored(harness: Harness) -> None:
    harness.commit("g", {("t", 0): 1})
    harness.end_transaction(77, commit=True)
    assert harness.fetch("g", "t", 0)[1] == 1
