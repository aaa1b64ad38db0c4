"""Variable-length integers."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from tests.unit.records.strategies import INT32, INT64, moderate

from moldau.records.errors import InvalidRecordError
from moldau.records.varint import (
    INT32_BYTES,
    INT64_BYTES,
    encode_varint,
    finish_varint,
    read_varint,
)


def reference(value: int) -> bytes:
    zigzag = value * 2 if value >= 0 else -value * 2 - 1
    encoded = bytearray()
    while zigzag >= 128:
        encoded.append(zigzag % 128 + 128)
        zigzag //= 128
    encoded.append(zigzag)
    return bytes(encoded)


def test_examples() -> None:
    assert encode_varint(0) == b"\x00"
    assert encode_varint(-1) == b"\x01"
    assert encode_varint(63) == b"\x7e"
    assert encode_varint(-64) == b"\x7f"
    assert encode_varint(64) == b"\x80\x01"
    assert encode_varint(8191) == b"\xfe\x7f"
    assert encode_varint(2**63 - 1) == b"\xfe" + b"\xff" * 8 + b"\x01"
    assert encode_varint(-(2**63)) == b"\xff" * 9 + b"\x01"


@moderate
@given(INT64)
@example(2**63 - 1)
@example(-(2**63))
@example(511)
@example(512)
def test_a_number_comes_back_from_its_encoding(value: int) -> None:
    encoded = encode_varint(value)
    assert encoded == reference(value)
    assert read_varint(b"?" + encoded + b"?", 1, INT64_BYTES) == (value, 1 + len(encoded))


@moderate
@given(INT32)
def test_32_bits_never_need_more_than_five_bytes(value: int) -> None:
    encoded = encode_varint(value)
    assert len(encoded) <= INT32_BYTES
    assert read_varint(encoded, 0, INT32_BYTES) == (value, len(encoded))


def test_every_number_around_a_change_of_length_is_right() -> None:
    for power in range(63):
        for value in (2**power - 1, 2**power, -(2**power), -(2**power) - 1):
            encoded = encode_varint(value)
            assert encoded == reference(value)
            assert read_varint(encoded, 0, INT64_BYTES) == (value, len(encoded))


def test_padding_is_read_as_java_does() -> None:
    assert read_varint(b"\x82\x80\x80\x80\x00", 0, INT32_BYTES) == (1, 5)


@pytest.mark.parametrize("encoded", [b"\x80" * 5 + b"\x00", b"\xff" * 5 + b"\x01"])
def test_more_than_five_bytes_are_too_long_for_32_bits(encoded: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        read_varint(encoded, 0, INT32_BYTES)


@pytest.mark.parametrize("encoded", [b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x00", b"\xff" * 11])
def test_more_than_64_bits_are_refused(encoded: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        read_varint(encoded, 0, INT64_BYTES)


@pytest.mark.parametrize("encoded", [b"", b"\x80", b"\x80\x80"])
def test_a_number_cut_off_is_an_index_error_for_the_caller_to_explain(encoded: bytes) -> None:
    with pytest.raises(IndexError):
        read_varint(encoded, 0, INT64_BYTES)


def test_a_number_is_finished_from_its_second_byte() -> None:
    encoded = encode_varint(-123_456)
    assert finish_varint(encoded, 1, encoded[0], INT32_BYTES) == (-123_456, len(encoded))
