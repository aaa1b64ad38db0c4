"""What is in a topic, read by another client."""

from __future__ import annotations

from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as Assignment


class Stored(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int


def read_topic(
    bootstrap: str, topic: str, *, isolation: str = "read_uncommitted"
) -> dict[int, list[Stored]]:
    """All records of each partition that has some, up to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reading",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "check.crcs": True,
        }
    )
    try:
        partitions = list(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([Assignment(topic, number, OFFSET_BEGINNING) for number in partitions])
        left = set(partitions)
        found: dict[int, list[Stored]] = {}
        while left:
            message: Any = consumer.poll(30)
            assert message is not None, f"partitions {left} do not end"
            error = message.error()
            if error is None:
                found.setdefault(message.partition(), []).append(_stored(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise AssertionError(error)
        return found
    finally:
        consumer.close()


def values_of(bootstrap: str, topic: str, **options: str) -> list[bytes | None]:
    """The values of all partitions, partition by partition."""
    found = read_topic(bootstrap, topic, **options)
    return [record.value for number in sorted(found) for record in found[number]]


def _stored(message: Any) -> Stored:
    return Stored(
        message.offset(),
        message.key(),
        message.value(),
        list(message.headers() or []),
        message.timestamp()[1],
    )
