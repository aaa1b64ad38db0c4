"""Subscriptions and assignments as members send them to each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer.assignors.base import MemberSubscription
from moldau.client.consumer.assignors.protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from moldau.errors import KafkaError
from moldau.model import TopicPartition

names = st.text(st.characters(codec="utf-8"), max_size=20)
partitions = st.lists(st.builds(TopicPartition, names, st.integers(0, 2**31 - 1)), unique=True).map(
    lambda found: tuple(sorted(found))
)
subscriptions = st.builds(
    MemberSubscription,
    topics=st.lists(names).map(lambda found: tuple(sorted(found))),
    owned=partitions,
    generation=st.integers(-1, 2**31 - 1),
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
    found = decode_subscription(encode_subscription(member, version))
    assert (found.topics, found.user_data) == (member.topics, member.user_data)
    assert found.owned == (member.owned if version >= 1 else ())
    assert found.generation == (member.generation if version >= 2 else -1)
    assert found.rack is None


def test_a_member_may_leave_out_what_its_version_added() -> None:
    newest = bytearray(encode_subscription(MemberSubscription(("t",)), 0))
    newest[1] = 3
    assert decode_subscription(bytes(newest)) == MemberSubscription(("t",))


@given(partitions, st.none() | st.binary())
def test_an_assignment_comes_back_as_it_went(
    mine: tuple[TopicPartition, ...], user_data: bytes | None
) -> None:
    found = decode_assignment(encode_assignment(mine, user_data))
    assert (tuple(sorted(found.partitions)), found.user_data) == (mine, user_data)


def test_the_bytes_are_kafkas() -> None:
    member = MemberSubscription(
        ("t",), owned=(TopicPartition("t", 1),), generation=7, rack="r", user_data=b"u"
    )
    assert encode_subscription(member).hex(" ") == (
        "00 03 "  # version
        "00 00 00 01 00 01 74 "  # topics
        "00 00 00 01 75 "  # user data
        "00 00 00 01 00 01 74 00 00 00 01 00 00 00 01 "  # owned partitions
        "00 00 00 07 "  # generation
        "00 01 72"  # rack
    )
    assert decode_assignment(b"").partitions == ()


@given(st.binary(max_size=60))
def test_bytes_of_strangers_are_refused_or_read_and_nothing_else(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except KafkaError:
            pass
        except UnicodeDecodeError:
            pytest.fail("a name that is no text is malformed, too")
