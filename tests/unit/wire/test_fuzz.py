"""Garbage in: a message or a DecodeError, and never more memory than the bytes are worth."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.kio_strategies import few_examples

from moldau.wire.api import KNOWN, SERVED, ApiKey
from moldau.wire.encoding import writer
from moldau.wire.errors import DecodeError
from moldau.wire.fetch import decode_fetch_request, decode_fetch_response
from moldau.wire.messages import decode_request, decode_response
from moldau.wire.primitives import MAX_ELEMENTS, uvarint
from moldau.wire.produce import decode_produce_request, decode_produce_response
from moldau.wire.schema import FieldSpec, fields_of, message_class

# Bytes that mean something in the protocol: lengths just off, huge ones, nulls, bad UTF-8.
TOKENS = st.sampled_from(
    [
        b"\x00",
        b"\x01",
        b"\x02",
        b"\x7f",
        b"\x80",
        b"\xff",
        b"\x00\x01",
        b"\xff\xff",
        b"\x7f\xff",
        b"\x00\x00\x00\x01",
        b"\x7f\xff\xff\xff",
        b"\x80\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\x7f",
        b"\x80\x80\x80\x80\x01",
        b"\x80\x80\x80\x80\x80\x80",
        b"\xff" * 10,
        b"topic",
        b"\xc3\x28",
        bytes(16),
    ]
)
HOSTILE = st.lists(TOKENS | st.binary(max_size=4), max_size=30).map(b"".join)

Decoder = Callable[[bytes], Any]


def request_decoder(api: ApiKey, version: int) -> Decoder:
    if api == ApiKey.PRODUCE:
        return lambda body: decode_produce_request(version, memoryview(body), 0)
    if api == ApiKey.FETCH:
        return lambda body: decode_fetch_request(version, memoryview(body), 0)
    return lambda body: decode_request(api, version, body, 0)


def response_decoder(api: ApiKey, version: int) -> Decoder:
    if api == ApiKey.PRODUCE:
        return lambda body: decode_produce_response(version, body)
    if api == ApiKey.FETCH:
        return lambda body: decode_fetch_response(version, body)
    return lambda body: decode_response(api, version, body)


def only_decode_errors(decode: Decoder, body: bytes) -> None:
    with suppress(DecodeError):
        decode(body)


def filled(cls: type) -> Any:
    """A message with one element in each array and something in each string."""
    return cls(**{spec.name: _filled_field(spec) for spec in fields_of(cls)})


def _filled_field(spec: FieldSpec) -> Any:
    simple: dict[str, Any] = {"string": "text", "bytes": b"bytes", "records": b"bytes"}
    if spec.entity is not None:
        value = filled(spec.entity)
    elif spec.kind == "uuid":
        value = UUID(int=1)
    else:
        value = simple.get(spec.kind, 1)
    return (value,) if spec.is_array else value


@cache
def valid_bytes(api: ApiKey, version: int, direction: Any) -> bytes:
    cls = message_class(api, version, direction)
    out = bytearray() if direction == "request" else bytearray(4)
    if direction == "response" and cls.__header_schema__.__version__ == 1:  # type: ignore[attr-defined]
        out.append(0)
    writer(cls, cls)(out, filled(cls))
    return bytes(out)


def versions(api: ApiKey) -> range:
    return range(KNOWN[api].oldest, KNOWN[api].newest + 1)


@pytest.mark.parametrize("api", SERVED)
@few_examples
@given(body=HOSTILE)
def test_hostile_bytes(api: ApiKey, body: bytes) -> None:
    for version in versions(api):
        only_decode_errors(request_decoder(api, version), body)
        only_decode_errors(response_decoder(api, version), body)


@pytest.mark.parametrize("api", SERVED)
def test_every_truncation_of_a_valid_request_is_refused(api: ApiKey) -> None:
    for version in versions(api):
        body = valid_bytes(api, version, "request")
        decode = request_decoder(api, version)
        decode(body)
        for size in range(len(body)):
            with pytest.raises(DecodeError):
                decode(body[:size])


@pytest.mark.parametrize("direction", ["request", "response"])
def test_mutated_messages(direction: Any) -> None:
    dice = random.Random(direction)
    decoder = request_decoder if direction == "request" else response_decoder
    for api in KNOWN:
        for version in versions(api):
            valid = valid_bytes(api, version, direction)
            decode = decoder(api, version)
            for _ in range(50 if api in SERVED else 10):
                body = bytearray(valid)
                for _ in range(dice.randint(1, 3)):
                    mutate(body, dice)
                only_decode_errors(decode, bytes(body))


def mutate(body: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(body) + 1)
    match dice.randrange(5):
        case 0:
            body[at : at + 1] = dice.randbytes(1)
        case 1:
            body[at : at + 4] = b"\x7f\xff\xff\xff"
        case 2:
            body[at : at + 1] = b"\xff\xff\xff\xff\x0f"
        case 3:
            del body[at : at + dice.randint(1, 8)]
        case _:
            body[at:at] = dice.randbytes(dice.randint(1, 8))


@pytest.mark.parametrize("api", SERVED)
def test_absurd_lengths_take_no_memory(api: ApiKey) -> None:
    """Each position of a valid request overwritten with lengths of billions."""
    for version in versions(api):
        decode = request_decoder(api, version)
        valid = valid_bytes(api, version, "request")
        bodies = [
            valid[:at] + length + valid[at + 4 :]
            for at in range(len(valid))
            for length in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07")
        ]
        only_decode_errors(decode, valid)
        tracemalloc.start()
        try:
            for body in bodies:
                only_decode_errors(decode, body)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 1_000_000


def test_more_elements_than_any_request_has_are_refused() -> None:
    count = MAX_ELEMENTS + 1
    names = b"\x00\x00\x00\x00"[:2] * count  # empty topic names
    with pytest.raises(DecodeError, match="sane"):
        decode_request(ApiKey.METADATA, 1, count.to_bytes(4, "big") + names, 0)
    flexible = b"\x00" + bytes(6) + uvarint(count + 1) + b"\x01\x01\x00" * count
    with pytest.raises(DecodeError, match="sane"):
        decode_produce_request(9, memoryview(flexible), 0)
    partitions = b"\x02\x02t" + uvarint(count + 1) + (bytes(32) + b"\x00") * count + b"\x00"
    with pytest.raises(DecodeError, match="sane"):
        decode_fetch_request(12, memoryview(bytes(25) + partitions), 0)


def test_elements_of_all_arrays_count_together() -> None:
    half = MAX_ELEMENTS // 2 + 1
    partitions = (bytes(4) + b"\x00\x00") * half
    topic = b"\x02t" + uvarint(half + 1) + partitions + b"\x00"
    body = b"\x00" + bytes(6) + b"\x03" + topic * 2 + b"\x00"
    with pytest.raises(DecodeError, match="sane"):
        decode_produce_request(9, memoryview(body), 0)
