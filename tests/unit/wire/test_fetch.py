"""The Fetch codec against kio's, every version, both directions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.kio_strategies import (
    endpoints_of,
    few_examples,
    kio_bytes,
    messages,
    topic_id_of,
    with_frame,
)

from moldau.errors import ErrorCode
from moldau.machine.disk import FileSlice
from moldau.machine.network import Part
from moldau.model import NO_TOPIC_ID
from moldau.testing.disk import MemoryDisk
from moldau.wire.api import ApiKey
from moldau.wire.errors import (
    DecodeError,
    EncodeError,
    TooManyElementsError,
    UnsupportedVersionError,
)
from moldau.wire.fetch import (
    NEWEST,
    OLDEST,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    decode_fetch_request,
    decode_fetch_response,
    encode_fetch_request,
    encode_fetch_response,
)
from moldau.wire.headers import read_request_header
from moldau.wire.schema import message_class

VERSIONS = range(OLDEST, NEWEST + 1)
NO_KRAFT_TAGS = {"replica_directory_id": None, "high_watermark": 2**63 - 1}


def request_of(message: Any) -> FetchRequest:
    """A kio request in our own shape."""
    state = getattr(message, "replica_state", None)
    return FetchRequest(
        message.replica_id if state is None else state.replica_id,
        -1 if state is None else state.replica_epoch,
        message.max_wait // timedelta(milliseconds=1),
        message.min_bytes,
        message.max_bytes,
        message.isolation_level,
        getattr(message, "session_id", 0),
        getattr(message, "session_epoch", -1),
        [
            FetchTopic(
                getattr(topic, "topic", None),
                topic_id_of(topic),
                [
                    FetchPartition(
                        part.partition,
                        getattr(part, "current_leader_epoch", -1),
                        part.fetch_offset,
                        getattr(part, "last_fetched_epoch", -1),
                        getattr(part, "log_start_offset", -1),
                        part.partition_max_bytes,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in message.topics
        ],
        [
            (getattr(topic, "topic", None), topic_id_of(topic), list(topic.partitions))
            for topic in getattr(message, "forgotten_topics_data", ())
        ],
        getattr(message, "rack_id", ""),
        getattr(message, "cluster_id", None),
    )


def without_kraft_tags(message: Any) -> Any:
    """The same request without the tags of single partitions that our own shape leaves out."""
    topics = []
    for topic in message.topics:
        parts = []
        for part in topic.partitions:
            known = {name: value for name, value in NO_KRAFT_TAGS.items() if hasattr(part, name)}
            parts.append(replace(part, **known))
        topics.append(replace(topic, partitions=tuple(parts)))
    return replace(message, topics=tuple(topics))


def pair(value: Any, *names: str) -> tuple[int, int] | None:
    if value is None:
        return None
    first, second = (getattr(value, name) for name in names)
    return None if (first, second) == (-1, -1) else (first, second)


def answer_of(part: Any) -> FetchedPartition:
    aborted = part.aborted_transactions
    return FetchedPartition(
        part.partition_index,
        part.error_code,
        part.high_watermark,
        part.last_stable_offset,
        getattr(part, "log_start_offset", -1),
        None if aborted is None else [(each.producer_id, each.first_offset) for each in aborted],
        getattr(part, "preferred_read_replica", -1),
        part.records,
        pair(getattr(part, "diverging_epoch", None), "epoch", "end_offset"),
        pair(getattr(part, "current_leader", None), "leader_id", "leader_epoch"),
        pair(getattr(part, "snapshot_id", None), "end_offset", "epoch"),
    )


def answers_of(message: Any) -> list[Any]:
    return [
        (
            getattr(topic, "topic", None),
            topic_id_of(topic),
            [answer_of(part) for part in topic.partitions],
        )
        for topic in message.responses
    ]


@pytest.mark.parametrize("version", VERSIONS)
@few_examples
@given(data=st.data())
def test_request_is_read_as_kio_wrote_it(version: int, data: st.DataObject) -> None:
    message = data.draw(messages(message_class(ApiKey.FETCH, version, "request")))
    frame = memoryview(b"xyz" + kio_bytes(message))
    assert decode_fetch_request(version, frame, 3) == request_of(message)


@pytest.mark.parametrize("version", VERSIONS)
@few_examples
@given(data=st.data())
def test_request_is_written_as_kio_writes_it(version: int, data: st.DataObject) -> None:
    drawn = data.draw(messages(message_class(ApiKey.FETCH, version, "request")))
    message = without_kraft_tags(drawn)
    frame = encode_fetch_request(version, 3, None, request_of(message))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, pos = read_request_header(memoryview(frame)[4:])
    assert (header.api_key, header.api_version, header.correlation_id) == (1, version, 3)
    assert frame[4 + pos :] == kio_bytes(message)


@pytest.mark.parametrize("version", VERSIONS)
@few_examples
@given(data=st.data())
def test_response_is_written_as_kio_writes_it(version: int, data: st.DataObject) -> None:
    message = data.draw(messages(message_class(ApiKey.FETCH, version, "response")))
    parts = encode_fetch_response(
        version,
        17,
        message.throttle_time // timedelta(milliseconds=1),
        getattr(message, "error_code", 0),
        getattr(message, "session_id", 0),
        answers_of(message),
        endpoints_of(message),
    )
    assert b"".join(parts) == with_frame(message, 17)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", VERSIONS)
@few_examples
@given(data=st.data())
def test_response_is_read_as_kio_wrote_it(version: int, data: st.DataObject) -> None:
    message = data.draw(messages(message_class(ApiKey.FETCH, version, "response")))
    correlation_id, response = decode_fetch_response(version, with_frame(message, 17)[4:])
    assert correlation_id == 17
    assert response.throttle_ms == message.throttle_time // timedelta(milliseconds=1)
    assert response.error_code == getattr(message, "error_code", 0)
    assert response.session_id == getattr(message, "session_id", 0)
    assert response.topics == answers_of(message)
    assert response.node_endpoints == endpoints_of(message)


@pytest.mark.parametrize("version", VERSIONS)
@few_examples
@given(sizes=st.lists(st.integers(0, 20_000), max_size=4), in_file=st.booleans())
def test_large_and_file_records_stay_parts_of_their_own(
    version: int, sizes: list[int], in_file: bool
) -> None:
    data = [bytes([n]) * size for n, size in enumerate(sizes)]
    file = MemoryDisk().open("log", create=True)
    records: list[Part] = [FileSlice(file, 0, len(each)) if in_file else each for each in data]
    topics = [
        (f"t{n}", NO_TOPIC_ID, [FetchedPartition(n, 0, 9, 9, 0, [], -1, each)])
        for n, each in enumerate(records)
    ]
    parts = encode_fetch_response(version, 1, 0, 0, 0, topics)
    placed = [part for part in parts if any(part is each for each in records)]
    expected = [
        each for each, size in zip(records, sizes, strict=True) if size > (0 if in_file else 4096)
    ]
    assert len(placed) == len(expected)
    contents = {id(each): content for each, content in zip(records, data, strict=True)}
    frame = b"".join(contents.get(id(part), part) for part in parts)  # type: ignore[arg-type]
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    _, response = decode_fetch_response(version, frame[4:])
    assert [partition.records for _, _, (partition,) in response.topics] == data


def test_fetched_records_are_views_of_the_frame() -> None:
    partition = FetchedPartition(0, records=b"batch")
    (frame,) = encode_fetch_response(12, 1, 0, 0, 0, [("t", None, [partition])])
    assert isinstance(frame, bytes)
    _, response = decode_fetch_response(12, memoryview(frame)[4:])
    records = response.topics[0][2][0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame


def test_unknown_error_codes_read_as_unknown_server_error() -> None:
    (frame,) = encode_fetch_response(12, 1, 0, 998, 0, [("t", None, [FetchedPartition(0, 999)])])
    assert isinstance(frame, bytes)
    _, response = decode_fetch_response(12, frame[4:])
    assert response.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert response.topics[0][2][0].error_code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("version", [3, 19, -1])
def test_versions_that_kafka_refuses_are_refused(version: int) -> None:
    request = FetchRequest(-1, -1, 0, 0, 0, 0, 0, -1, [])
    with pytest.raises(UnsupportedVersionError):
        decode_fetch_request(version, memoryview(b""), 0)
    with pytest.raises(UnsupportedVersionError):
        encode_fetch_request(version, 1, None, request)
    with pytest.raises(UnsupportedVersionError):
        encode_fetch_response(version, 1, 0, 0, 0, [])
    with pytest.raises(UnsupportedVersionError):
        decode_fetch_response(version, b"")


def test_topic_without_a_name_cannot_be_written_before_version_13() -> None:
    with pytest.raises(EncodeError):
        encode_fetch_response(12, 1, 0, 0, 0, [(None, NO_TOPIC_ID, [])])


def test_more_partitions_than_the_frame_can_hold_are_refused() -> None:
    limits = bytes(17)
    legacy = limits + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\x7f\xff\xff\xff"
    with pytest.raises(DecodeError, match="only 0 bytes left"):
        decode_fetch_request(4, memoryview(legacy), 0)
    flexible = bytes(25) + b"\x02" + b"\x02t" + b"\xff\xff\xff\xff\x0f"
    with pytest.raises(DecodeError, match="only 0 bytes left"):
        decode_fetch_request(12, memoryview(flexible), 0)


@pytest.mark.parametrize("version", [4, 5, 9, 11, 12, 13, 18])
def test_very_many_topics_and_partitions_are_read(version: int) -> None:
    """Some at a time: other threads are let in between."""
    by_id = version >= 13
    sizes = [2500, 1, 1000, 0, 1001, *[1] * 2000]
    topics = [
        FetchTopic(
            None if by_id else f"t{number}",
            UUID(int=number + 1) if by_id else None,
            [FetchPartition(index, -1, index, -1, -1, 7) for index in range(size)],
        )
        for number, size in enumerate(sizes)
    ]
    request = FetchRequest(-1, -1, 0, 1, 1, 0, 0, 0 if version >= 7 else -1, topics)
    frame = encode_fetch_request(version, 1, "c", request)
    header, position = read_request_header(memoryview(frame)[4:])
    assert header.api_version == version
    again = decode_fetch_request(version, memoryview(frame)[4:], position, 10_000)
    assert again == request
    with pytest.raises(TooManyElementsError):
        decode_fetch_request(version, memoryview(frame)[4:], position, 8_000)
