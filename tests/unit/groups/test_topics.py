"""The small view of topics for tests and tools."""

from __future__ import annotations

from moldau.groups.topics import FixedTopics


def test_a_topic_created_again_is_another_topic() -> None:
    topics = FixedTopics({"t": 1})
    first = topics.topic_id("t")
    assert first is not None
    assert topics.set("t", 4) == first
    assert (topics.partitions("t"), topics.name(first)) == (4, "t")
    topics.remove("t")
    assert (topics.partitions("t"), topics.name(first), topics.topic_id("t")) == (None,) * 3
    assert topics.set("t", 1) != first
    assert list(topics.names()) == ["t"]
