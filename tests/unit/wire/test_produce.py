"""The Produce codec against kio's, every version, both directions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader
from tests.unit.wire.kio_strategies import (
    endpoints_of,
    few_examples,
    kio_bytes,
    messages,
    topic_id_of,
    with_frame,
)

from moldau.errors import ErrorCode
from moldau.model import NO_TOPIC_ID
from moldau.wire.api import ApiKey
from moldau.wire.errors import DecodeError, EncodeError, UnsupportedVersionError
from moldau.wire.headers import read_request_header
from moldau.wire.primitives import uvarint
from moldau.wire.produce import (
    NEWEST,
    OLDEST,
    PartitionProduceResult,
    decode_produce_request,
    decode_produce_response,
    encode_produce_request,
    encode_produce_response,
)
from moldau.wire.schema import message_class

VERSIONS = range(OLDEST, NEWEST + 1)


def request_parts(message: Any) -> list[Any]:
    """A kio request as the arguments of our own codec."""
    return [
        (
            getattr(topic, "name", None),
            topic_id_of(topic),
            [(partition.index, partition.records) for partition in topic.partition_data],
        )
        for topic in message.topic_data
    ]


def result_of(partition: Any) -> PartitionProduceResult:
    time = partition.log_append_time
    leader = getattr(partition, "current_leader", None)
    hint = None if leader is None else (leader.leader_id, leader.leader_epoch)
    return PartitionProduceResult(
        partition.index,
        partition.error_code,
        partition.base_offset,
        -1 if time is None else round(time.timestamp() * 1000),
        getattr(partition, "log_start_offset", -1),
        tuple(
            (error.batch_index, error.batch_index_error_message)
            for error in getattr(partition, "record_errors", ())
        ),
        getattr(partition, "error_message", None),
        None if hint == (-1, -1) else hint,
    )


def response_parts(message: Any) -> list[Any]:
    return [
        (
            getattr(topic, "name", None),
            topic_id_of(topic),
            [result_of(partition) for partition in topic.partition_responses],
        )
        for topic in message.responses
    ]


@pytest.mark.parametrize("version", VERSIONS)
@few_examples
@given(data=st.data())
def test_request_is_read_as_kio_wrote_it(version: int, data: st.DataObject) -> None:
    message = data.draw(messages(message_class(ApiKey.PRODUCE, version, "request")))
    frame = memoryview(bytearray(b"xy" + kio_bytes(message)))
    request = decode_produce_request(version, frame, 2)
    assert request.transactional_id == message.transactional_id
    assert request.acks == message.acks
    assert timedelta(milliseconds=request.timeout_ms) == message.timeout
    assert [(t.name, t.topic_id, t.partitions) for t in request.topics] == request_parts(message)


@pytest.mark.parametrize("version", VERSIONS)
@few_examples
@given(data=st.data())
def test_request_is_written_as_kio_writes_it(version: int, data: st.DataObject) -> None:
    message = data.draw(messages(message_class(ApiKey.PRODUCE, version, "request")))
    parts = encode_produce_request(
        version,
        7,
        "me",
        message.transactional_id,
        message.acks,
        message.timeout // timedelta(milliseconds=1),
        request_parts(message),
    )
    frame = b"".join(parts)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, pos = read_request_header(memoryview(frame)[4:])
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (
        ApiKey.PRODUCE,
        version,
        7,
        "me",
    )
    assert frame[4 + pos :] == kio_bytes(message)


@pytest.mark.parametrize("version", VERSIONS)
@few_examples
@given(data=st.data())
def test_response_is_written_as_kio_writes_it(version: int, data: st.DataObject) -> None:
    message = data.draw(messages(message_class(ApiKey.PRODUCE, version, "response")))
    frame = encode_produce_response(
        version,
        2**31 - 1,
        response_parts(message),
        message.throttle_time // timedelta(milliseconds=1),
        endpoints_of(message),
    )
    assert frame == with_frame(message, 2**31 - 1)


@pytest.mark.parametrize("version", VERSIONS)
@few_examples
@given(
    index=st.integers(0, 2**31 - 1),
    base_offset=st.integers(-1, 2**63 - 1),
    append_time=st.just(-1) | st.integers(0, 2**31).map(lambda seconds: seconds * 1000),
    log_start=st.integers(-1, 2**63 - 1),
    name=st.text(st.characters(codec="utf-8"), max_size=300),
    topic_id=st.none() | st.uuids(),
    throttle=st.integers(0, 2**31 - 1),
)
def test_answer_for_one_partition_without_error_is_kios(
    version: int,
    index: int,
    base_offset: int,
    append_time: int,
    log_start: int,
    name: str,
    topic_id: UUID | None,
    throttle: int,
) -> None:
    result = PartitionProduceResult(index, 0, base_offset, append_time, log_start)
    frame = encode_produce_response(version, 5, [(name, topic_id, [result])], throttle)
    cls: Any = message_class(ApiKey.PRODUCE, version, "response")
    message, _ = entity_reader(cls)(frame[9 if version >= 9 else 8 :], 0)
    assert message.throttle_time == timedelta(milliseconds=throttle)
    ((topic,),) = (message.responses,)
    assert getattr(topic, "name", name) == name
    assert (getattr(topic, "topic_id", topic_id) or NO_TOPIC_ID) == (topic_id or NO_TOPIC_ID)
    (partition,) = topic.partition_responses
    assert (partition.index, partition.error_code, partition.base_offset) == (index, 0, base_offset)
    expected = None if append_time == -1 else datetime.fromtimestamp(append_time / 1000, UTC)
    assert partition.log_append_time == expected
    assert frame == with_frame(message, 5)


@pytest.mark.parametrize("version", VERSIONS)
@few_examples
@given(data=st.data())
def test_response_is_read_as_kio_wrote_it(version: int, data: st.DataObject) -> None:
    message = data.draw(messages(message_class(ApiKey.PRODUCE, version, "response")))
    correlation_id, response = decode_produce_response(version, with_frame(message, 99)[4:])
    assert correlation_id == 99
    assert response.topics == response_parts(message)
    assert timedelta(milliseconds=response.throttle_ms) == message.throttle_time
    assert response.node_endpoints == endpoints_of(message)


def test_records_are_writable_views_of_the_frame() -> None:
    parts = encode_produce_request(9, 1, None, None, -1, 1000, [("t", None, [(3, b"abcd")])])
    frame = memoryview(bytearray(b"".join(parts)))[4:]
    _, pos = read_request_header(frame)
    ((index, records),) = decode_produce_request(9, frame, pos).topics[0].partitions
    assert index == 3
    assert records is not None
    records[0:4] = b"WXYZ"
    assert b"WXYZ" in frame.tobytes()


def test_records_are_sent_without_a_copy() -> None:
    records = bytearray(b"batch")
    parts = encode_produce_request(9, 1, None, None, -1, 1000, [("t", None, [(0, records)])])
    assert any(part is records for part in parts)


def test_unknown_error_code_reads_as_unknown_server_error() -> None:
    frame = encode_produce_response(9, 1, [("t", None, [PartitionProduceResult(0, 999)])])
    _, response = decode_produce_response(9, frame[4:])
    assert response.topics[0][2][0].error_code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("version", [2, 14, -1])
def test_versions_that_kafka_refuses_are_refused(version: int) -> None:
    with pytest.raises(UnsupportedVersionError):
        decode_produce_request(version, memoryview(b""), 0)
    with pytest.raises(UnsupportedVersionError):
        encode_produce_request(version, 1, None, None, -1, 0, [])
    with pytest.raises(UnsupportedVersionError):
        encode_produce_response(version, 1, [])
    with pytest.raises(UnsupportedVersionError):
        decode_produce_response(version, b"")


def test_topic_without_a_name_cannot_be_written_before_version_13() -> None:
    with pytest.raises(EncodeError):
        encode_produce_request(12, 1, None, None, -1, 0, [(None, NO_TOPIC_ID, [])])


@pytest.mark.parametrize("claimed", [2, 5, 0x7FFFFFFF, 0xFFFFFFFF])
def test_records_longer_than_the_frame_are_refused(claimed: int) -> None:
    body = b"\x00" + b"\xff\xff\x00\x00\x00\x00" + b"\x02\x02t\x02" + bytes(4) + uvarint(claimed)
    with pytest.raises(DecodeError):
        decode_produce_request(9, memoryview(body), 0)
    if claimed < 2**31:
        legacy = b"\xff\xff" + bytes(6) + b"\0\0\0\1\0\1t\0\0\0\1" + bytes(4)
        with pytest.raises(DecodeError):
            decode_produce_request(3, memoryview(legacy + claimed.to_bytes(4, "big")), 0)


def test_unknown_tagged_fields_are_skipped() -> None:
    tag = b"\x01\x05\x02ab"
    body = b"\x00" + b"\xff\xff\x00\x00\x00\x07" + b"\x02\x02t\x02" + bytes(4) + b"\x03hi"
    request = decode_produce_request(9, memoryview(body + tag * 3), 0)
    assert request.timeout_ms == 7
    ((index, records),) = request.topics[0].partitions
    assert (index, bytes(records or b"")) == (0, b"hi")
