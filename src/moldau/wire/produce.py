"""Produce, versions 3 to 13: the codec of the hottest request, written by hand.

A request is read in one pass; its records stay where they are, as views of the connection's buffer.
The answer for one partition without error, which is nearly all of them, is two ``pack`` calls.

What changed with the versions: 5 adds the log start offset, 8 adds errors of single records, 9 is
flexible, 10 adds leader hints (KIP-951), 13 knows topics by id instead of by name (KIP-516).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.model import NO_TOPIC_ID, Node
from moldau.wire.api import ApiKey
from moldau.wire.errors import (
    DecodeError,
    EncodeError,
    TooManyElementsError,
    UnsupportedVersionError,
)
from moldau.wire.headers import encode_request_header, read_response_header
from moldau.wire.primitives import (
    MALFORMED,
    MAX_ELEMENTS,
    check_count,
    compact_string,
    error_from,
    legacy_string,
    length_prefix,
    read_compact_text,
    read_legacy_text,
    read_length,
    read_uvarint,
    skip_tags,
    uuid_from,
)
from moldau.wire.tags import (
    endpoints_value,
    leader_value,
    read_endpoints,
    read_leader,
    read_tags,
    tagged_section,
)

BytesLike = bytes | bytearray | memoryview

OLDEST: Final = 3
NEWEST: Final = 13
_WITH_LOG_START: Final = 5
_WITH_RECORD_ERRORS: Final = 8
_FLEXIBLE: Final = 9
_WITH_LEADER_HINTS: Final = 10
_BY_ID: Final = 13

_INT32: Final = Struct(">i")
_ACKS_TIMEOUT: Final = Struct(">hi")
_PARTITION: Final = Struct(">ii")
_RESULT: Final = Struct(">ihqqq")
_RESULT_3: Final = Struct(">ihqq")
_HEAD: Final = Struct(">iiBB")
_HEAD_LEGACY: Final = Struct(">iii")
# index, error, base offset, append time, log start, no record errors, no message, two empty tag
# sections, throttle time, one more empty tag section
_TAIL: Final = Struct(">ihqqqBBBBiB")
# number of partitions, the result as above, no record errors, no message, throttle time
_TAIL_8: Final = Struct(">iihqqqihi")
_SMALLEST_TOPIC: Final = 3
_SMALLEST_PARTITION: Final = 6
_NAME_CACHE_SIZE: Final = 8192


@dataclass(init=False)
class ProduceTopic:
    """Batches for one topic: by name to version 12, by id from 13; the other is None."""

    name: str | None
    topic_id: UUID | None
    partitions: list[tuple[int, memoryview | None]]
    """(partition index, its record batches as a view of the frame)"""

    def __init__(
        self,
        name: str | None,
        topic_id: UUID | None,
        partitions: list[tuple[int, memoryview | None]],
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


@dataclass(init=False)
class ProduceRequest:
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]

    def __init__(
        self,
        transactional_id: str | None,
        acks: int,
        timeout_ms: int,
        topics: list[ProduceTopic],
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topics = topics


@dataclass(init=False)
class PartitionProduceResult:
    """What became of one partition's batches."""

    index: int
    error_code: ErrorCode | int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    record_errors: Sequence[tuple[int, str | None]]
    """(index of the record in the batch, message) of each record that caused the refusal"""
    error_message: str | None
    current_leader: tuple[int, int] | None
    """(leader id, leader epoch), told with NOT_LEADER_OR_FOLLOWER"""

    def __init__(
        self,
        index: int,
        error_code: ErrorCode | int = 0,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: Sequence[tuple[int, str | None]] = (),
        error_message: str | None = None,
        current_leader: tuple[int, int] | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors
        self.error_message = error_message
        self.current_leader = current_leader


ProduceResultTopic = tuple[str | None, UUID | None, Sequence[PartitionProduceResult]]
"""(name, topic id, results); the one that the version does not send may be None."""


@dataclass(init=False)
class ProduceResponse:
    topics: list[tuple[str | None, UUID | None, list[PartitionProduceResult]]]
    throttle_ms: int
    node_endpoints: list[Node]

    def __init__(
        self,
        topics: list[tuple[str | None, UUID | None, list[PartitionProduceResult]]],
        throttle_ms: int = 0,
        node_endpoints: list[Node] | None = None,
    ) -> None:
        self.topics = topics
        self.throttle_ms = throttle_ms
        self.node_endpoints = [] if node_endpoints is None else node_endpoints


def decode_produce_request(
    version: int, buf: memoryview, pos: int, max_elements: int = MAX_ELEMENTS
) -> ProduceRequest:
    """The request whose body starts at ``pos``. Records are views of ``buf``, writable if it is."""
    if not OLDEST <= version <= NEWEST:
        raise UnsupportedVersionError(f"PRODUCE version {version} is not spoken here")
    try:
        if version >= _FLEXIBLE:
            return _decode_flexible(version >= _BY_ID, buf, pos, max_elements)
        return _decode_legacy(buf, pos, max_elements)
    except TooManyElementsError:
        raise
    except (DecodeError, *MALFORMED) as error:
        raise DecodeError(f"PRODUCE request version {version}: {error}") from error


def _decode_flexible(by_id: bool, buf: memoryview, pos: int, max_elements: int) -> ProduceRequest:
    transactional_id = None
    if buf[pos]:
        transactional_id, pos = read_compact_text(buf, pos)
    else:
        pos += 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(buf, pos)
    count, pos = read_uvarint(buf, pos + 6)
    check_count(count - 1, _SMALLEST_TOPIC, len(buf) - pos, max_elements)
    topics = []
    budget = max_elements - count + 1
    for _ in range(count - 1):
        if by_id:
            name, topic_id = None, uuid_from(buf[pos : pos + 16].tobytes())
            pos += 16
        else:
            topic_id = None
            name, pos = read_compact_text(buf, pos)
            if name is None:
                raise DecodeError("topic name is null")
        partitions, pos = _read_partitions(buf, pos, budget)
        budget -= len(partitions)
        topics.append(ProduceTopic(name, topic_id, partitions))
    skip_tags(buf, pos)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read_partitions(
    buf: memoryview, pos: int, budget: int
) -> tuple[list[tuple[int, memoryview | None]], int]:
    """The partitions of one topic and its empty tagged section."""
    count = buf[pos]
    pos += 1
    if count >= 0x80:
        count, pos = read_uvarint(buf, pos - 1)
    end = len(buf)
    check_count(count - 1, _SMALLEST_PARTITION, end - pos, budget)
    partitions: list[tuple[int, memoryview | None]] = []
    for _ in range(count - 1):
        index = _INT32.unpack_from(buf, pos)[0]
        size, pos = read_uvarint(buf, pos + 4)
        if size:
            stop = pos + size - 1
            if stop >= end:  # at least the tagged section follows
                raise DecodeError("records reach past the end of the request")
            partitions.append((index, buf[pos:stop]))
            pos = stop
        else:
            partitions.append((index, None))
        pos = pos + 1 if buf[pos] == 0 else skip_tags(buf, pos)
    pos = pos + 1 if buf[pos] == 0 else skip_tags(buf, pos)
    return partitions, pos


def _decode_legacy(buf: memoryview, pos: int, max_elements: int) -> ProduceRequest:
    transactional_id, pos = read_legacy_text(buf, pos)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(buf, pos)
    count, pos = read_length(buf, pos + 6, False)
    end = len(buf)
    check_count(count, 6, end - pos, max_elements)
    topics = []
    budget = max_elements - count
    for _ in range(count):
        name, pos = read_legacy_text(buf, pos)
        if name is None:
            raise DecodeError("topic name is null")
        partition_count, pos = read_length(buf, pos, False)
        check_count(partition_count, 8, end - pos, budget)
        budget -= partition_count
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            index, size = _PARTITION.unpack_from(buf, pos)
            pos += 8
            if size >= 0:
                stop = pos + size
                if stop > end:
                    raise DecodeError("records reach past the end of the request")
                partitions.append((index, buf[pos:stop]))
                pos = stop
            else:
                partitions.append((index, None))
        topics.append(ProduceTopic(name, None, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


_name_prefixes: Final[dict[str, bytes]] = {}


def _name_prefix(name: str) -> bytes:
    """A compact topic name and the array length of one partition."""
    prefix = compact_string(name) + b"\x02"
    if len(_name_prefixes) >= _NAME_CACHE_SIZE:
        _name_prefixes.clear()
    _name_prefixes[name] = prefix
    return prefix


def encode_produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[ProduceResultTopic],
    throttle_ms: int = 0,
    node_endpoints: Sequence[Node] = (),
) -> bytes:
    """A whole response frame, its size included."""
    if version >= _WITH_RECORD_ERRORS and len(topics) == 1 and not node_endpoints:
        name, topic_id, results = topics[0]
        result = results[0] if len(results) == 1 else None
        if result is not None and _is_plain(result):
            if version < _FLEXIBLE:
                return _one_result_8(correlation_id, name, result, throttle_ms)
            if version < _BY_ID:
                assert name is not None
                prefix = _name_prefixes.get(name) or _name_prefix(name)
            else:
                prefix = (topic_id or NO_TOPIC_ID).bytes + b"\x02"
            # 4 correlation id, 1 header tags, 1 topic count, and the tail
            return b"".join(
                (
                    _HEAD.pack(6 + len(prefix) + 39, correlation_id, 0, 2),
                    prefix,
                    _TAIL.pack(
                        result.index,
                        0,
                        result.base_offset,
                        result.log_append_time_ms,
                        result.log_start_offset,
                        1,
                        0,
                        0,
                        0,
                        throttle_ms,
                        0,
                    ),
                )
            )
    return _encode_response(version, correlation_id, topics, throttle_ms, node_endpoints)


def _one_result_8(
    correlation_id: int, name: str | None, result: PartitionProduceResult, throttle_ms: int
) -> bytes:
    """The answer for one partition in version 8, the last before the flexible ones."""
    topic = _topic(_WITH_RECORD_ERRORS, name, None)
    return b"".join(
        (
            _HEAD_LEGACY.pack(8 + len(topic) + _TAIL_8.size, correlation_id, 1),
            topic,
            _TAIL_8.pack(
                1,
                result.index,
                0,
                result.base_offset,
                result.log_append_time_ms,
                result.log_start_offset,
                0,
                -1,
                throttle_ms,
            ),
        )
    )


def _is_plain(result: PartitionProduceResult) -> bool:
    return (
        result.error_code == 0
        and result.error_message is None
        and result.current_leader is None
        and not result.record_errors
    )


def _encode_response(
    version: int,
    correlation_id: int,
    topics: Sequence[ProduceResultTopic],
    throttle_ms: int,
    node_endpoints: Sequence[Node],
) -> bytes:
    if not OLDEST <= version <= NEWEST:
        raise UnsupportedVersionError(f"PRODUCE version {version} is not spoken here")
    flexible = version >= _FLEXIBLE
    parts = [b"\x00"] if flexible else []
    parts.append(length_prefix(len(topics), flexible))
    for name, topic_id, results in topics:
        parts.append(_topic(version, name, topic_id))
        parts.append(length_prefix(len(results), flexible))
        for result in results:
            _put_result(parts, version, result)
        if flexible:
            parts.append(b"\x00")
    parts.append(_INT32.pack(throttle_ms))
    if flexible:
        hints = version >= _WITH_LEADER_HINTS and node_endpoints
        tags = [(0, endpoints_value(node_endpoints))] if hints else ()
        parts.append(tagged_section(tags))
    body = b"".join(parts)
    return _PARTITION.pack(4 + len(body), correlation_id) + body


def _topic(version: int, name: str | None, topic_id: UUID | None) -> bytes:
    if version >= _BY_ID:
        return (topic_id or NO_TOPIC_ID).bytes
    if name is None:
        raise EncodeError(f"PRODUCE version {version} needs the topic's name")
    return compact_string(name) if version >= _FLEXIBLE else legacy_string(name)


def _put_result(parts: list[bytes], version: int, result: PartitionProduceResult) -> None:
    if version < _WITH_LOG_START:
        parts.append(
            _RESULT_3.pack(
                result.index, result.error_code, result.base_offset, result.log_append_time_ms
            )
        )
        return
    parts.append(
        _RESULT.pack(
            result.index,
            result.error_code,
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
        )
    )
    if version < _WITH_RECORD_ERRORS:
        return
    flexible = version >= _FLEXIBLE
    string = compact_string if flexible else legacy_string
    parts.append(length_prefix(len(result.record_errors), flexible))
    for batch_index, message in result.record_errors:
        parts.append(_INT32.pack(batch_index))
        parts.append(string(message))
        if flexible:
            parts.append(b"\x00")
    parts.append(string(result.error_message))
    if flexible:
        leader = result.current_leader if version >= _WITH_LEADER_HINTS else None
        parts.append(b"\x00" if leader is None else tagged_section([(0, leader_value(leader))]))


def encode_produce_request(
    version: int,
    correlation_id: int,
    client_id: str | None,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: Sequence[tuple[str | None, UUID | None, Sequence[tuple[int, BytesLike | None]]]],
) -> list[BytesLike]:
    """A whole request frame in parts, its size included; records are passed on without a copy."""
    if not OLDEST <= version <= NEWEST:
        raise UnsupportedVersionError(f"PRODUCE version {version} is not spoken here")
    flexible = version >= _FLEXIBLE
    string = compact_string if flexible else legacy_string
    end = b"\x00" if flexible else b""
    parts: list[BytesLike] = []
    pending = bytearray(4)
    pending += encode_request_header(ApiKey.PRODUCE, version, correlation_id, client_id)
    pending += string(transactional_id)
    pending += _ACKS_TIMEOUT.pack(acks, timeout_ms)
    pending += length_prefix(len(topics), flexible)
    size = -4
    for name, topic_id, partitions in topics:
        pending += _topic(version, name, topic_id)
        pending += length_prefix(len(partitions), flexible)
        for index, records in partitions:
            pending += _INT32.pack(index)
            pending += length_prefix(-1 if records is None else len(records), flexible)
            if records:
                parts += (pending, records)
                size += len(pending) + len(records)
                pending = bytearray()
            pending += end
        pending += end
    pending += end
    if pending:
        parts.append(pending)
        size += len(pending)
    first = parts[0]
    assert isinstance(first, bytearray)
    _INT32.pack_into(first, 0, size)
    return parts


def decode_produce_response(version: int, frame: BytesLike) -> tuple[int, ProduceResponse]:
    """Correlation id and message of a response frame (without its size)."""
    if not OLDEST <= version <= NEWEST:
        raise UnsupportedVersionError(f"PRODUCE version {version} is not spoken here")
    buf = memoryview(frame)
    correlation_id, pos = read_response_header(ApiKey.PRODUCE, version, buf)
    try:
        return correlation_id, _decode_response(version, buf, pos)
    except MALFORMED as error:
        raise DecodeError(f"PRODUCE response version {version}: {error}") from error


def _decode_response(version: int, buf: memoryview, pos: int) -> ProduceResponse:
    flexible = version >= _FLEXIBLE
    count, pos = read_length(buf, pos, flexible)
    check_count(count, _SMALLEST_TOPIC, len(buf) - pos)
    response = ProduceResponse([])
    for _ in range(count):
        name, topic_id = None, None
        if version >= _BY_ID:
            topic_id = uuid_from(buf[pos : pos + 16].tobytes())
            pos += 16
        else:
            name, pos = read_compact_text(buf, pos) if flexible else read_legacy_text(buf, pos)
            if name is None:
                raise DecodeError("topic name is null")
        partitions, pos = read_length(buf, pos, flexible)
        check_count(partitions, _RESULT_3.size, len(buf) - pos)
        results = []
        for _ in range(partitions):
            result, pos = _read_result(version, buf, pos)
            results.append(result)
        if flexible:
            pos = pos + 1 if buf[pos] == 0 else skip_tags(buf, pos)
        response.topics.append((name, topic_id, results))
    response.throttle_ms = _INT32.unpack_from(buf, pos)[0]
    if flexible and buf[pos + 4]:
        tags, _ = read_tags(buf, pos + 4)
        response.node_endpoints = read_endpoints(tags.get(0))
    return response


def _read_result(version: int, buf: memoryview, pos: int) -> tuple[PartitionProduceResult, int]:
    if version < _WITH_LOG_START:
        index, code, base_offset, append_time = _RESULT_3.unpack_from(buf, pos)
        result = PartitionProduceResult(index, code, base_offset, append_time)
        pos += _RESULT_3.size
    else:
        result = PartitionProduceResult(*_RESULT.unpack_from(buf, pos))
        pos += _RESULT.size
    result.error_code = error_from(result.error_code)
    if version < _WITH_RECORD_ERRORS:
        return result, pos
    flexible = version >= _FLEXIBLE
    if flexible and buf[pos] == 1 and buf[pos + 1] == 0 and buf[pos + 2] == 0:
        return result, pos + 3  # no record errors, no message, no tags
    read_text = read_compact_text if flexible else read_legacy_text
    count, pos = read_length(buf, pos, flexible)
    if count > 0:
        check_count(count, 5, len(buf) - pos)
        errors = []
        for _ in range(count):
            batch_index = _INT32.unpack_from(buf, pos)[0]
            message, pos = read_text(buf, pos + 4)
            errors.append((batch_index, message))
            if flexible:
                pos = skip_tags(buf, pos)
        result.record_errors = tuple(errors)
    result.error_message, pos = read_text(buf, pos)
    if flexible:
        tags, pos = read_tags(buf, pos)
        result.current_leader = read_leader(tags.get(0))
    return result, pos
