"""Fetch responses: a list of parts out, views of the frame in.

A response is bytes and, in between, untouched, whatever object stands for the records of a
partition (a slice of a log file that the network layer hands to ``sendfile``). The first part
begins with the size of the whole frame, files included.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final
from uuid import UUID

from moldau.machine.network import Part
from moldau.model import Node
from moldau.wire.api import ApiKey
from moldau.wire.errors import DecodeError
from moldau.wire.fetch_layout import (
    ABORTED,
    FLEXIBLE,
    INT32,
    RESULT,
    RESULT_4,
    WITH_ENDPOINTS,
    WITH_LOG_START,
    WITH_RACK,
    WITH_SESSIONS,
    FetchedPartition,
    FetchedTopic,
    FetchResponse,
    check_version,
    read_topic,
    topic_bytes,
)
from moldau.wire.headers import read_response_header
from moldau.wire.primitives import (
    MALFORMED,
    check_count,
    error_from,
    length_prefix,
    read_length,
    skip_tags,
    uvarint,
)
from moldau.wire.tags import (
    endpoints_value,
    leader_value,
    read_endpoints,
    read_leader,
    read_tags,
    tagged_section,
)

_MERGED_RECORDS: Final = 4096
"""Records in memory up to this size are copied into the bytes around them: fewer parts to write."""

_IN_MEMORY: Final = (bytes, bytearray, memoryview)

# size, correlation id, empty header tags, throttle time, error, session id
_HEAD: Final = Struct(">iiBihi")
_HEAD_ONE: Final = Struct(_HEAD.format + "B")
_HEAD_7: Final = Struct(">iiihi")
_HEAD_4: Final = Struct(">iii")
_BODY_7: Final = Struct(">ihi")
# the fixed fields of a partition, a null or empty list of aborted transactions, preferred replica
_PLAIN: Final = Struct(RESULT.format + "Bi")
# empty tag sections of the partition, the topic and the answer
_END: Final = b"\0\0\0"
# All of an answer for one partition without its size, topic, records and their length.
_ONE_PARTITION: Final = _HEAD_ONE.size - 4 + 1 + _PLAIN.size + len(_END)
_HEAD_ONE_11: Final = Struct(_HEAD_7.format + "i")
# the number of partitions, fields of the one, no or null aborted transactions, preferred replica,
# length of the records
_PLAIN_11: Final = Struct(">i" + RESULT.format[1:] + "iii")
_ONE_PARTITION_11: Final = _HEAD_ONE_11.size - 4 + _PLAIN_11.size
_DIVERGING: Final = Struct(">iqB")
_SNAPSHOT: Final = Struct(">qiB")
_EPOCH_AND_OFFSET: Final = Struct(">iq")
_OFFSET_AND_EPOCH: Final = Struct(">qi")


def encode_fetch_response(
    version: int,
    correlation_id: int,
    throttle_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[FetchedTopic],
    node_endpoints: Sequence[Node] = (),
) -> list[Part]:
    """A whole response frame in parts; file records are passed on as they are."""
    if version >= WITH_RACK and len(topics) == 1 and not node_endpoints:
        name, topic_id, partitions = topics[0]
        if len(partitions) == 1 and _is_plain(partitions[0]):
            check_version(version)
            prefix = topic_bytes(version, name, topic_id)
            encode = _one_partition if version >= FLEXIBLE else _one_partition_11
            return encode(
                correlation_id, throttle_ms, error_code, session_id, prefix, partitions[0]
            )
    head = fetch_response_head(version, correlation_id, throttle_ms, error_code, session_id)
    return _any_partitions(version, head, topics, node_endpoints)


def _any_partitions(
    version: int, head: bytes, topics: Sequence[FetchedTopic], node_endpoints: Sequence[Node]
) -> list[Part]:
    writer = FetchResponseWriter(version, head, len(topics))
    for name, topic_id, partitions in topics:
        writer.begin_topic(name, topic_id, len(partitions))
        writer.put(partitions)
        writer.end_topic()
    return writer.end(node_endpoints)


class FetchResponseWriter:
    """A response frame that is written bit by bit, after ``fetch_response_head``."""

    __slots__ = ("_flexible", "_out", "_parts", "_size", "_version")

    def __init__(self, version: int, head: bytes, topic_count: int) -> None:
        self._version = version
        self._flexible = version >= FLEXIBLE
        self._out = bytearray(head)
        self._out += length_prefix(topic_count, self._flexible)
        self._parts: list[Part] = []
        self._size = -4  # the size does not count itself

    def begin_topic(self, name: str | None, topic_id: UUID | None, partition_count: int) -> None:
        self._out += topic_bytes(self._version, name, topic_id)
        self._out += length_prefix(partition_count, self._flexible)

    def put(self, partitions: Sequence[FetchedPartition]) -> None:
        version, flexible, out = self._version, self._flexible, self._out
        for partition in partitions:
            if flexible:
                _put_flexible(out, partition)
            else:
                _put_legacy(out, version, partition)
            records = partition.records
            length = -1 if records is None else _size(records)
            out += length_prefix(length, flexible)
            if records is not None and length > 0:
                if length <= _MERGED_RECORDS and isinstance(records, _IN_MEMORY):
                    out += records
                else:
                    self._parts += (out, records)
                    self._size += len(out) + length
                    out = bytearray()
            if flexible:
                _put_partition_tags(out, partition)
        self._out = out

    def end_topic(self) -> None:
        if self._flexible:
            self._out.append(0)

    def end(self, node_endpoints: Sequence[Node] = ()) -> list[Part]:
        """The whole frame in parts; file records are passed on as they are."""
        out, parts = self._out, self._parts
        if self._flexible:
            if node_endpoints and self._version >= WITH_ENDPOINTS:
                out += tagged_section([(0, endpoints_value(node_endpoints))])
            else:
                out.append(0)
        size = self._size
        if out:
            parts.append(out)
            size += len(out)
        first = parts[0]
        assert isinstance(first, bytearray)
        INT32.pack_into(first, 0, size)
        return parts


def _is_plain(partition: FetchedPartition) -> bool:
    """No lists and no tags: what nearly every answer to a consumer is."""
    return (
        not partition.aborted
        and partition.current_leader is None
        and partition.diverging_epoch is None
        and partition.snapshot_id is None
    )


def _one_partition(
    correlation_id: int,
    throttle_ms: int,
    error_code: int,
    session_id: int,
    topic: bytes,
    partition: FetchedPartition,
) -> list[Part]:
    """The answer for a single plain partition in a flexible version, in few steps."""
    records = partition.records
    length = -1 if records is None else _size(records)
    prefix = uvarint(length + 1)
    size = _ONE_PARTITION + len(topic) + len(prefix) + max(length, 0)
    start = b"".join(
        (
            _HEAD_ONE.pack(size, correlation_id, 0, throttle_ms, error_code, session_id, 2),
            topic,
            b"\x02",
            _PLAIN.pack(
                partition.partition,
                partition.error_code,
                partition.high_watermark,
                partition.last_stable_offset,
                partition.log_start_offset,
                0 if partition.aborted is None else 1,
                partition.preferred_read_replica,
            ),
            prefix,
        )
    )
    if records is None or length == 0:
        return [start + _END]
    if length <= _MERGED_RECORDS and isinstance(records, _IN_MEMORY):
        return [b"".join((start, records, _END))]
    return [start, records, _END]


def _one_partition_11(
    correlation_id: int,
    throttle_ms: int,
    error_code: int,
    session_id: int,
    topic: bytes,
    partition: FetchedPartition,
) -> list[Part]:
    """The same in version 11, the last before the flexible ones, which many clients speak."""
    records = partition.records
    length = -1 if records is None else _size(records)
    size = _ONE_PARTITION_11 + len(topic) + max(length, 0)
    start = b"".join(
        (
            _HEAD_ONE_11.pack(size, correlation_id, throttle_ms, error_code, session_id, 1),
            topic,
            _PLAIN_11.pack(
                1,
                partition.partition,
                partition.error_code,
                partition.high_watermark,
                partition.last_stable_offset,
                partition.log_start_offset,
                -1 if partition.aborted is None else 0,
                partition.preferred_read_replica,
                length,
            ),
        )
    )
    if records is None or length == 0:
        return [start]
    if length <= _MERGED_RECORDS and isinstance(records, _IN_MEMORY):
        return [start + records]
    return [start, records]


def fetch_response_head(
    version: int, correlation_id: int, throttle_ms: int, error_code: int, session_id: int
) -> bytes:
    if version >= FLEXIBLE:
        check_version(version)
        return _HEAD.pack(0, correlation_id, 0, throttle_ms, error_code, session_id)
    if version >= WITH_SESSIONS:
        return _HEAD_7.pack(0, correlation_id, throttle_ms, error_code, session_id)
    check_version(version)
    return _HEAD_4.pack(0, correlation_id, throttle_ms)


def _size(records: Part) -> int:
    return len(records) if isinstance(records, _IN_MEMORY) else records.size


def _put_flexible(out: bytearray, partition: FetchedPartition) -> None:
    aborted = partition.aborted
    if not aborted:
        out += _PLAIN.pack(
            partition.partition,
            partition.error_code,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
            0 if aborted is None else 1,
            partition.preferred_read_replica,
        )
        return
    out += RESULT.pack(
        partition.partition,
        partition.error_code,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log_start_offset,
    )
    out += uvarint(len(aborted) + 1)
    for producer_id, first_offset in aborted:
        out += ABORTED.pack(producer_id, first_offset)
        out.append(0)
    out += INT32.pack(partition.preferred_read_replica)


def _put_legacy(out: bytearray, version: int, partition: FetchedPartition) -> None:
    fixed = (
        partition.partition,
        partition.error_code,
        partition.high_watermark,
        partition.last_stable_offset,
    )
    if version >= WITH_LOG_START:
        out += RESULT.pack(*fixed, partition.log_start_offset)
    else:
        out += RESULT_4.pack(*fixed)
    aborted = partition.aborted
    if aborted is None:
        out += INT32.pack(-1)
    else:
        out += INT32.pack(len(aborted))
        for producer_id, first_offset in aborted:
            out += ABORTED.pack(producer_id, first_offset)
    if version >= WITH_RACK:
        out += INT32.pack(partition.preferred_read_replica)


def _put_partition_tags(out: bytearray, partition: FetchedPartition) -> None:
    diverging, leader = partition.diverging_epoch, partition.current_leader
    snapshot = partition.snapshot_id
    if diverging is None and leader is None and snapshot is None:
        out.append(0)
        return
    tags = []
    if diverging is not None:
        tags.append((0, _DIVERGING.pack(*diverging, 0)))
    if leader is not None:
        tags.append((1, leader_value(leader)))
    if snapshot is not None:
        tags.append((2, _SNAPSHOT.pack(*snapshot, 0)))
    out += tagged_section(tags)


def decode_fetch_response(
    version: int, frame: bytes | bytearray | memoryview
) -> tuple[int, FetchResponse]:
    """Correlation id and message of a frame (without its size); records are views of it."""
    check_version(version)
    buf = memoryview(frame)
    correlation_id, pos = read_response_header(ApiKey.FETCH, version, buf)
    try:
        return correlation_id, _decode(version, buf, pos)
    except MALFORMED as error:
        raise DecodeError(f"FETCH response version {version}: {error}") from error


def _decode(version: int, buf: memoryview, pos: int) -> FetchResponse:
    flexible = version >= FLEXIBLE
    error_code, session_id = 0, 0
    if version >= WITH_SESSIONS:
        throttle_ms, error_code, session_id = _BODY_7.unpack_from(buf, pos)
        pos += _BODY_7.size
    else:
        throttle_ms = INT32.unpack_from(buf, pos)[0]
        pos += 4
    count, pos = read_length(buf, pos, flexible)
    check_count(count, 3, len(buf) - pos)
    topics: list[tuple[str | None, UUID | None, list[FetchedPartition]]] = []
    for _ in range(count):
        name, topic_id, pos = read_topic(version, buf, pos)
        partition_count, pos = read_length(buf, pos, flexible)
        check_count(partition_count, RESULT_4.size, len(buf) - pos)
        partitions = []
        for _ in range(partition_count):
            partition, pos = _read_partition(version, buf, pos)
            partitions.append(partition)
        if flexible:
            pos = pos + 1 if buf[pos] == 0 else skip_tags(buf, pos)
        topics.append((name, topic_id, partitions))
    response = FetchResponse(throttle_ms, error_from(error_code), session_id, topics)
    if flexible and buf[pos]:
        tags, _ = read_tags(buf, pos)
        response.node_endpoints = read_endpoints(tags.get(0))
    return response


def _read_partition(version: int, buf: memoryview, pos: int) -> tuple[FetchedPartition, int]:
    flexible = version >= FLEXIBLE
    if version >= WITH_LOG_START:
        partition = FetchedPartition(*RESULT.unpack_from(buf, pos))
        pos += RESULT.size
    else:
        partition = FetchedPartition(*RESULT_4.unpack_from(buf, pos))
        pos += RESULT_4.size
    partition.error_code = error_from(partition.error_code)
    partition.aborted, pos = _read_aborted(flexible, buf, pos)
    if version >= WITH_RACK:
        partition.preferred_read_replica = INT32.unpack_from(buf, pos)[0]
        pos += 4
    length, pos = read_length(buf, pos, flexible)
    if length >= 0:
        end = pos + length
        if end > len(buf):
            raise DecodeError("records reach past the end of the response")
        partition.records = buf[pos:end]
        pos = end
    if flexible:
        if buf[pos]:
            pos = _read_partition_tags(partition, buf, pos)
        else:
            pos += 1
    return partition, pos


def _read_aborted(
    flexible: bool, buf: memoryview, pos: int
) -> tuple[list[tuple[int, int]] | None, int]:
    count, pos = read_length(buf, pos, flexible)
    if count < 0:
        return None, pos
    check_count(count, ABORTED.size, len(buf) - pos)
    aborted: list[tuple[int, int]] = []
    for _ in range(count):
        producer_id, first_offset = ABORTED.unpack_from(buf, pos)
        aborted.append((producer_id, first_offset))
        pos += ABORTED.size
        if flexible:
            pos = skip_tags(buf, pos)
    return aborted, pos


def _read_partition_tags(partition: FetchedPartition, buf: memoryview, pos: int) -> int:
    tags, pos = read_tags(buf, pos)
    if 0 in tags:
        epoch, end_offset = _EPOCH_AND_OFFSET.unpack_from(tags[0], 0)
        partition.diverging_epoch = (epoch, end_offset)
    partition.current_leader = read_leader(tags.get(1))
    if 2 in tags:
        end_offset, epoch = _OFFSET_AND_EPOCH.unpack_from(tags[2], 0)
        partition.snapshot_id = (end_offset, epoch)
    return pos
