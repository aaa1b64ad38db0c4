"""Records that say who sent them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.model import TopicPartition
from moldau.testing.simulation.checker.history import RecordId
from moldau.testing.simulation.load.values import decode, encode

PARTITION = TopicPartition("orders", 3)
RECORD = RecordId("producer-1.2", 42)


@given(st.integers(0, 10**9), st.integers(0, 200), st.integers(0, 300))
def test_a_value_tells_who_sent_it(number: int, partition: int, padding: int) -> None:
    record, place = RecordId("producer-0.1", number), TopicPartition("a.b", partition)
    assert decode(encode(record, place, padding), place) == record


def test_values_are_as_long_as_wanted() -> None:
    assert len(encode(RECORD, PARTITION, 100)) == len(encode(RECORD, PARTITION, 0)) + 100


@given(st.data())
def test_a_value_that_was_damaged_is_nobodys(data: st.DataObject) -> None:
    value = bytearray(encode(RECORD, PARTITION, 20))
    position = data.draw(st.integers(0, len(value) - 1))
    value[position] ^= data.draw(st.integers(1, 255))
    assert decode(bytes(value), PARTITION) is None


@pytest.mark.parametrize("size", range(30))
def test_half_a_value_is_nobodys(size: int) -> None:
    assert decode(encode(RECORD, PARTITION, 5)[:size], PARTITION) is None


@pytest.mark.parametrize("other", [TopicPartition("orders", 2), TopicPartition("extra", 3)])
def test_a_value_in_the_wrong_place_is_nobodys(other: TopicPartition) -> None:
    assert decode(encode(RECORD, PARTITION, 5), other) is None


@pytest.mark.parametrize("value", [None, b"", b" ", b"00000000 ", b"hello world"])
def test_anything_else_is_nobodys(value: bytes | None) -> None:
    assert decode(value, PARTITION) is None
