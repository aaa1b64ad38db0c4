"""Subscriptions and assignments of classic consumers, written by aiokafka and read here."""

from __future__ import annotations

from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.admin.group_protocol import read_assignment, read_subscription
from moldau.model import TopicPartition

topics = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
assignments = st.dictionaries(topics, st.sets(st.integers(0, 2**31 - 1), max_size=5), max_size=5)


@given(st.lists(topics, max_size=5), st.binary(max_size=20))
def test_a_subscription_names_its_topics(names: list[str], user_data: bytes) -> None:
    written = ConsumerProtocolMemberMetadata(3, names, user_data).encode()
    assert read_subscription(written) == tuple(names)


@given(assignments, st.binary(max_size=20))
def test_an_assignment_names_its_partitions(wanted: dict[str, set[int]], user_data: bytes) -> None:
    rows = [(topic, sorted(numbers)) for topic, numbers in wanted.items()]
    written = ConsumerProtocolMemberAssignment(0, rows, user_data).encode()
    expected = {TopicPartition(topic, number) for topic, numbers in rows for number in numbers}
    assert set(read_assignment(written)) == expected
    assert list(read_assignment(written)) == sorted(expected)


@given(st.binary(max_size=60))
def test_bytes_of_somebody_else_mean_nothing(data: bytes) -> None:
    read_subscription(data)
    read_assignment(data)
    assert read_assignment(b"") == ()
    assert read_subscription(b"\x00\x00\x00\x00\x00\x09\x00\x05ab") == ()
