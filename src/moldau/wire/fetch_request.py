"""Fetch requests: read in one pass, written in one buffer.

Tags that only KRaft voters send (directory ids and high watermarks of single partitions) are
skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from moldau.native import let_threads_in
from moldau.wire.api import ApiKey
from moldau.wire.errors import DecodeError, TooManyElementsError
from moldau.wire.fetch_layout import (
    FLEXIBLE,
    INT16,
    INT32,
    LIMITS,
    PARTITION,
    PARTITION_4,
    PARTITION_5,
    PARTITION_9,
    REPLICA_STATE,
    SESSION,
    WITH_LEADER_EPOCH,
    WITH_LOG_START,
    WITH_RACK,
    WITH_REPLICA_STATE,
    WITH_SESSIONS,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    check_version,
    read_topic,
    topic_bytes,
)
from moldau.wire.headers import encode_request_header
from moldau.wire.primitives import (
    MALFORMED,
    MAX_ELEMENTS,
    check_count,
    compact_string,
    legacy_string,
    length_prefix,
    read_compact_text,
    read_legacy_text,
    read_length,
    read_uvarint,
    skip_tags,
)
from moldau.wire.tags import read_tags, tagged_section

_AT_ONCE: Final = 1000
"""Partitions that are read before other threads are let in."""
_HEAD: Final = Struct(LIMITS.format + SESSION.format[1:])
# Replica id, limits, session; and the number of topics.
_HEAD_7: Final = Struct(">i" + LIMITS.format[1:] + SESSION.format[1:] + "i")
_HEAD_4: Final = Struct(">i" + LIMITS.format[1:] + "i")


def decode_fetch_request(
    version: int, buf: memoryview, pos: int, max_elements: int = MAX_ELEMENTS
) -> FetchRequest:
    """The request whose body starts at ``pos``."""
    check_version(version)
    try:
        if version >= FLEXIBLE:
            return _decode_flexible(version, buf, pos, max_elements)
        return _decode_legacy(version, buf, pos, max_elements)
    except TooManyElementsError:
        raise
    except (DecodeError, *MALFORMED) as error:
        raise DecodeError(f"FETCH request version {version}: {error}") from error


def _decode_flexible(version: int, buf: memoryview, pos: int, max_elements: int) -> FetchRequest:
    replica_id, replica_epoch, cluster_id = -1, -1, None
    if version < WITH_REPLICA_STATE:
        replica_id = INT32.unpack_from(buf, pos)[0]
        pos += 4
    max_wait, min_bytes, max_bytes, isolation, session_id, epoch = _HEAD.unpack_from(buf, pos)
    count, pos = read_uvarint(buf, pos + 21)
    topics = []
    if count != 1:
        check_count(count - 1, 3, len(buf) - pos, max_elements)
        budget = max_elements - count + 1
        for _ in range(count - 1):
            topic, pos = _read_topic(version, buf, pos, budget)
            budget -= len(topic.partitions)
            topics.append(topic)
            if not len(topics) % _AT_ONCE:
                let_threads_in()
    forgotten: list[ForgottenTopic] = []
    if buf[pos] == 1:
        pos += 1
    else:
        forgotten, pos = _read_forgotten(version, buf, pos, max_elements)
    rack_id = ""
    if buf[pos] == 1:
        pos += 1
    else:
        text, pos = read_compact_text(buf, pos)
        if text is None:
            raise DecodeError("rack id is null")
        rack_id = text
    if buf[pos]:
        tags, pos = read_tags(buf, pos)
        if 0 in tags:
            cluster_id, _ = read_compact_text(tags[0], 0)
        if 1 in tags and version >= WITH_REPLICA_STATE:
            replica_id, replica_epoch = REPLICA_STATE.unpack_from(tags[1], 0)
    return FetchRequest(
        replica_id,
        replica_epoch,
        max_wait,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        epoch,
        topics,
        forgotten,
        rack_id,
        cluster_id,
    )


def _read_topic(version: int, buf: memoryview, pos: int, budget: int) -> tuple[FetchTopic, int]:
    name, topic_id, pos = read_topic(version, buf, pos)
    count, pos = read_uvarint(buf, pos)
    check_count(count - 1, 33, len(buf) - pos, budget)
    partitions: list[FetchPartition] = []
    left = count - 1
    while left > _AT_ONCE:
        pos = _read_partitions(buf, pos, _AT_ONCE, partitions)
        left -= _AT_ONCE
        let_threads_in()
    pos = _read_partitions(buf, pos, left, partitions)
    pos = pos + 1 if buf[pos] == 0 else skip_tags(buf, pos)
    return FetchTopic(name, topic_id, partitions), pos


def _read_partitions(
    buf: memoryview, pos: int, count: int, partitions: list[FetchPartition]
) -> int:
    """Returns the position after them."""
    unpack = PARTITION.unpack_from
    for _ in range(count):
        index, epoch, offset, last_epoch, log_start, max_bytes = unpack(buf, pos)
        partitions.append(FetchPartition(index, epoch, offset, last_epoch, log_start, max_bytes))
        pos += 32
        pos = pos + 1 if buf[pos] == 0 else skip_tags(buf, pos)
    return pos


def _read_forgotten(
    version: int, buf: memoryview, pos: int, max_elements: int
) -> tuple[list[ForgottenTopic], int]:
    flexible = version >= FLEXIBLE
    count, pos = read_length(buf, pos, flexible)
    check_count(count, 3 if flexible else 6, len(buf) - pos, max_elements)
    budget = max_elements - count
    forgotten: list[ForgottenTopic] = []
    for _ in range(count):
        name, topic_id, pos = read_topic(version, buf, pos)
        partitions, pos = read_length(buf, pos, flexible)
        check_count(partitions, 4, len(buf) - pos, budget)
        budget -= partitions
        end = pos + 4 * partitions
        forgotten.append((name, topic_id, [n for (n,) in INT32.iter_unpack(buf[pos:end])]))
        pos = skip_tags(buf, end) if flexible else end
    return forgotten, pos


def _decode_legacy(version: int, buf: memoryview, pos: int, max_elements: int) -> FetchRequest:
    session_id, session_epoch = 0, -1
    if version >= WITH_SESSIONS:
        replica_id, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch, count = (
            _HEAD_7.unpack_from(buf, pos)
        )
        pos += _HEAD_7.size
    else:
        replica_id, max_wait, min_bytes, max_bytes, isolation, count = _HEAD_4.unpack_from(buf, pos)
        pos += _HEAD_4.size
    check_count(count, 6, len(buf) - pos, max_elements)
    smallest = _legacy_size(version)
    topics = []
    budget = max_elements - count
    for _ in range(count):
        name, topic_id, pos = read_topic(version, buf, pos)
        partition_count, pos = read_length(buf, pos, False)
        check_count(partition_count, smallest, len(buf) - pos, budget)
        budget -= partition_count
        partitions: list[FetchPartition] = []
        while partition_count > _AT_ONCE:
            some, pos = _legacy_partitions(version, buf, pos, _AT_ONCE)
            partitions += some
            partition_count -= _AT_ONCE
            let_threads_in()
        some, pos = _legacy_partitions(version, buf, pos, partition_count)
        partitions = partitions + some if partitions else some
        topics.append(FetchTopic(name, topic_id, partitions))
        if not len(topics) % _AT_ONCE:
            let_threads_in()
    request = FetchRequest(
        replica_id, -1, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch, topics
    )
    if version >= WITH_SESSIONS:
        if INT32.unpack_from(buf, pos)[0] == 0:
            pos += 4
        else:
            request.forgotten, pos = _read_forgotten(version, buf, pos, max_elements)
    if version >= WITH_RACK:
        length = INT16.unpack_from(buf, pos)[0]
        if length:  # few clients say where they are
            rack_id, pos = read_legacy_text(buf, pos)
            if rack_id is None:
                raise DecodeError("rack id is null")
            request.rack_id = rack_id
    return request


def _legacy_size(version: int) -> int:
    if version >= WITH_LEADER_EPOCH:
        return PARTITION_9.size
    return PARTITION_5.size if version >= WITH_LOG_START else PARTITION_4.size


def _legacy_partitions(
    version: int, buf: memoryview, pos: int, count: int
) -> tuple[list[FetchPartition], int]:
    """Partitions of a fixed size each, which the inflexible versions have."""
    if version >= WITH_LEADER_EPOCH and count == 1:
        index, epoch, offset, log_start, max_bytes = PARTITION_9.unpack_from(buf, pos)
        return [
            FetchPartition(index, epoch, offset, -1, log_start, max_bytes)
        ], pos + PARTITION_9.size
    if version >= WITH_LEADER_EPOCH:
        end = pos + count * PARTITION_9.size
        return [
            FetchPartition(index, epoch, offset, -1, log_start, max_bytes)
            for index, epoch, offset, log_start, max_bytes in PARTITION_9.iter_unpack(buf[pos:end])
        ], end
    if version >= WITH_LOG_START:
        end = pos + count * PARTITION_5.size
        return [
            FetchPartition(index, -1, offset, -1, log_start, max_bytes)
            for index, offset, log_start, max_bytes in PARTITION_5.iter_unpack(buf[pos:end])
        ], end
    end = pos + count * PARTITION_4.size
    return [
        FetchPartition(index, -1, offset, -1, -1, max_bytes)
        for index, offset, max_bytes in PARTITION_4.iter_unpack(buf[pos:end])
    ], end


def encode_fetch_request(
    version: int, correlation_id: int, client_id: str | None, request: FetchRequest
) -> bytes:
    """A whole request frame, its size included."""
    check_version(version)
    flexible = version >= FLEXIBLE
    out = bytearray(4)
    out += encode_request_header(ApiKey.FETCH, version, correlation_id, client_id)
    if version < WITH_REPLICA_STATE:
        out += INT32.pack(request.replica_id)
    out += LIMITS.pack(
        request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level
    )
    if version >= WITH_SESSIONS:
        out += SESSION.pack(request.session_id, request.session_epoch)
    out += length_prefix(len(request.topics), flexible)
    for topic in request.topics:
        out += topic_bytes(version, topic.name, topic.topic_id)
        out += length_prefix(len(topic.partitions), flexible)
        for partition in topic.partitions:
            out += _partition_bytes(version, partition)
        if flexible:
            out.append(0)
    if version >= WITH_SESSIONS:
        _put_forgotten(out, version, request.forgotten)
    if version >= WITH_RACK:
        out += compact_string(request.rack_id) if flexible else legacy_string(request.rack_id)
    if flexible:
        out += _request_tags(version, request)
    INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _partition_bytes(version: int, partition: FetchPartition) -> bytes:
    index, offset, max_bytes = partition.partition, partition.fetch_offset, partition.max_bytes
    if version < WITH_LOG_START:
        return PARTITION_4.pack(index, offset, max_bytes)
    log_start = partition.log_start_offset
    if version < WITH_LEADER_EPOCH:
        return PARTITION_5.pack(index, offset, log_start, max_bytes)
    epoch = partition.current_leader_epoch
    if version < FLEXIBLE:
        return PARTITION_9.pack(index, epoch, offset, log_start, max_bytes)
    last_epoch = partition.last_fetched_epoch
    return PARTITION.pack(index, epoch, offset, last_epoch, log_start, max_bytes) + b"\x00"


def _put_forgotten(out: bytearray, version: int, forgotten: Sequence[ForgottenTopic]) -> None:
    flexible = version >= FLEXIBLE
    out += length_prefix(len(forgotten), flexible)
    for name, topic_id, partitions in forgotten:
        out += topic_bytes(version, name, topic_id)
        out += length_prefix(len(partitions), flexible)
        for partition in partitions:
            out += INT32.pack(partition)
        if flexible:
            out.append(0)


def _request_tags(version: int, request: FetchRequest) -> bytes:
    tags = []
    if request.cluster_id is not None:
        tags.append((0, compact_string(request.cluster_id)))
    replica = (request.replica_id, request.replica_epoch)
    if version >= WITH_REPLICA_STATE and replica != (-1, -1):
        tags.append((1, REPLICA_STATE.pack(*replica) + b"\x00"))
    return tagged_section(tags)
