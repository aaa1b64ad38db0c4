"""Fetch, versions 4 to 18: message types and field layouts that both directions share.

What changed with the versions: 5 adds log start offsets, 7 fetch sessions (KIP-227), 9 leader
epochs (KIP-320), 11 racks and preferred replicas (KIP-392), 12 is flexible and adds diverging
epochs (KIP-595), 13 knows topics by id instead of by name (KIP-516), 15 moves the replica id into
a tag (KIP-903), 16 adds node endpoints (KIP-951). 17 and 18 only add tags for KRaft voters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.machine.network import Part
from moldau.model import NO_TOPIC_ID, Node
from moldau.wire.errors import DecodeError, EncodeError, UnsupportedVersionError
from moldau.wire.primitives import (
    compact_string,
    legacy_string,
    read_compact_text,
    read_legacy_text,
    uuid_from,
)

OLDEST: Final = 4
NEWEST: Final = 18
WITH_LOG_START: Final = 5
WITH_SESSIONS: Final = 7
WITH_LEADER_EPOCH: Final = 9
WITH_RACK: Final = 11
FLEXIBLE: Final = 12
BY_ID: Final = 13
WITH_REPLICA_STATE: Final = 15
WITH_ENDPOINTS: Final = 16

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
# Request: max wait, min bytes, max bytes, isolation level; from version 7 session id and epoch.
LIMITS: Final = Struct(">iiib")
SESSION: Final = Struct(">ii")
REPLICA_STATE: Final = Struct(">iq")
# Request, version 12 on: partition, leader epoch, offset, last fetched epoch, log start, max bytes.
PARTITION: Final = Struct(">iiqiqi")
PARTITION_9: Final = Struct(">iiqqi")
PARTITION_5: Final = Struct(">iqqi")
PARTITION_4: Final = Struct(">iqi")
# Response: index, error, high watermark, last stable offset, log start offset.
RESULT: Final = Struct(">ihqqq")
RESULT_4: Final = Struct(">ihqq")
ABORTED: Final = Struct(">qq")


Records = Part | None


@dataclass(init=False)
class FetchPartition:
    """What is wanted of one partition. Fields that a version does not have keep their default."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int

    def __init__(
        self,
        partition: int,
        current_leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        max_bytes: int,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.max_bytes = max_bytes


@dataclass(init=False)
class FetchTopic:
    """Partitions of one topic: by name to version 12, by id from 13; the other is None."""

    name: str | None
    topic_id: UUID | None
    partitions: list[FetchPartition]

    def __init__(
        self,
        name: str | None,
        topic_id: UUID | None,
        partitions: list[FetchPartition],
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


ForgottenTopic = tuple[str | None, UUID | None, list[int]]
"""(name, topic id, partitions) that leave an incremental fetch session"""


@dataclass(init=False)
class FetchRequest:
    """``replica_id`` is -1 for a consumer; the default session epoch -1 asks for no session."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    rack_id: str
    cluster_id: str | None

    def __init__(
        self,
        replica_id: int,
        replica_epoch: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        session_id: int,
        session_epoch: int,
        topics: list[FetchTopic],
        forgotten: list[ForgottenTopic] | None = None,
        rack_id: str = "",
        cluster_id: str | None = None,
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = topics
        self.forgotten = [] if forgotten is None else forgotten
        self.rack_id = rack_id
        self.cluster_id = cluster_id


@dataclass(init=False)
class FetchedPartition:
    """The answer for one partition."""

    partition: int
    error_code: ErrorCode | int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]] | None
    """(producer id, first offset) of each aborted transaction; None unless read committed"""
    preferred_read_replica: int
    records: Records
    diverging_epoch: tuple[int, int] | None
    """(epoch, end offset) from where the follower's log differs"""
    current_leader: tuple[int, int] | None
    """(leader id, leader epoch), told with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH"""
    snapshot_id: tuple[int, int] | None
    """(end offset, epoch)"""

    def __init__(
        self,
        partition: int,
        error_code: ErrorCode | int = 0,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        aborted: Sequence[tuple[int, int]] | None = None,
        preferred_read_replica: int = -1,
        records: Records = None,
        diverging_epoch: tuple[int, int] | None = None,
        current_leader: tuple[int, int] | None = None,
        snapshot_id: tuple[int, int] | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.aborted = aborted
        self.preferred_read_replica = preferred_read_replica
        self.records = records
        self.diverging_epoch = diverging_epoch
        self.current_leader = current_leader
        self.snapshot_id = snapshot_id


FetchedTopic = tuple[str | None, UUID | None, Sequence[FetchedPartition]]
"""(name, topic id, partitions); the one that the version does not send may be None."""


@dataclass(init=False)
class FetchResponse:
    """A decoded answer; records are views of the frame."""

    throttle_ms: int
    error_code: ErrorCode | int
    session_id: int
    topics: list[tuple[str | None, UUID | None, list[FetchedPartition]]]
    node_endpoints: list[Node]

    def __init__(
        self,
        throttle_ms: int,
        error_code: ErrorCode | int,
        session_id: int,
        topics: list[tuple[str | None, UUID | None, list[FetchedPartition]]],
        node_endpoints: list[Node] | None = None,
    ) -> None:
        self.throttle_ms = throttle_ms
        self.error_code = error_code
        self.session_id = session_id
        self.topics = topics
        self.node_endpoints = [] if node_endpoints is None else node_endpoints


def check_version(version: int) -> None:
    if not OLDEST <= version <= NEWEST:
        raise UnsupportedVersionError(f"FETCH version {version} is not spoken here")


def topic_bytes(version: int, name: str | None, topic_id: UUID | None) -> bytes:
    """How a version spells a topic."""
    if version >= BY_ID:
        return (topic_id or NO_TOPIC_ID).bytes
    if name is None:
        raise EncodeError(f"FETCH version {version} needs the topic's name")
    return compact_string(name) if version >= FLEXIBLE else legacy_string(name)


def read_topic(version: int, buf: memoryview, pos: int) -> tuple[str | None, UUID | None, int]:
    """Name and id of a topic, one of them None, and the position after it."""
    if version >= BY_ID:
        return None, uuid_from(buf[pos : pos + 16].tobytes()), pos + 16
    name, pos = read_compact_text(buf, pos) if version >= FLEXIBLE else read_legacy_text(buf, pos)
    if name is None:
        raise DecodeError("topic name is null")
    return name, None, pos
