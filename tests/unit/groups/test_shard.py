"""One shard: kinds of groups, what groups and offsets have in common, time, and its own log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid5

import pytest
from tests.support.wire import build

from moldau.errors import ErrorCode
from moldau.groups.client_info import ClientInfo
from moldau.groups.listings import GroupFilter
from moldau.groups.memory import GroupMemory
from moldau.groups.records import from_record
from moldau.groups.settings import GroupSettings
from moldau.groups.shard import GroupShard
from moldau.groups.topics import FixedTopics
from moldau.outcome import Outcome, Record
from moldau.wire.api import ApiKey
from moldau.wire.messages import newest_class
from moldau.wire.primitives import error_from
from moldau.wire.stored.group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    GroupMetadataKey,
    OffsetCommitKey,
)

CLIENT = ClientInfo("client", "/127.0.0.1")
NAMESPACE = UUID(int=1)
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
SESSION = timedelta(seconds=10)
SETTINGS = GroupSettings(
    group_initial_rebalance_delay_ms=0,
    offsets_retention_ms=HOUR_MS,
    offsets_retention_check_interval_ms=MINUTE_MS,
)


def uuids() -> Iterator[UUID]:
    number = 0
    while True:
        number += 1
        yield uuid5(NAMESPACE, str(number))


class Runner:
    """Runs a shard as a host does, and keeps the log."""

    def __init__(
        self,
        log: list[Record] | None = None,
        topics: FixedTopics | None = None,
        memory: GroupMemory | None = None,
    ) -> None:
        self.topics = topics or FixedTopics({"t": 4, "u": 1})
        self.shard = GroupShard(SETTINGS, self.topics, uuids().__next__, memory)
        self.log: list[Record] = []
        self.now_ms = 1_000_000
        self.answers: dict[object, Any] = {}
        for record in log or ():
            self.shard.replay(*record)
            self.log.append(record)
        self.act(self.shard.on_loaded(self.now_ms))

    def act(self, outcome: Outcome) -> None:
        for record in outcome.records:
            self.log.append(record)
            self.shard.replay(*record)
        for token, response in outcome.replies:
            assert token not in self.answers, "answered twice"
            self.answers[token] = response

    def advance(self, milliseconds: int) -> None:
        end = self.now_ms + milliseconds
        while (due := self.shard.next_deadline()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            self.act(self.shard.on_time(self.now_ms))
        self.now_ms = end

    def restarted(self) -> Runner:
        again = Runner(self.log, self.topics)
        again.now_ms = self.now_ms
        return again

    # Requests

    def join(self, group: str = "g", member_id: str = "", protocol_type: str = "consumer") -> Any:
        request = message(
            ApiKey.JOIN_GROUP,
            group_id=group,
            session_timeout=SESSION,
            rebalance_timeout=SESSION,
            member_id=member_id,
            protocol_type=protocol_type,
            protocols=[{"name": "range", "metadata": subscription("t")}],
        )
        token = object()
        self.act(self.shard.join_group(request, token, self.now_ms, CLIENT, 3))
        self.advance(0)  # the initial delay
        return self.answers.get(token)

    def stable(self, group: str = "g", protocol_type: str = "consumer") -> Any:
        joined = self.join(group, protocol_type=protocol_type)
        assert joined.error_code is ErrorCode.NONE
        request = message(
            ApiKey.SYNC_GROUP,
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type=protocol_type,
            protocol_name="range",
            assignments=[{"member_id": joined.member_id, "assignment": b"a"}],
        )
        token = object()
        self.act(self.shard.sync_group(request, token, self.now_ms, 5))
        assert self.answers[token].error_code is ErrorCode.NONE
        return joined

    def leave(self, member_id: str, group: str = "g") -> None:
        request = message(ApiKey.LEAVE_GROUP, group_id=group, members=[{"member_id": member_id}])
        self.act(self.shard.leave_group(request, object(), self.now_ms))

    def consumer_join(self, group: str = "g", member_id: str = "me", **fields: Any) -> Any:
        request = message(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            **{
                "group_id": group,
                "member_id": member_id,
                "member_epoch": 0,
                "rebalance_timeout": SESSION,
                "subscribed_topic_names": ["t"],
                "topic_partitions": [],
                **fields,
            },
        )
        return self.consumer_heartbeat(request)

    def consumer_leave(self, group: str = "g", member_id: str = "me") -> Any:
        return self.consumer_heartbeat(
            message(
                ApiKey.CONSUMER_GROUP_HEARTBEAT,
                group_id=group,
                member_id=member_id,
                member_epoch=-1,
            )
        )

    def consumer_heartbeat(self, request: Any) -> Any:
        token = object()
        self.act(self.shard.consumer_group_heartbeat(request, token, self.now_ms, CLIENT, 1))
        return self.answers[token]

    def commit(
        self,
        topic: str = "t",
        offset: int = 5,
        *,
        group: str = "g",
        member_id: str = "",
        epoch: int = -1,
        partition: int = 0,
    ) -> ErrorCode:
        request = message(
            ApiKey.OFFSET_COMMIT,
            group_id=group,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": partition,
                            "committed_offset": offset,
                            "committed_metadata": "",
                        }
                    ],
                }
            ],
        )
        token = object()
        self.act(self.shard.offset_commit(request, token, self.now_ms, 9))
        return error_from(self.answers[token].topics[0].partitions[0].error_code)

    def offsets(self, group: str = "g") -> dict[tuple[str, int], int]:
        request = message(ApiKey.OFFSET_FETCH, groups=[{"group_id": group, "topics": None}])
        token = object()
        self.act(self.shard.offset_fetch(request.groups[0], token, self.now_ms))
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in self.answers[token].topics
            for partition in topic.partitions
        }

    def delete(self, group: str = "g") -> ErrorCode:
        token = object()
        self.act(self.shard.delete_group(group, token, self.now_ms))
        return error_from(self.answers[token].error_code)

    def delete_offsets(self, topic: str, group: str = "g") -> tuple[ErrorCode, ErrorCode | None]:
        request = message(
            ApiKey.OFFSET_DELETE,
            group_id=group,
            topics=[{"name": topic, "partitions": [{"partition_index": 0}]}],
        )
        token = object()
        self.act(self.shard.offset_delete(request, token, self.now_ms))
        answer = self.answers[token]
        each = answer.topics[0].partitions[0].error_code if answer.topics else None
        return answer.error_code, each

    def kinds(self) -> dict[str, tuple[str, str]]:
        return {one.group_id: (one.group_type, one.group_state) for one in self.shard.list_groups()}


def message(api: ApiKey, **values: Any) -> Any:
    return build(newest_class(api, "request"), values)


def subscription(*topics: str) -> bytes:
    encoded = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + encoded + b"\0\0\0\0"


# Kinds -------------------------------------------------------------------------------------------


def test_a_commit_without_a_member_makes_a_group() -> None:
    runner = Runner()
    assert runner.commit() is ErrorCode.NONE
    assert runner.kinds() == {"g": ("classic", "Empty")}
    assert runner.restarted().kinds() == {"g": ("classic", "Empty")}


@pytest.mark.parametrize("offsets", [False, True])
def test_an_empty_classic_group_becomes_a_consumer_group(offsets: bool) -> None:
    runner = Runner()
    joined = runner.stable()
    if offsets:
        runner.commit(member_id=joined.member_id, epoch=joined.generation_id)
    runner.leave(joined.member_id)
    before = runner.offsets()
    assert runner.consumer_join().error_code is ErrorCode.NONE
    assert runner.kinds()["g"][0] == "consumer"
    assert runner.offsets() == before
    assert runner.restarted().kinds() == runner.kinds()


def test_a_group_of_offsets_only_becomes_a_consumer_group() -> None:
    runner = Runner()
    runner.commit()
    assert runner.consumer_join().error_code is ErrorCode.NONE
    assert runner.kinds()["g"][0] == "consumer"
    assert runner.restarted().kinds() == runner.kinds()
    assert runner.restarted().offsets() == {("t", 0): 5}


def test_an_empty_consumer_group_becomes_a_classic_group() -> None:
    runner = Runner()
    runner.consumer_join()
    runner.consumer_leave()
    assert runner.join().error_code is ErrorCode.NONE
    assert runner.kinds()["g"][0] == "classic"


def test_groups_are_listed_by_state_and_type() -> None:
    runner = Runner()
    runner.commit(group="offsets")
    runner.stable("classic")
    runner.consumer_join("modern")

    def listed(**filters: list[str]) -> list[str]:
        return [one.group_id for one in filter(GroupFilter(**filters), runner.shard.list_groups())]

    assert listed() == ["modern", "classic", "offsets"], "the newest of a kind first"
    assert listed(states=["empty"]) == ["offsets"]
    assert listed(types=["CONSUMER"]) == ["modern"]
    assert listed(states=["Stable"], types=["classic"]) == ["classic"]
    assert listed(types=["share"]) == []


def test_the_topics_of_each_pattern_are_written_by_themselves() -> None:
    """They may be more than can be written: nothing else is to fail with them."""
    runner = Runner()
    runner.stable("classic")
    session_ms = SESSION // timedelta(milliseconds=1)
    runner.now_ms += session_ms
    for group in ("a", "b"):
        runner.consumer_join(group, subscribed_topic_names=None, subscribed_topic_regex="t.*")
    batches = []
    while (runner.shard.next_deadline() or 0) <= runner.now_ms:
        outcome = runner.shard.on_time(runner.now_ms)
        runner.act(outcome)
        decoded = [from_record(*record) for record in outcome.records]
        batches.append({each[0] for each in decoded if each is not None})
    classic, *patterns = batches
    assert classic == {GroupMetadataKey("classic")}
    assert patterns == [
        {ConsumerGroupRegularExpressionKey(group, "t.*"), ConsumerGroupMetadataKey(group)}
        for group in ("a", "b")
    ]


# Offsets and groups ------------------------------------------------------------------------------


def test_a_group_is_deleted_with_its_offsets() -> None:
    runner = Runner()
    joined = runner.stable()
    runner.commit(member_id=joined.member_id, epoch=joined.generation_id)
    assert runner.delete() is ErrorCode.NON_EMPTY_GROUP
    runner.leave(joined.member_id)
    assert runner.delete() is ErrorCode.NONE
    assert runner.kinds() == {}
    assert runner.offsets() == {}
    assert runner.restarted().kinds() == {}
    assert runner.delete() is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_consumer_group_is_deleted_with_its_offsets() -> None:
    runner = Runner()
    joined = runner.consumer_join()
    assert runner.commit(member_id="me", epoch=joined.member_epoch) is ErrorCode.NONE
    assert runner.delete() is ErrorCode.NON_EMPTY_GROUP
    runner.consumer_leave()
    assert runner.delete() is ErrorCode.NONE
    assert runner.restarted().kinds() == {}
    assert runner.offsets() == {}


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_offsets_in_use_are_not_deleted(kind: str) -> None:
    runner = Runner()
    if kind == "classic":
        runner.stable()
    else:
        runner.consumer_join()
    assert runner.delete_offsets("t") == (ErrorCode.NONE, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    assert runner.delete_offsets("u") == (ErrorCode.NONE, ErrorCode.NONE)


def test_offsets_of_no_group_cannot_be_deleted() -> None:
    assert Runner().delete_offsets("t") == (ErrorCode.GROUP_ID_NOT_FOUND, None)


def test_a_member_that_is_behind_commits_for_what_it_has_had() -> None:
    runner = Runner(topics=FixedTopics({"t": 1, "u": 1}))
    joined = runner.consumer_join()
    first_epoch = joined.member_epoch
    runner.advance(5000)
    runner.consumer_join(member_id="other")
    again = message(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, group_id="g", member_id="me", member_epoch=first_epoch
    )
    newer = runner.consumer_heartbeat(again).member_epoch
    assert newer > first_epoch
    assert runner.commit(member_id="me", epoch=newer) is ErrorCode.NONE
    assert runner.commit(member_id="me", epoch=first_epoch) is ErrorCode.NONE
    assert runner.commit("u", member_id="me", epoch=first_epoch) is ErrorCode.STALE_MEMBER_EPOCH
    assert runner.commit(member_id="nobody", epoch=newer) is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_go_with_their_topic() -> None:
    runner = Runner()
    runner.commit("t")
    runner.commit("u")
    topic_id = runner.topics.topic_id("t")
    assert topic_id is not None
    runner.act(runner.shard.on_topics_removed([("t", topic_id)], runner.now_ms))
    assert runner.offsets() == {("u", 0): 5}


# Time --------------------------------------------------------------------------------------------


def test_offsets_of_a_simple_group_expire_after_the_commit_and_the_group_with_them() -> None:
    runner = Runner()
    runner.commit("t")
    runner.advance(HOUR_MS // 2)
    runner.commit("u")
    runner.advance(HOUR_MS // 2 + 2 * MINUTE_MS)
    assert runner.offsets() == {("u", 0): 5}
    assert "g" in runner.kinds()
    runner.advance(HOUR_MS)
    assert runner.offsets() == {}
    assert runner.kinds() == {}
    assert runner.restarted().kinds() == {}


def test_a_clock_that_jumps_ahead_expires_nothing_at_once() -> None:
    runner = Runner()
    runner.commit("t")
    runner.shard.clock_was_set(10 * HOUR_MS)
    runner.now_ms += 10 * HOUR_MS
    runner.advance(MINUTE_MS)
    assert runner.offsets() == {("t", 0): 5}
    runner.advance(MINUTE_MS)  # by the next check nobody has put it right
    assert runner.offsets() == {}


def test_offsets_of_topics_that_are_read_do_not_expire() -> None:
    runner = Runner()
    joined = runner.consumer_join()
    for topic in ("t", "u"):
        runner.commit(topic, member_id="me", epoch=joined.member_epoch)
    beat = message(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        group_id="g",
        member_id="me",
        member_epoch=joined.member_epoch,
    )
    for _ in range(2 * 90):
        runner.advance(40_000)
        runner.consumer_heartbeat(beat)
    assert runner.offsets() == {("t", 0): 5}


def test_offsets_of_an_empty_group_expire_after_it_became_empty() -> None:
    runner = Runner()
    joined = runner.stable()
    member = {"member_id": joined.member_id, "epoch": joined.generation_id}
    for _ in range(2 * 60 * 10):
        runner.advance(6000)
        runner.commit("t", **member)  # a sign of life
    runner.commit("t", **member)
    runner.leave(joined.member_id)
    runner.advance(HOUR_MS - 2 * MINUTE_MS)
    assert runner.offsets() == {("t", 0): 5}
    runner.advance(4 * MINUTE_MS)
    assert runner.offsets() == {}
    assert runner.kinds() == {}


def test_a_group_that_is_not_of_consumers_keeps_its_offsets_while_it_has_members() -> None:
    runner = Runner()
    joined = runner.stable(protocol_type="connect")
    member = {"member_id": joined.member_id, "epoch": joined.generation_id}
    runner.commit("u", **member)
    for _ in range(2 * 60 * 10):
        runner.advance(6000)
        runner.commit("t", **member)
    assert runner.offsets() == {("t", 0): 5, ("u", 0): 5}


def test_members_that_fall_silent_are_removed_and_their_group_becomes_empty() -> None:
    runner = Runner()
    runner.stable("classic")
    runner.consumer_join("modern")
    runner.advance(2 * MINUTE_MS)
    assert runner.kinds() == {}, "empty groups without offsets go at the next look"
    again = Runner()
    again.stable("classic")
    again.advance(11_000)
    assert again.kinds() == {"classic": ("classic", "Empty")}


def test_after_loading_members_have_a_whole_session() -> None:
    runner = Runner()
    runner.stable()
    again = runner.restarted()
    again.advance(9000)
    assert again.kinds() == {"g": ("classic", "Stable")}
    again.advance(2000)
    assert again.kinds() == {"g": ("classic", "Empty")}


# The log -----------------------------------------------------------------------------------------


def test_records_of_unknown_kinds_are_skipped() -> None:
    runner = Runner([Record(b"\x00\x63future", b"\x00\x00"), Record(b"\x00\x0bshare", None)])
    assert runner.kinds() == {}


def test_what_is_written_is_what_kafka_would_find() -> None:
    runner = Runner()
    joined = runner.stable()
    runner.commit(member_id=joined.member_id, epoch=joined.generation_id)
    keys = [decoded[0] for record in runner.log if (decoded := from_record(*record)) is not None]
    assert GroupMetadataKey("g") in keys
    assert keys[-1] == OffsetCommitKey("g", "t", 0)
