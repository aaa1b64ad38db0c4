"""An ``OffsetStore`` with a log in front of it, as a broker would run it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.groups import offsets
from moldau.groups.offsets import CommittedOffset, OffsetStore
from moldau.groups.records import from_record
from moldau.groups.settings import GroupSettings
from moldau.outcome import Outcome, Record
from moldau.wire.make import make
from moldau.wire.offset_shapes import (
    DEFAULT_RETENTION,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from moldau.wire.primitives import error_from
from moldau.wire.stored.group_records import OffsetCommitKey, OffsetCommitValue


class Harness:
    """Appends and replays. ``log`` has records with their producer id, and markers of ends."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.store = OffsetStore(self.settings)
        self.log: list[tuple[Record | bool, int]] = []

    def append(self, records: Iterable[Record], producer_id: int = offsets.NO_PRODUCER_ID) -> None:
        for record in records:
            self.log.append((record, producer_id))
            replay(self.store, record, producer_id)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        self.log.append((commit, producer_id))
        self.store.end_transaction(producer_id, commit=commit)

    def rebuilt(self) -> OffsetStore:
        """A store that has seen nothing but the log."""
        store = OffsetStore(self.settings)
        for entry, producer_id in self.log:
            if isinstance(entry, bool):
                store.end_transaction(producer_id, commit=entry)
            else:
                replay(store, entry, producer_id)
        return store

    def compacted(self) -> OffsetStore:
        """A store that has seen the last record of each key only, and tombstones no more."""
        last = {entry.key: entry for entry, _ in self.log if isinstance(entry, Record)}
        store = OffsetStore(self.settings)
        for record in last.values():
            if record.value is not None:
                replay(store, record)
        return store

    def commit(
        self,
        group: str,
        committed: dict[tuple[str, int], int],
        now_ms: int = 0,
        *,
        metadata: str | None = "",
        leader_epoch: int = -1,
        retention_time: timedelta = DEFAULT_RETENTION,
        topic_id: UUID | None = None,
    ) -> list[ErrorCode]:
        """Commit and append; the error codes."""
        request = commit_request(group, committed, metadata, leader_epoch, topic_id)
        request = replace(request, retention_time=retention_time)
        outcome = offsets.commit(self.store, request, "token", now_ms)
        self.append(outcome.records)
        return codes(outcome)

    def fetch(
        self,
        group: str,
        topic: str,
        partition: int,
        *,
        topic_id: UUID | None = None,
        require_stable: bool = False,
    ) -> tuple[ErrorCode, int, int, str | None]:
        request = OffsetFetchRequestGroup(
            group_id=group,
            topics=(
                OffsetFetchRequestTopics(
                    name=topic, topic_id=topic_id, partition_indexes=(partition,)
                ),
            ),
        )
        response = offsets.fetch(self.store, request, require_stable=require_stable)
        (answer,) = response.topics[0].partitions
        return (
            error_from(answer.error_code),
            answer.committed_offset,
            answer.committed_leader_epoch,
            answer.metadata,
        )


def replay(store: OffsetStore, record: Record, producer_id: int = offsets.NO_PRODUCER_ID) -> None:
    decoded = from_record(*record)
    assert decoded is not None
    key, value = decoded
    assert isinstance(key, OffsetCommitKey)
    assert value is None or isinstance(value, OffsetCommitValue)
    store.replay(key, value, producer_id)


def commit_request(
    group: str,
    committed: dict[tuple[str, int], int],
    metadata: str | None = "",
    leader_epoch: int = -1,
    topic_id: UUID | None = None,
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id,
                partitions=(
                    make(
                        OffsetCommitRequestPartition,
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=leader_epoch,
                        committed_metadata=metadata,
                    ),
                ),
            )
            for (topic, partition), offset in committed.items()
        ),
    )


def codes(outcome: Outcome) -> list[ErrorCode]:
    """The error codes of an answer to OffsetCommit or OffsetDelete, partition by partition."""
    (reply,) = outcome.replies
    return [
        error_from(partition.error_code)
        for topic in reply.response.topics
        for partition in topic.partitions
    ]


def contents(store: OffsetStore) -> dict[tuple[str, str, int], CommittedOffset]:
    """All committed offsets, without the order in which they came."""
    return {
        (group, topic, partition): committed._replace(sequence=0)
        for group in store.groups()
        for topic, partitions in store.topics(group).items()
        for partition, committed in partitions.items()
    }
