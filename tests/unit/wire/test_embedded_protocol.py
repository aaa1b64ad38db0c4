"""The embedded protocol of classic consumers, beside kio's reading and writing of it."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from moldau.wire.embedded_protocol import (
    NEWEST,
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    protocol_version,
    subscribed_topics,
)
from moldau.wire.errors import DecodeError
from moldau.wire.make import make

SUBSCRIPTIONS: list[Any] = [
    import_module(f"kio.schema.consumer_protocol_subscription.v{version}.data")
    for version in range(NEWEST + 1)
]
ASSIGNMENTS: list[Any] = [
    import_module(f"kio.schema.consumer_protocol_assignment.v{version}.data")
    for version in range(NEWEST + 1)
]

names = st.text(st.characters(codec="utf-8"), max_size=8)
int32 = st.integers(-(2**31), 2**31 - 1)
numbers = st.lists(int32, max_size=4).map(tuple)
user_data = st.none() | st.binary(max_size=5)
subscriptions = st.builds(
    ConsumerProtocolSubscription,
    topics=st.lists(names, max_size=3).map(tuple),
    user_data=user_data,
    owned_partitions=st.lists(
        st.builds(OwnedPartitions, topic=names, partitions=numbers), max_size=3
    ).map(tuple),
    generation_id=int32,
    rack_id=st.none() | names,
)
assignments = st.builds(
    ConsumerProtocolAssignment,
    assigned_partitions=st.lists(
        st.builds(AssignedPartitions, topic=names, partitions=numbers), max_size=3
    ).map(tuple),
    user_data=user_data,
)


def kio_bytes(version: int, message: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return version.to_bytes(2, "big") + out.getvalue()


@given(st.integers(0, NEWEST), subscriptions)
def test_subscriptions_of_all_versions_are_written_and_read_as_by_kio(
    version: int, subscription: ConsumerProtocolSubscription
) -> None:
    kind = SUBSCRIPTIONS[version]
    later: dict[str, Any] = {}
    if version >= 1:
        later["owned_partitions"] = tuple(
            kind.TopicPartition(topic=owned.topic, partitions=owned.partitions)
            for owned in subscription.owned_partitions
        )
    if version >= 2:
        later["generation_id"] = subscription.generation_id
    if version >= 3:
        later["rack_id"] = subscription.rack_id
    theirs = kind.ConsumerProtocolSubscription(
        topics=subscription.topics, user_data=subscription.user_data, **later
    )
    data = encode_subscription(subscription, version)
    assert data == kio_bytes(version, theirs)
    decoded = decode_subscription(data)
    assert (decoded.topics, decoded.user_data) == (subscription.topics, subscription.user_data)
    assert decoded.owned_partitions == (subscription.owned_partitions if version >= 1 else ())
    assert decoded.generation_id == (subscription.generation_id if version >= 2 else -1)
    assert decoded.rack_id == (subscription.rack_id if version >= 3 else None)
    assert subscribed_topics(data) == subscription.topics


@given(subscriptions, st.integers(NEWEST + 1, 2**15 - 1))
def test_a_version_of_the_future_is_read_without_what_it_adds(
    subscription: ConsumerProtocolSubscription, version: int
) -> None:
    data = version.to_bytes(2, "big") + encode_subscription(subscription)[2:] + b"more"
    assert decode_subscription(data) == subscription


@given(st.integers(0, 9), assignments)
def test_an_assignment_is_written_for_the_version_of_its_reader(
    version: int, assignment: ConsumerProtocolAssignment
) -> None:
    data = encode_assignment(assignment, version)
    spoken = min(version, NEWEST)
    assert protocol_version(data) == spoken
    kind = ASSIGNMENTS[spoken]
    theirs, _ = entity_reader(kind.ConsumerProtocolAssignment)(data, 2)
    assert kio_bytes(spoken, theirs) == data
    assert decode_assignment(data) == assignment


def test_no_bytes_are_no_partitions() -> None:
    assert decode_assignment(b"") == ConsumerProtocolAssignment(assigned_partitions=())


def test_the_bytes_are_kafkas() -> None:
    subscription = make(
        ConsumerProtocolSubscription,
        topics=("t",),
        user_data=b"u",
        owned_partitions=(make(OwnedPartitions, topic="t", partitions=(1,)),),
        generation_id=7,
        rack_id="r",
    )
    assert encode_subscription(subscription).hex(" ") == (
        "00 03 "  # version
        "00 00 00 01 00 01 74 "  # topics
        "00 00 00 01 75 "  # user data
        "00 00 00 01 00 01 74 00 00 00 01 00 00 00 01 "  # owned partitions
        "00 00 00 07 "  # generation
        "00 01 72"  # rack
    )


@given(st.integers(0, NEWEST), subscriptions, assignments)
def test_what_is_cut_off_is_refused(
    version: int,
    subscription: ConsumerProtocolSubscription,
    assignment: ConsumerProtocolAssignment,
) -> None:
    data = encode_subscription(subscription, version)
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode_subscription(data[:end])
    data = encode_assignment(assignment, version)
    for end in range(1, len(data)):
        with pytest.raises(DecodeError):
            decode_assignment(data[:end])


def test_topics_are_known_even_if_a_client_leaves_out_what_its_version_added() -> None:
    data = bytearray(
        encode_subscription(
            ConsumerProtocolSubscription(topics=("a", "b"), owned_partitions=()), version=0
        )
    )
    data[1] = NEWEST
    assert subscribed_topics(bytes(data)) == ("a", "b")
    with pytest.raises(DecodeError):
        decode_subscription(bytes(data))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    subscribed_topics(data)
    for read in (decode_subscription, decode_assignment, protocol_version):
        try:
            read(data)
        except DecodeError:
            continue


@pytest.mark.parametrize("data", [b"\xff\xff", b"\0", b"\0\0\0\0\0\x09"])
def test_what_is_no_subscription_is_refused(data: bytes) -> None:
    assert subscribed_topics(data) is None
    with pytest.raises(DecodeError):
        decode_subscription(data)
