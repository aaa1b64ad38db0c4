"""The adapter: every version of every API, seen in the newest shape."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.produce.v13.response import PartitionProduceResponse
from kio.serial import entity_reader
from tests.unit.wire.kio_strategies import few_examples, kio_bytes, messages, with_frame

from moldau.errors import ErrorCode
from moldau.wire.api import KNOWN, SERVED, ApiKey
from moldau.wire.decoding import reader
from moldau.wire.encoding import writer
from moldau.wire.errors import DecodeError, EncodeError, UnsupportedVersionError
from moldau.wire.headers import read_request_header
from moldau.wire.lifting import DROPPED
from moldau.wire.make import make
from moldau.wire.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    newest_class,
)
from moldau.wire.schema import Direction, fields_of, message_class

# Produce and Fetch have their own codecs: the newest shape has no topic names.
HOT = {ApiKey.PRODUCE, ApiKey.FETCH}
DIRECTIONS: tuple[Direction, Direction] = ("request", "response")
many_examples = settings(few_examples, max_examples=150)


def versions(api: ApiKey) -> range:
    return range(KNOWN[api].oldest, KNOWN[api].newest + 1)


def without_dropped_fields(api: ApiKey, direction: Direction, message: Any) -> Any:
    """The message with defaults for what the newest shape has no place for."""
    return _reset(message, DROPPED.get((api, direction), frozenset()))


def _reset(message: Any, names: frozenset[str]) -> Any:
    changes: dict[str, Any] = {}
    kind: Any = type(message)
    for spec in fields_of(kind):
        value = getattr(message, spec.name)
        if spec.name in names:
            changes[spec.name] = spec.default
        elif spec.entity is not None and value is not None:
            nested = value if spec.is_array else (value,)
            lowered = tuple(_reset(item, names) for item in nested)
            changes[spec.name] = lowered if spec.is_array else lowered[0]
    return replace(message, **changes)


def check_against_kio(api: ApiKey, direction: Direction, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions(api)))
    cls = message_class(api, version, direction)
    message = data.draw(messages(cls))
    encoded = kio_bytes(message)
    assert reader(cls, cls)(memoryview(encoded), 0, [1000]) == (message, len(encoded))
    out = bytearray()
    writer(cls, cls)(out, message)
    assert out == encoded


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("api", SERVED)
@few_examples
@given(data=st.data())
def test_served_versions_are_read_and_written_as_kio_does(
    api: ApiKey, direction: Direction, data: st.DataObject
) -> None:
    check_against_kio(api, direction, data)


@many_examples
@given(
    st.sampled_from(sorted(KNOWN.keys() - SERVED.keys())), st.sampled_from(DIRECTIONS), st.data()
)
def test_other_apis_are_read_and_written_as_kio_does(
    api: ApiKey, direction: Direction, data: st.DataObject
) -> None:
    check_against_kio(api, direction, data)


def check_newest_shape(api: ApiKey, direction: Direction, data: st.DataObject) -> None:
    """Lifted to the newest shape and lowered again, a message has its old bytes."""
    version = data.draw(st.sampled_from(versions(api)))
    drawn = data.draw(messages(message_class(api, version, direction)))
    message = without_dropped_fields(api, direction, drawn)
    if direction == "request":
        seen = decode_request(api, version, b"??" + kio_bytes(message), 2)
        frame = encode_request(api, version, 77, "me", seen)
        header, pos = read_request_header(memoryview(frame)[4:])
        assert (header.api_key, header.api_version, header.correlation_id) == (api, version, 77)
        assert frame[4 + pos :] == kio_bytes(message)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    else:
        # An ApiVersions answer with this error is always one of version 0.
        assume(api != ApiKey.API_VERSIONS or message.error_code != 35)
        expected = with_frame(message, 77)
        correlation_id, seen = decode_response(api, version, expected[4:])
        assert correlation_id == 77
        assert encode_response(api, version, 77, seen) == expected
    assert type(seen) is newest_class(api, direction)
    kind: Any = type(seen)
    for spec in fields_of(kind):
        if spec.entity is not None and spec.is_array and getattr(seen, spec.name):
            assert type(getattr(seen, spec.name)[0]) is spec.entity


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("api", sorted(SERVED.keys() - HOT))
@few_examples
@given(data=st.data())
def test_newest_shape_keeps_all_that_a_served_version_says(
    api: ApiKey, direction: Direction, data: st.DataObject
) -> None:
    check_newest_shape(api, direction, data)


@many_examples
@given(
    st.sampled_from(sorted(KNOWN.keys() - SERVED.keys())), st.sampled_from(DIRECTIONS), st.data()
)
def test_newest_shape_keeps_all_that_other_apis_say(
    api: ApiKey, direction: Direction, data: st.DataObject
) -> None:
    check_newest_shape(api, direction, data)


@few_examples
@given(data=st.data())
def test_what_we_write_kio_reads(data: st.DataObject) -> None:
    api = data.draw(st.sampled_from([ApiKey.LIST_OFFSETS, ApiKey.CREATE_TOPICS, ApiKey.METADATA]))
    version = KNOWN[api].newest
    message = data.draw(messages(newest_class(api, "response")))
    frame = encode_response(api, version, 1, message)
    cls: Any = newest_class(api, "response")
    assert entity_reader(cls)(frame[9:], 0)[0] == message


def test_plain_milliseconds_and_error_codes_are_accepted() -> None:
    topic = make(
        MetadataResponseTopic,
        error_code=3,
        name="t",
        topic_id=None,
        is_internal=False,
        partitions=(
            make(
                MetadataResponsePartition,
                error_code=ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=0,
                leader_id=-1,
                leader_epoch=-1,
                replica_nodes=(1,),
                isr_nodes=[],
                offline_replicas=(),
            ),
        ),
    )
    response = make(
        MetadataResponse,
        throttle_time=25,
        brokers=(),
        cluster_id="c",
        controller_id=1,
        topics=[topic],
        error_code=KioErrorCode.none,
    )
    _, seen = decode_response(
        ApiKey.METADATA, 13, encode_response(ApiKey.METADATA, 13, 1, response)[4:]
    )
    assert seen.throttle_time == timedelta(milliseconds=25)
    assert seen.topics[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert seen.topics[0].partitions[0].error_code is ErrorCode.LEADER_NOT_AVAILABLE
    assert seen.error_code is ErrorCode.NONE


def test_unknown_error_code_reads_as_unknown_server_error() -> None:
    frame = bytearray(encode_response(ApiKey.INIT_PRODUCER_ID, 0, 1, init_producer_id_response()))
    frame[12:14] = b"\x7f\xff"
    _, seen = decode_response(ApiKey.INIT_PRODUCER_ID, 0, frame[4:])
    assert seen.error_code is ErrorCode.UNKNOWN_SERVER_ERROR


def init_producer_id_response() -> Any:
    cls: Any = newest_class(ApiKey.INIT_PRODUCER_ID, "response")
    return cls(throttle_time=0, error_code=0, producer_id=1, producer_epoch=0)


def test_version_0_answer_to_a_refused_apiversions_request_is_understood() -> None:
    cls: Any = message_class(ApiKey.API_VERSIONS, 0, "response")
    refused = with_frame(cls(error_code=KioErrorCode.unsupported_version, api_keys=()), 3)
    _, seen = decode_response(ApiKey.API_VERSIONS, 4, refused[4:])
    assert seen.error_code is ErrorCode.UNSUPPORTED_VERSION


def test_bytes_after_the_message_are_ignored() -> None:
    request = make(
        MetadataRequest,
        topics=(make(MetadataRequestTopic, topic_id=uuid4(), name=None),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    frame = memoryview(encode_request(ApiKey.METADATA, 12, 1, None, request))[4:]
    _, pos = read_request_header(frame)
    assert decode_request(ApiKey.METADATA, 12, bytes(frame) + b"more", pos) == request


def test_unknown_tags_are_skipped() -> None:
    body = b"\x01" + b"\x01\x00" + b"\x02\x05\x02ab\x63\x00"
    request = decode_request(ApiKey.METADATA, 12, body, 0)
    assert request.topics == ()
    assert request.allow_auto_topic_creation is True


def test_known_tag_of_the_wrong_size_is_refused() -> None:
    # ApiVersions response version 3: tag 1 is the epoch of the features, eight bytes.
    good = bytes(4) + b"\x00\x00\x01" + bytes(4) + b"\x01\x01\x08" + bytes(8)
    assert decode_response(ApiKey.API_VERSIONS, 3, good)[1].finalized_features_epoch == 0
    bad = bytes(4) + b"\x00\x00\x01" + bytes(4) + b"\x01\x01\x09" + bytes(9)
    with pytest.raises(DecodeError, match="finalized_features_epoch"):
        decode_response(ApiKey.API_VERSIONS, 3, bad)


def test_any_nonzero_byte_is_true() -> None:
    body = b"\x01" + b"\x02\x00" + b"\x00"
    assert decode_request(ApiKey.METADATA, 12, body, 0).allow_auto_topic_creation is True


@pytest.mark.parametrize("version", [-1, 14])
def test_unknown_versions_are_refused(version: int) -> None:
    with pytest.raises(UnsupportedVersionError):
        decode_request(ApiKey.METADATA, version, b"", 0)
    with pytest.raises(UnsupportedVersionError):
        encode_response(ApiKey.METADATA, version, 1, None)


def test_apis_without_versions_are_refused() -> None:
    with pytest.raises(UnsupportedVersionError):
        decode_request(ApiKey.LEADER_AND_ISR, 0, b"", 0)


@pytest.mark.parametrize(
    "change",
    [{"topics": 5}, {"topics": (None,)}, {"allow_auto_topic_creation": None}, {}],
    ids=str,
)
def test_values_that_do_not_fit_are_encode_errors(change: dict[str, Any]) -> None:
    topic = make(MetadataRequestTopic, topic_id=None, name=None)
    fields: dict[str, Any] = {
        "topics": (topic,),  # null names only exist from version 10 on
        "allow_auto_topic_creation": True,
        "include_topic_authorized_operations": True,
    }
    request = make(MetadataRequest, **(fields | change))
    if change == {"allow_auto_topic_creation": None}:
        assert encode_request(ApiKey.METADATA, 12, 1, None, request)  # falsy is false
        return
    with pytest.raises(EncodeError):
        encode_request(ApiKey.METADATA, 9, 1, None, request)


def test_null_array_is_refused_where_the_schema_has_none() -> None:
    with pytest.raises(EncodeError, match="topics"):
        encode_response(
            ApiKey.METADATA,
            12,
            1,
            make(
                MetadataResponse,
                throttle_time=0,
                brokers=(),
                cluster_id=None,
                controller_id=0,
                topics=None,
                error_code=0,
            ),
        )


def test_for_ever_fits_a_duration() -> None:
    cls = CreateDelegationTokenRequest
    for ms, seen in ((2**63 - 1, timedelta.max), (-(2**63), timedelta.min)):
        request = make(
            cls,
            owner_principal_type=None,
            owner_principal_name=None,
            renewers=(),
            max_lifetime=ms,
        )
        out = bytearray()
        writer(cls, cls)(out, request)
        assert reader(cls, cls)(memoryview(out), 0, [10])[0].max_lifetime == seen


def test_times_keep_their_milliseconds() -> None:
    cls = PartitionProduceResponse
    values = {spec.name: spec.default for spec in fields_of(cls)}
    time = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
    for given_time, seen in (
        (time, time),
        (1, datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)),
        (None, None),
    ):
        out = bytearray()
        writer(cls, cls)(out, make(cls, **(values | {"log_append_time": given_time})))
        assert reader(cls, cls)(memoryview(out), 0, [10])[0].log_append_time == seen


def test_importing_the_adapter_does_not_import_hypothesis_or_asyncio() -> None:
    program = (
        "import sys, moldau.wire.messages as m, moldau.wire.api as a;"
        "m.newest_class(a.ApiKey.METADATA, 'request');"
        "print('hypothesis' in sys.modules, 'asyncio' in sys.modules);"
        "import hypothesis.strategies"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["False", "False"]
