"""Random work on committed offsets: the log alone always gives the same state back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.unit.groups.offset_harness import Harness, codes, commit_request, contents, replay

from moldau.errors import ErrorCode
from moldau.groups import offsets
from moldau.groups.offsets import Retention
from moldau.groups.settings import GroupSettings
from moldau.groups.topics import FixedTopics

GROUPS = st.sampled_from(["g1", "g2", "g3"])
TOPICS = st.sampled_from(["a", "b"])
PARTITIONS = st.integers(0, 2)
RETENTION_MS = 100


class Offsets(RuleBasedStateMachine):
    """``acknowledged`` is what clients were told is stored, and nobody asked to be removed."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness(
            GroupSettings(offsets_retention_ms=RETENTION_MS, offset_metadata_max_bytes=3)
        )
        self.topics = FixedTopics({"a": 3, "b": 3})
        self.now_ms = 1000
        self.acknowledged: dict[tuple[str, str, int], tuple[int, int, int | None]] = {}
        """Offset, time of the commit, time of expiry if the client gave one."""

    @rule(
        group=GROUPS,
        committed=st.dictionaries(st.tuples(TOPICS, PARTITIONS), st.integers(0, 99), max_size=4),
        note=st.sampled_from([None, "", "abc", "too long"]),
        retention_ms=st.sampled_from([-1] * 3 + [0, 50, 500]),
        stored=st.sampled_from([True, True, True, False]),
    )
    def commit(
        self,
        group: str,
        committed: dict[tuple[str, int], int],
        note: str | None,
        retention_ms: int,
        stored: bool,
    ) -> None:
        request = commit_request(group, committed, note)
        outcome = offsets.commit(
            self.harness.store,
            replace(request, retention_time=timedelta(milliseconds=retention_ms)),
            "token",
            self.now_ms,
        )
        if not stored:
            outcome.failed(ErrorCode.NOT_ENOUGH_REPLICAS)
            return
        self.harness.append(outcome.records)
        expires = None if retention_ms == -1 else self.now_ms + retention_ms
        for (topic, partition), code in zip(committed, codes(outcome), strict=True):
            if code == ErrorCode.NONE:
                offset = committed[topic, partition]
                self.acknowledged[group, topic, partition] = (offset, self.now_ms, expires)

    @rule(group=GROUPS, topic=TOPICS, partition=PARTITIONS)
    def delete(self, group: str, topic: str, partition: int) -> None:
        self.harness.append(self.harness.store.delete(group, [(topic, partition)]))
        self.acknowledged.pop((group, topic, partition), None)

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        self.harness.append(self.harness.store.delete_group(group))
        for key in [key for key in self.acknowledged if key[0] == group]:
            del self.acknowledged[key]

    @rule(topic=TOPICS)
    def recreate_topic(self, topic: str) -> None:
        deleted = self.topics.topic_id(topic)
        assert deleted is not None
        self.topics.remove(topic)
        self.topics.set(topic, 3)
        self.harness.append(self.harness.store.remove_topics([(topic, deleted)]))
        for key in [key for key in self.acknowledged if key[1] == topic]:
            del self.acknowledged[key]

    @rule(
        group=GROUPS,
        empty_for_ms=st.none() | st.integers(0, 200),
        subscribed=st.sets(TOPICS),
        passed_ms=st.integers(0, 80),
    )
    def expire(
        self, group: str, empty_for_ms: int | None, subscribed: set[str], passed_ms: int
    ) -> None:
        self.now_ms += passed_ms
        since_ms = None if empty_for_ms is None else self.now_ms - empty_for_ms
        retention = Retention(since_ms, subscribed.__contains__)
        expired = self.harness.store.expire(group, retention, self.now_ms)
        self.harness.append(expired.records)
        for key, (_, committed_ms, expires) in list(self.acknowledged.items()):
            if key[0] != group or key[1] in subscribed:
                continue
            if expires is None:
                expires = (committed_ms if since_ms is None else since_ms) + RETENTION_MS
            if self.now_ms >= expires:
                del self.acknowledged[key]
        assert expired.nothing_left == all(key[0] != group for key in self.acknowledged)

    @invariant()
    def no_acknowledged_commit_is_lost(self) -> None:
        assert {
            key: committed.offset for key, committed in contents(self.harness.store).items()
        } == {key: offset for key, (offset, _, _) in self.acknowledged.items()}
        assert len(self.harness.store) == len(self.acknowledged)

    @invariant()
    def the_log_gives_the_same_state(self) -> None:
        state = contents(self.harness.store)
        assert contents(self.harness.rebuilt()) == state
        assert contents(self.harness.compacted()) == state

    @invariant()
    def replaying_the_end_of_the_log_again_changes_nothing(self) -> None:
        again = self.harness.rebuilt()
        for entry, _ in self.harness.log[-3:]:
            assert not isinstance(entry, bool)
            replay(again, entry)
        assert contents(again) == contents(self.harness.store)


TestOffsets = Offsets.TestCase


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from([-1, 1, 2]), PARTITIONS, st.integers(0, 99)),
        st.tuples(st.just("end"), st.sampled_from([1, 2]), st.booleans()),
        st.tuples(st.just("delete"), PARTITIONS),
        st.tuples(st.just("topic")),
    ),
    max_size=25,
)


@given(OPERATIONS)
def test_the_log_gives_the_same_state_with_transactions(operations: list[tuple[Any, ...]]) -> None:
    harness = Harness()
    for operation in operations:
        match operation:
            case ("commit", producer_id, partition, offset):
                request = commit_request("g", {("t", partition): offset})
                outcome = offsets.commit(harness.store, request, "token", 0)
                harness.append(outcome.records, producer_id)
            case ("end", producer_id, commit):
                harness.end_transaction(producer_id, commit=commit)
            case ("delete", partition):
                harness.append(harness.store.delete("g", [("t", partition)]))
            case _:
                harness.append(harness.store.remove_topics([("t", UUID(int=1))]))
        rebuilt = harness.rebuilt()
        assert contents(rebuilt) == contents(harness.store)
        assert rebuilt.has_open_transactions("g") == harness.store.has_open_transactions("g")
        for partition in range(3):
            pending = harness.store.is_pending("g", "t", partition)
            assert rebuilt.is_pending("g", "t", partition) == pending
