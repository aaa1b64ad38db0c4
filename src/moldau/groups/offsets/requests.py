"""OffsetCommit, OffsetFetch and OffsetDelete, answered from an ``OffsetStore``.

Whether the sender may do it at all, being a member of the right generation, is a question for the
group; it comes before these functions are called. Whether topics exist is a question for the
broker: a coordinator also keeps offsets of topics that it cannot see yet.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from moldau.errors import ErrorCode
from moldau.groups.offsets.store import OffsetStore
from moldau.groups.records import commit_record
from moldau.outcome import Outcome, Record, Reply, Transaction, append_error
from moldau.wire.make import make
from moldau.wire.offset_shapes import (
    DEFAULT_RETENTION,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from moldau.wire.stored.group_records import NO_TIMESTAMP, OffsetCommitKey, OffsetCommitValue
from moldau.wire.times import milliseconds

NO_THROTTLE = timedelta()

PartitionCheck = Callable[[str, UUID | None, int], ErrorCode]
"""Whether the sender may commit for this partition: (topic, topic id, partition)."""


def commit(
    store: OffsetStore,
    request: OffsetCommitRequest,
    token: object,
    now_ms: int,
    check: PartitionCheck | None = None,
    transaction: Transaction | None = None,
) -> Outcome:
    """Commit offsets, when ``transaction`` does if there is one; each partition succeeds or fails
    alone.

    Except when ``check`` refuses one of them: then the sender is not who it believes to be, and
    nothing is committed.
    """
    expires = NO_TIMESTAMP
    if request.retention_time != DEFAULT_RETENTION:
        expires = now_ms + milliseconds(request.retention_time)
    group = request.group_id
    records: list[Record] = []
    topics: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        results: list[OffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            index = partition.partition_index
            code = ErrorCode.NONE
            if _is_too_long(partition.committed_metadata, store.settings.offset_metadata_max_bytes):
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                if check is not None and (refusal := check(topic.name, topic.topic_id, index)):
                    return Outcome.reply(token, commit_error(request, refusal))
                records.append(
                    commit_record(
                        OffsetCommitKey(group, topic.name, index),
                        _value(partition, topic.topic_id, now_ms, expires),
                    )
                )
            results.append(
                make(OffsetCommitResponsePartition, partition_index=index, error_code=code)
            )
        topics.append(
            OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=tuple(results)
            )
        )
    response = OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))

    def failed(code: ErrorCode) -> list[Reply]:
        return [Reply(token, commit_error(request, append_error(code)))]

    return Outcome(
        records, [Reply(token, response)], failed if records else None, transaction=transaction
    )


def commit_error(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """The answer that says the same about every partition; there is no other place for it."""
    return OffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    make(
                        OffsetCommitResponsePartition,
                        partition_index=partition.partition_index,
                        error_code=code,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def fetch(
    store: OffsetStore, request: OffsetFetchRequestGroup, *, require_stable: bool = False
) -> OffsetFetchResponseGroup:
    """What one group has committed: for the partitions asked for, or all of them.

    A partition without an offset has -1. So has one whose offset was committed for another topic,
    an earlier one of the same name.
    """
    group = request.group_id
    topics = request.topics
    if topics is None:
        topics = tuple(
            OffsetFetchRequestTopics(name=name, partition_indexes=tuple(partitions))
            for name, partitions in store.topics(group).items()
        )
    return OffsetFetchResponseGroup(
        group_id=group,
        topics=tuple(
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    [
                        _fetched(store, group, topic, index, require_stable)
                        for index in topic.partition_indexes
                    ]
                ),
            )
            for topic in topics
        ),
    )


def delete(
    store: OffsetStore,
    request: OffsetDeleteRequest,
    token: object,
    is_subscribed: Callable[[str], bool],
) -> Outcome:
    """Forget offsets; those of topics that the group reads are refused."""
    records: list[Record] = []
    topics: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        indexes = [partition.partition_index for partition in topic.partitions]
        code = ErrorCode.NONE
        if is_subscribed(topic.name):
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        else:
            records += store.delete(request.group_id, ((topic.name, index) for index in indexes))
        topics.append(
            make(
                OffsetDeleteResponseTopic,
                name=topic.name,
                partitions=tuple(
                    make(OffsetDeleteResponsePartition, partition_index=index, error_code=code)
                    for index in indexes
                ),
            )
        )
    response = _delete_response(ErrorCode.NONE, tuple(topics))

    def failed(code: ErrorCode) -> list[Reply]:
        return [Reply(token, delete_error(append_error(code)))]

    return Outcome(records, [Reply(token, response)], failed if records else None)


def delete_error(code: ErrorCode) -> OffsetDeleteResponse:
    return _delete_response(code, ())


def _delete_response(
    code: ErrorCode, topics: tuple[OffsetDeleteResponseTopic, ...]
) -> OffsetDeleteResponse:
    return make(OffsetDeleteResponse, error_code=code, throttle_time=NO_THROTTLE, topics=topics)


def _is_too_long(metadata: str | None, limit: int) -> bool:
    """Kafka counts UTF-16 code units, whatever the name of the setting says."""
    if not metadata:
        return False
    length = len(metadata)
    if not metadata.isascii():
        length += sum(character > "\uffff" for character in metadata)
    return length > limit


def _value(
    partition: OffsetCommitRequestPartition, topic_id: UUID | None, now_ms: int, expires: int
) -> OffsetCommitValue:
    return OffsetCommitValue(
        partition.committed_offset,
        partition.committed_metadata or "",
        now_ms,
        expires,
        topic_id,
        leader_epoch=partition.committed_leader_epoch,
    )


def _fetched(
    store: OffsetStore,
    group: str,
    topic: OffsetFetchRequestTopics,
    partition: int,
    require_stable: bool,
) -> OffsetFetchResponsePartitions:
    code, offset, leader_epoch, metadata = ErrorCode.NONE, -1, -1, ""
    if require_stable and store.is_pending(group, topic.name, partition):
        code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    else:
        committed = store.get(group, topic.name, partition)
        if committed is not None and committed.is_of(topic.topic_id):
            offset = committed.offset
            leader_epoch = committed.leader_epoch
            metadata = committed.metadata
    return make(
        OffsetFetchResponsePartitions,
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=leader_epoch,
        metadata=metadata,
        error_code=code,
    )
