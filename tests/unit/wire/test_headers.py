"""Request and response headers against kio's, and what happens to garbage."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer
from tests.unit.wire.kio_strategies import few_examples

from moldau.wire.api import KNOWN, ApiKey
from moldau.wire.errors import DecodeError, EncodeError
from moldau.wire.headers import (
    END_OF_PRIVATE_KEYS,
    FIRST_PRIVATE_KEY,
    RequestHeader,
    encode_request_header,
    read_request_header,
    read_response_header,
)
from moldau.wire.private import PrivateApi
from moldau.wire.schema import message_class

PRIVATE = range(FIRST_PRIVATE_KEY, END_OF_PRIVATE_KEYS)

API_VERSIONS = [
    (api, version)
    for api, found in KNOWN.items()
    for version in range(found.oldest, found.newest + 1)
]


@given(
    api_version=st.sampled_from(API_VERSIONS),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.text(st.characters(codec="utf-8"), max_size=300),
)
def test_request_header_is_kios(
    api_version: tuple[ApiKey, int], correlation_id: int, client_id: str | None
) -> None:
    api, version = api_version
    schema: Any = message_class(api, version, "request").__header_schema__  # type: ignore[attr-defined]
    buffer = io.BytesIO()
    header = schema(
        request_api_key=int(api),
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    entity_writer(schema)(buffer, header)
    encoded = encode_request_header(api, version, correlation_id, client_id)
    assert encoded == buffer.getvalue()
    frame = memoryview(encoded + b"body")
    assert read_request_header(frame) == (
        RequestHeader(api, version, correlation_id, client_id),
        len(encoded),
    )


@few_examples
@given(
    tags=st.lists(st.tuples(st.integers(0, 127), st.binary(max_size=9)), max_size=3),
    version=st.sampled_from([9, 13]),
)
def test_tags_in_headers_are_skipped(tags: list[tuple[int, bytes]], version: int) -> None:
    section = bytes([len(tags)])
    for tag, value in tags:
        section += bytes([tag, len(value)]) + value
    plain = encode_request_header(ApiKey.METADATA, version, 1, "c")[:-1]
    header, pos = read_request_header(memoryview(plain + section + b"body"))
    assert header.client_id == "c"
    assert pos == len(plain + section)
    assert read_response_header(ApiKey.METADATA, version, memoryview(b"\0\0\0\7" + section)) == (
        7,
        4 + len(section),
    )


def test_apiversions_response_header_has_no_tags_in_any_version() -> None:
    for version in range(5):
        assert read_response_header(ApiKey.API_VERSIONS, version, memoryview(b"\0\0\0\7\5")) == (
            7,
            4,
        )


def test_unknown_version_of_a_known_api_still_has_a_readable_header() -> None:
    frame = encode_request_header(ApiKey.API_VERSIONS, 99, 5, "new client")
    header, _ = read_request_header(memoryview(frame))
    assert (header.api_version, header.correlation_id) == (99, 5)


@pytest.mark.parametrize("api_key", [-1, 93, 1000, 9_999, 10_100, 32767, -32768])
def test_unknown_api_key_is_refused(api_key: int) -> None:
    frame = api_key.to_bytes(2, "big", signed=True) + bytes(20)
    with pytest.raises(DecodeError, match="unknown API key"):
        read_request_header(memoryview(frame))


def test_every_truncation_is_refused() -> None:
    frame = encode_request_header(ApiKey.METADATA, 12, 1, "client")
    for size in range(len(frame)):
        with pytest.raises(DecodeError):
            read_request_header(memoryview(frame)[:size])
    for size in range(5):
        with pytest.raises(DecodeError):
            read_response_header(ApiKey.METADATA, 12, memoryview(bytes(5))[:size])


@given(st.binary(max_size=60))
def test_random_bytes_are_a_header_or_a_decode_error(data: bytes) -> None:
    try:
        header, pos = read_request_header(memoryview(data))
    except DecodeError:
        return
    assert 10 <= pos <= len(data)
    assert header.api_key in list(ApiKey) or header.api_key in PRIVATE


def test_private_keys_have_a_header_without_tags() -> None:
    frame = PrivateApi.BROKER_UPDATE.to_bytes(2, "big") + b"\0\0\0\0\0\5\0\1x"
    header, pos = read_request_header(memoryview(frame))
    assert (header.api_key, header.correlation_id, header.client_id) == (10_001, 5, "x")
    assert pos == len(frame)
    assert all(api in PRIVATE for api in PrivateApi)


def test_client_id_that_is_not_text_is_refused() -> None:
    frame = b"\x00\x03\x00\x00" + bytes(4) + b"\x00\x02\xff\xfe"
    with pytest.raises(DecodeError):
        read_request_header(memoryview(frame))


def test_client_id_too_long_for_its_length_cannot_be_written() -> None:
    with pytest.raises(EncodeError):
        encode_request_header(ApiKey.METADATA, 12, 1, "x" * 40_000)
