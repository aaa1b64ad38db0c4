"""Who reads what: the old consumer's rule, which every consumer works out for itself.

For each topic, all streams that read it and all its partitions are put in order. With
N = ceil(partitions / streams), stream i gets the partitions i*N to (i+1)*N - 1, as far as there are
any. The same inputs give everybody the same answer, so nobody has to be told.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from moldau.client.consumer.assignors.ceil import ceil_shares
from moldau.model import TopicPartition


def stream_ids(consumer: str, count: int) -> list[str]:
    """A consumer may read a topic in several streams; each counts like a consumer."""
    return [f"{consumer}-{number}" for number in range(count)]


def assign(
    consumer: str,
    subscriptions: Mapping[str, Mapping[str, int]],
    partitions: Mapping[str, Collection[int]],
) -> dict[TopicPartition, str]:
    """What one consumer has to read, and in which of its streams.

    ``subscriptions`` has, for each consumer of the group, its number of streams by topic.
    """
    mine: dict[TopicPartition, str] = {}
    for topic, count in subscriptions.get(consumer, {}).items():
        streams = [
            stream
            for member, topics in subscriptions.items()
            for stream in stream_ids(member, topics.get(topic, 0))
        ]
        share = ceil_shares(sorted(partitions.get(topic, ())), sorted(streams))
        for stream in stream_ids(consumer, count):
            for partition in share[stream]:
                mine[TopicPartition(topic, partition)] = stream
    return mine
