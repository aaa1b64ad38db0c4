"""Subscriptions, assignments and user data as members send them to each other."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer.assignors.base import NO_GENERATION, MemberSubscription
from moldau.client.consumer.assignors.embedded import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from moldau.client.consumer.assignors.user_data import CooperativeStickyUserData, StickyUserData
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition

names = st.text(st.characters(codec="utf-8"), max_size=20)
partitions = st.lists(st.builds(TopicPartition, names, st.integers(0, 2**31 - 1)), unique=True).map(
    lambda some: tuple(sorted(some))
)
generations = st.integers(-1, 2**31 - 1)
subscriptions = st.builds(
    MemberSubscription,
    topics=st.lists(names).map(lambda some: tuple(sorted(some))),
    owned=partitions,
    generation=generations,
    rack=st.none() | names,
    user_data=st.none() | st.binary(),
)


@given(subscriptions)
def test_a_subscription_comes_back_as_it_went(member: MemberSubscription) -> None:
    assert decode_subscription(encode_subscription(member)) == member


@given(subscriptions, st.integers(0, 2))
def test_older_versions_leave_out_what_they_do_not_know(
    member: MemberSubscription, version: int
) -> None:
    decoded = decode_subscription(encode_subscription(member, version), "instance")
    assert decoded.instance_id == "instance"
    assert (decoded.topics, decoded.user_data) == (member.topics, member.user_data)
    assert decoded.owned == (member.owned if version >= 1 else ())
    assert decoded.generation == (member.generation if version >= 2 else NO_GENERATION)
    assert decoded.rack is None


@given(partitions)
def test_an_assignment_comes_back_as_it_went(mine: tuple[TopicPartition, ...]) -> None:
    assert decode_assignment(encode_assignment(mine)) == mine


def test_a_leader_may_leave_a_member_out() -> None:
    assert decode_assignment(b"") == ()


@given(st.binary(max_size=60))
def test_bytes_of_strangers_are_refused_or_read_and_nothing_else(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        with suppress(KafkaError):
            decode(data)


@pytest.mark.parametrize("data", [b"\0", b"\0\0\0\0\0\x09"])
def test_a_message_says_what_cannot_be_read(data: bytes) -> None:
    with pytest.raises(KafkaError, match="A member's subscription cannot be read") as refused:
        decode_subscription(data)
    assert refused.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@given(partitions, generations)
def test_the_user_data_of_sticky_members_comes_back_as_it_went(
    owned: tuple[TopicPartition, ...], generation: int
) -> None:
    sent = StickyUserData.of(owned, generation)
    told = StickyUserData.decode(sent.encode())
    assert (told.partitions, told.generation) == (owned, generation)
    first_version = StickyUserData.decode(sent.encode()[:-4])
    assert (first_version.partitions, first_version.generation) == (owned, NO_GENERATION)
    assert CooperativeStickyUserData.decode(
        CooperativeStickyUserData(generation).encode()
    ) == CooperativeStickyUserData(generation)


@given(st.none() | st.binary(max_size=40))
def test_user_data_of_strangers_says_nothing_or_something(data: bytes | None) -> None:
    assert isinstance(StickyUserData.decode(data), StickyUserData)
    assert isinstance(CooperativeStickyUserData.decode(data), CooperativeStickyUserData)


def test_the_user_data_is_kafkas() -> None:
    owned = [TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("a", 0)]
    assert StickyUserData.of(owned, 7).encode().hex(" ") == (
        "00 00 00 02 "
        "00 01 61 00 00 00 02 00 00 00 02 00 00 00 00 "
        "00 01 62 00 00 00 01 00 00 00 01 "
        "00 00 00 07"
    )
    assert CooperativeStickyUserData(7).encode() == b"\0\0\0\x07"
    assert StickyUserData.decode(None) == StickyUserData(())
    assert CooperativeStickyUserData.decode(b"\0") == CooperativeStickyUserData(NO_GENERATION)
