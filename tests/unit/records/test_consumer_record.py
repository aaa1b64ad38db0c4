"""The record that consumers hand out."""

from __future__ import annotations

import pickle

from moldau.records.consumer_record import ConsumerRecord

RECORD = ConsumerRecord("t", 3, 7, 1234, 1, b"k", {"a": 1}, (("h", b"x"),), 5)


def test_equal_records_are_equal_also_after_a_journey() -> None:
    same = ConsumerRecord("t", 3, 7, 1234, 1, b"k", {"a": 1}, (("h", b"x"),), 5)
    assert same == RECORD
    assert hash(same) == hash(RECORD)
    assert pickle.loads(pickle.dumps(RECORD)) == RECORD
    assert ConsumerRecord("t", 3, 8) != ConsumerRecord("t", 3, 7)
    assert RECORD != "a record"


def test_a_record_shows_what_it_holds() -> None:
    shown = repr(RECORD)
    assert shown.startswith("ConsumerRecord(topic='t', partition=3, offset=7, timestamp=1234")
    assert "value={'a': 1}" in shown


def test_defaults_are_those_of_a_record_without_anything() -> None:
    bare = ConsumerRecord("t", 0, 0)
    assert (bare.key, bare.value, bare.headers) == (None, None, ())
    assert (bare.timestamp, bare.timestamp_type, bare.leader_epoch) == (-1, 0, -1)
