"""OffsetCommit and OffsetFetch as handlers and clients see them: topics with name and id.

Version 10 of both knows topics by id only, the versions before by name only. kio's newest classes
have therefore no place for a name; these have one for both. ``name`` is empty and ``topic_id`` None
where the version on the wire has none. OffsetCommit also keeps the retention time, which only old
versions have.

The annotations are read at run time, so this module does not postpone them.
"""

import uuid
from dataclasses import dataclass, field
from datetime import timedelta

from kio.schema.offset_commit.v10.request import OffsetCommitRequestPartition
from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition
from kio.schema.offset_fetch.v10.response import OffsetFetchResponsePartitions

from moldau.errors import ErrorCode
from moldau.wire.declaring import BOOL, INT32, STRING, UUID

__all__ = [
    "DEFAULT_RETENTION",
    "OffsetCommitRequest",
    "OffsetCommitRequestPartition",
    "OffsetCommitRequestTopic",
    "OffsetCommitResponse",
    "OffsetCommitResponsePartition",
    "OffsetCommitResponseTopic",
    "OffsetFetchRequest",
    "OffsetFetchRequestGroup",
    "OffsetFetchRequestTopics",
    "OffsetFetchResponse",
    "OffsetFetchResponseGroup",
    "OffsetFetchResponsePartitions",
    "OffsetFetchResponseTopics",
]

_THROTTLE = {"kafka_type": "timedelta_i32"}
_RETENTION = {"kafka_type": "timedelta_i64"}

DEFAULT_RETENTION = timedelta(milliseconds=-1)
"""The client leaves the retention time to the broker, as all have since OffsetCommit version 5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestTopic:
    name: str = field(metadata=STRING, default="")
    topic_id: uuid.UUID | None = field(metadata=UUID, default=None)
    partitions: tuple[OffsetCommitRequestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    group_id: str = field(metadata=STRING)
    generation_id_or_member_epoch: int = field(metadata=INT32, default=-1)
    member_id: str = field(metadata=STRING, default="")
    group_instance_id: str | None = field(metadata=STRING, default=None)
    retention_time: timedelta = field(metadata=_RETENTION, default=DEFAULT_RETENTION)
    """Versions 2 to 4 have it."""
    topics: tuple[OffsetCommitRequestTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponseTopic:
    name: str = field(metadata=STRING, default="")
    topic_id: uuid.UUID | None = field(metadata=UUID, default=None)
    partitions: tuple[OffsetCommitResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    throttle_time: timedelta = field(metadata=_THROTTLE, default=timedelta())
    topics: tuple[OffsetCommitResponseTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestTopics:
    name: str = field(metadata=STRING, default="")
    topic_id: uuid.UUID | None = field(metadata=UUID, default=None)
    partition_indexes: tuple[int, ...] = field(metadata=INT32, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestGroup:
    group_id: str = field(metadata=STRING)
    member_id: str | None = field(metadata=STRING, default=None)
    member_epoch: int = field(metadata=INT32, default=-1)
    topics: tuple[OffsetFetchRequestTopics, ...] | None
    """None asks for everything the group has committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    groups: tuple[OffsetFetchRequestGroup, ...]
    require_stable: bool = field(metadata=BOOL, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseTopics:
    name: str = field(metadata=STRING, default="")
    topic_id: uuid.UUID | None = field(metadata=UUID, default=None)
    partitions: tuple[OffsetFetchResponsePartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseGroup:
    group_id: str = field(metadata=STRING)
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"}, default=ErrorCode.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    throttle_time: timedelta = field(metadata=_THROTTLE, default=timedelta())
    groups: tuple[OffsetFetchResponseGroup, ...]
