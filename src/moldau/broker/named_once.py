"""Produce requests that name a partition more than once.

Kafka appends the last of its batches, drops the others, and answers once. Here none is appended:
whoever sent them may take the one answer for all. It is INVALID_REQUEST, and it comes once, too.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from moldau.wire.produce import ProduceTopic

REPEATED: Final = memoryview(b"")
"""Stands for the records of a partition that was named more than once."""


def named_once(topics: list[ProduceTopic]) -> list[ProduceTopic]:
    """Returns the same topics and partitions, each of them once."""
    names = {topic.name or topic.topic_id for topic in topics}
    if len(names) == len(topics) and all(
        len(topic.partitions) == len({index for index, _ in topic.partitions}) for topic in topics
    ):
        return topics
    merged: dict[str | UUID | None, tuple[ProduceTopic, dict[int, memoryview | None]]] = {}
    for topic in topics:
        key = topic.name or topic.topic_id
        _, partitions = merged.setdefault(key, (topic, {}))
        for index, records in topic.partitions:
            partitions[index] = REPEATED if index in partitions else records
    return [
        ProduceTopic(topic.name, topic.topic_id, list(partitions.items()))
        for topic, partitions in merged.values()
    ]
