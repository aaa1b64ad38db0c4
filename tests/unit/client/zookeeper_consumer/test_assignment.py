"""The old rule: N = ceil(partitions / consumers), in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.zookeeper_consumer.assignment import assign, stream_ids
from moldau.client.zookeeper_consumer.nodes import decode_registration, encode_registration
from moldau.coordination.errors import StoreCorruptError
from moldau.model import TopicPartition

NAMES = st.text("abcdef", min_size=1, max_size=4)
SUBSCRIPTIONS = st.dictionaries(
    NAMES, st.dictionaries(st.sampled_from(["t", "u"]), st.integers(1, 3)), max_size=6
)
PARTITIONS = st.fixed_dictionaries(
    {"t": st.sets(st.integers(0, 30)), "u": st.sets(st.integers(0, 5))}
)


def shares(partitions: int, *consumers: str) -> list[list[int]]:
    subscriptions = {consumer: {"t": 1} for consumer in consumers}
    return [
        [one.partition for one in assign(consumer, subscriptions, {"t": range(partitions)})]
        for consumer in consumers
    ]


def test_the_last_consumers_get_less_or_nothing() -> None:
    assert shares(10, "a", "b", "c") == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert shares(4, "a", "b", "c") == [[0, 1], [2, 3], []]
    assert shares(2, "c", "b", "a") == [[], [1], [0]]
    assert shares(0, "a") == [[]]


def test_streams_of_one_consumer_count_like_consumers() -> None:
    subscriptions = {"one": {"t": 2}, "two": {"t": 1}}
    mine = assign("one", subscriptions, {"t": range(6)})
    assert mine == {TopicPartition("t", n): f"one-{n // 2}" for n in range(4)}
    assert set(assign("two", subscriptions, {"t": range(6)}).values()) == {"two-0"}


def test_only_those_who_read_a_topic_share_it() -> None:
    subscriptions = {"a": {"t": 1}, "b": {"t": 1, "u": 1}}
    assert assign("b", subscriptions, {"t": [0], "u": [0, 1]}).keys() == {
        TopicPartition("u", 0),
        TopicPartition("u", 1),
    }
    assert assign("nobody", subscriptions, {"t": [0]}) == {}
    assert assign("a", subscriptions, {}) == {}


@given(SUBSCRIPTIONS, PARTITIONS)
def test_every_partition_has_one_owner_and_no_stream_more_than_its_share(
    subscriptions: dict[str, dict[str, int]], partitions: dict[str, set[int]]
) -> None:
    owned = [assign(consumer, subscriptions, partitions) for consumer in subscriptions]
    together = [partition for share in owned for partition in share]
    assert len(together) == len(set(together))
    for topic, numbers in partitions.items():
        streams = [
            stream
            for consumer, topics in subscriptions.items()
            for stream in stream_ids(consumer, topics.get(topic, 0))
        ]
        found = {one.partition for one in together if one.topic == topic}
        assert found == (numbers if streams else set())
        if streams:
            most = -(-len(numbers) // len(streams))
            for stream in streams:
                taken = [
                    one
                    for share in owned
                    for one, by in share.items()
                    if (one.topic, by) == (topic, stream)
                ]
                assert len(taken) <= most


NO_TEXT = encode_registration({"t": 1}, 0).replace(b'"t"', b'"\xff"')


@pytest.mark.parametrize("data", [b"", b"{", b"[]", NO_TEXT])
def test_a_registration_that_nobody_can_read_is_named(data: bytes) -> None:
    with pytest.raises(StoreCorruptError, match="consumer c1 is registered illegibly"):
        decode_registration("c1", data)
