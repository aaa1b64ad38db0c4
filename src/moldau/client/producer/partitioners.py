"""Choosing partitions by rules other than the built-in ones.

By default a record with a key goes to ``murmur2(key) mod partitions``, as with the Java client, and
records without one stick to a partition for a batch (see ``queue.py``). ``partitioner.class`` puts
another rule in its place; an explicit partition always wins.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import Any, Final, Protocol, runtime_checkable

from moldau.client.metadata import TopicInfo
from moldau.client.plugins import load_plugin
from moldau.client.producer.record import ProducerRecord
from moldau.config.option import invalid_value


@runtime_checkable
class Partitioner(Protocol):
    """Called in the sending thread, maybe in several at a time."""

    def partition(
        self, record: ProducerRecord, key: bytes | None, value: bytes | None, topic: TopicInfo
    ) -> int:
        """The partition for a record with this serialized key and value."""
        ...


class RoundRobinPartitioner:
    """Each record to the next partition that has a leader, whatever its key."""

    def __init__(self) -> None:
        self._turns: defaultdict[str, count[int]] = defaultdict(count)

    def partition(
        self, record: ProducerRecord, _key: bytes | None, _value: bytes | None, topic: TopicInfo
    ) -> int:
        turn = next(self._turns[record.topic])
        if topic.with_leader:
            return topic.with_leader[turn % len(topic.with_leader)]
        return turn % len(topic.partitions)


_BUILT_IN: Final = {"round_robin": RoundRobinPartitioner, "roundrobin": RoundRobinPartitioner}


def partitioner_of(setting: Any) -> Partitioner | None:
    """What ``partitioner.class`` stands for; None for the built-in rules."""
    if setting is None:
        return None
    known = _BUILT_IN.get(setting) if isinstance(setting, str) else None
    partitioner = load_plugin(known or setting, "partitioner.class")
    if not isinstance(partitioner, Partitioner):
        raise invalid_value("partitioner.class", setting, "it has no partition()")
    return partitioner
