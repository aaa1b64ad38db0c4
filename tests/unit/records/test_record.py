"""The Record class, which behaves the same compiled and plain."""

from __future__ import annotations

import copy
import pickle

import pytest

from moldau.records.record import Record

RECORD = Record(7, 1_700_000_000_000, b"key", None, (("trace", b"\x01"), ("empty", None)))


def test_fields_have_their_names() -> None:
    record = Record(offset=1, timestamp=2, key=b"k", value=b"v", headers=(("h", None),))
    assert (record.offset, record.timestamp, record.key, record.value) == (1, 2, b"k", b"v")
    assert record.headers == (("h", None),)
    assert Record(0, 0, None, None).headers == ()


def test_equality_is_by_content() -> None:
    same = Record(7, 1_700_000_000_000, b"key", None, (("trace", b"\x01"), ("empty", None)))
    assert same == RECORD
    assert hash(same) == hash(RECORD)
    assert RECORD != "record"
    for other in (
        Record(8, RECORD.timestamp, b"key", None, RECORD.headers),
        Record(7, 0, b"key", None, RECORD.headers),
        Record(7, RECORD.timestamp, None, None, RECORD.headers),
        Record(7, RECORD.timestamp, b"key", b"", RECORD.headers),
        Record(7, RECORD.timestamp, b"key", None),
    ):
        assert other != RECORD


def test_a_record_can_be_copied_and_pickled() -> None:
    assert pickle.loads(pickle.dumps(RECORD)) == RECORD
    assert copy.copy(RECORD) == RECORD
    assert copy.deepcopy(RECORD) == RECORD


def test_the_representation_shows_every_field() -> None:
    assert repr(RECORD) == (
        "Record(offset=7, timestamp=1700000000000, key=b'key', value=None, "
        "headers=(('trace', b'\\x01'), ('empty', None)))"
    )


def test_a_record_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        RECORD.partition = 1  # type: ignore[attr-defined]
    assert not hasattr(RECORD, "__dict__")
