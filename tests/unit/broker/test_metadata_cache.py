"""What a broker knows of the cluster, and when cached answers must be dropped."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.metadata_cache import MetadataCache, PartitionMetadata
from moldau.coordination.znodes import BrokerRegistration, Endpoint
from moldau.model import Node

OLD_ID, NEW_ID = UUID(int=1), UUID(int=2)
STATE = PartitionMetadata(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))


def test_topics_are_found_by_name_and_by_id() -> None:
    cache = MetadataCache()
    cache.set_partition("t", OLD_ID, 1, STATE)
    cache.set_partition("t", OLD_ID, 0, STATE)
    topic = cache.topics["t"]
    assert cache.topics_by_id == {OLD_ID: topic}
    assert sorted(topic.partitions) == [0, 1]
    assert cache.has_partition("t", 0)
    assert not cache.has_partition("t", 2)
    assert not cache.has_partition("u", 0)


def test_a_topic_that_came_back_under_another_id_has_nothing_of_the_old_one() -> None:
    cache = MetadataCache()
    cache.set_partition("t", OLD_ID, 0, STATE)
    cache.set_partition("t", OLD_ID, 1, STATE)
    cache.set_partition("t", NEW_ID, 0, STATE)
    assert list(cache.topics_by_id) == [NEW_ID], "requests by the old id must not find the new one"
    assert list(cache.topics["t"].partitions) == [0]


def test_a_removed_topic_is_gone_under_both_keys() -> None:
    cache = MetadataCache()
    cache.set_partition("t", OLD_ID, 0, STATE)
    cache.remove_topic("t")
    cache.remove_topic("never was")
    assert (cache.topics, cache.topics_by_id) == ({}, {})


def test_every_change_raises_the_version_and_nothing_else_does() -> None:
    cache = MetadataCache()
    versions = [cache.version]

    def note() -> None:
        versions.append(cache.version)

    cache.set_controller(1)
    note()
    cache.set_brokers([])
    note()
    cache.set_partition("t", OLD_ID, 0, STATE)
    note()
    cache.set_partition("t", OLD_ID, 0, STATE._replace(leader_epoch=1))
    note()
    cache.remove_topic("t")
    note()
    assert versions == sorted(set(versions))
    cache.set_controller(1)
    cache.remove_topic("t")
    assert cache.version == versions[-1]


def test_nodes_are_the_brokers_of_the_listener_in_the_order_of_their_ids() -> None:
    cache = MetadataCache()
    cache.set_brokers(
        [
            BrokerRegistration(
                2, (Endpoint("IN", "two.in", 2), Endpoint("OUT", "two.out", 22)), rack="r2"
            ),
            BrokerRegistration(1, (Endpoint("IN", "one.in", 1),)),
        ]
    )
    assert cache.nodes("IN") == [Node(1, "one.in", 1, None), Node(2, "two.in", 2, "r2")]
    assert cache.nodes("OUT") == [Node(2, "two.out", 22, "r2")]
    assert cache.nodes("NONE") == []


def test_internal_topics_are_known_by_their_names() -> None:
    cache = MetadataCache()
    for name in ("__consumer_offsets", "__mine"):
        cache.set_partition(name, UUID(int=len(name)), 0, STATE)
    assert cache.topics["__consumer_offsets"].is_internal
    assert not cache.topics["__mine"].is_internal


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["set", "remove"]),
            st.sampled_from("ab"),
            st.integers(1, 4),
            st.integers(0, 2),
        ),
        max_size=30,
    )
)
def test_both_indexes_always_agree(events: list[tuple[str, str, int, int]]) -> None:
    cache = MetadataCache()
    for kind, name, number, partition in events:
        if kind == "set":
            # An id belongs to one topic for ever.
            cache.set_partition(name, UUID(f"{name * 8}{number:024x}"), partition, STATE)
        else:
            cache.remove_topic(name)
        assert {t.topic_id: t for t in cache.topics.values()} == cache.topics_by_id
        assert all(name == topic.name for name, topic in cache.topics.items())
