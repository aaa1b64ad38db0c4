"""Messages declared once for all their versions, read and written like those of kio.

The annotations are read at run time, so this module does not postpone them.
"""

import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.wire.data_messages import (
    decode,
    decode_prefixed,
    encode,
    encode_prefixed,
    read_prefix,
)
from moldau.wire.declaring import INT16, INT32, STRING, UUID, absent, newest_declared, since, tagged
from moldau.wire.errors import DecodeError, EncodeError
from moldau.wire.stored import group_records, metadata_records, transaction_records


@dataclass(frozen=True, slots=True)
class Part:
    number: int = field(metadata=INT16)
    note: str = field(metadata=STRING | since(1), default="none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    NEWEST: ClassVar = 2
    FLEXIBLE: ClassVar = 2

    name: str = field(metadata=STRING)
    brief: int = field(metadata=INT32 | since(1, until=1), default=-1)
    parts: tuple[Part, ...] = ()
    always: uuid.UUID = field(metadata=UUID | since(1), default=uuid.UUID(int=7))
    perhaps: uuid.UUID | None = field(metadata=UUID | since(1), default=None)
    extra: Part | None = field(metadata=tagged(3, since=2) | absent(Part(9)), default=None)


WHOLE = Whole(name="n", brief=5, parts=(Part(1, "x"),), always=uuid.UUID(int=0), extra=Part(2))
SHAPES = [
    shape
    for module in (group_records, metadata_records, transaction_records)
    for name, shape in sorted(vars(module).items())
    if isinstance(shape, type) and name.endswith(("Key", "Value", "Record"))
]


def test_each_version_has_its_fields_and_the_others_keep_their_defaults() -> None:
    decoded = [decode(Whole, version, encode(WHOLE, version)) for version in range(3)]
    assert decoded[0] == Whole(name="n", parts=(Part(1),), extra=decoded[0].extra)
    assert (decoded[1].brief, decoded[1].parts) == (5, (Part(1, "x"),))
    assert (decoded[2].brief, decoded[2].extra) == (-1, Part(2))


def test_a_zero_id_is_none_only_where_it_may_be() -> None:
    decoded = decode(Whole, 1, encode(WHOLE, 1))
    assert (decoded.always, decoded.perhaps) == (uuid.UUID(int=0), None)


def test_a_tagged_structure_may_be_null_present_or_left_out() -> None:
    end = {
        None: b"\x01\x03\x01\x00",
        Part(2): b"\x01\x03\x09\x01\x00\x02\x05none\x00",
        Part(9): b"\x00",
    }
    for extra, expected in end.items():
        whole = Whole(name="n", extra=extra)
        encoded = encode(whole, 2)
        assert encoded.endswith(bytes(16) + expected), extra
        assert decode(Whole, 2, encoded) == whole


@pytest.mark.parametrize("version", [-1, 3])
def test_a_version_that_is_not_known_is_refused(version: int) -> None:
    with pytest.raises(DecodeError, match=f"Whole version {version}: versions 0 to 2 can be read"):
        decode(Whole, version, b"")


def test_a_prefix_is_the_version_or_something_else() -> None:
    assert decode_prefixed(Part, encode_prefixed(0, Part(4), 0)) == Part(4)
    other = encode_prefixed(77, Part(4), 0)
    assert (read_prefix(other), decode_prefixed(Part, other, 0)) == (77, Part(4))
    with pytest.raises(DecodeError, match="1 bytes are no message"):
        read_prefix(b"\0")


@pytest.mark.parametrize("part", [Part(2**15), Part("x"), Part(None)])  # type: ignore[arg-type]
def test_what_does_not_fit_is_refused(part: Part) -> None:
    with pytest.raises(EncodeError, match="Part version 0"):
        encode(part, 0)


@given(st.sampled_from(SHAPES), st.integers(0, 4), st.binary(max_size=80))
def test_any_bytes_are_a_record_or_refused(shape: type, version: int, data: bytes) -> None:
    if version <= newest_declared(shape):
        with suppress(DecodeError):
            assert isinstance(decode(shape, version, data), shape)
