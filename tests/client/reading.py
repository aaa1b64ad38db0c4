"""What is in a topic, read by another client."""

from __future__ import annotations

from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as Assignment
from tests.support.waiting import eventually

SECONDS = 60
WHILE_LEADERS_CHANGE = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
"""What a consumer may say while brokers die, and go on."""
PASSING = (*WHILE_LEADERS_CHANGE, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
"""Also of what a broker that has just come back does not know yet."""


class Stored(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int


def read_topic(
    bootstrap: str, topic: str, *, isolation: str = "read_uncommitted"
) -> dict[int, list[Stored]]:
    """All records of each partition that has some, up to its end.

    With ``read_committed`` too: a transaction is decided a moment before that is written to its
    partitions, and is waited for.
    """
    ends = _ends(bootstrap, topic)
    consumer = _consumer(bootstrap, isolation)
    try:
        consumer.assign([Assignment(topic, number, OFFSET_BEGINNING) for number in ends])
        left = set(ends)
        found: dict[int, list[Stored]] = {}
        while left:
            message: Any = consumer.poll(SECONDS)
            assert message is not None, f"partitions {left} do not end"
            error = message.error()
            if error is None:
                found.setdefault(message.partition(), []).append(_stored(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                if message.offset() >= ends[message.partition()]:
                    left.discard(message.partition())
            elif error.code() not in PASSING:
                raise AssertionError(error)
        return found
    finally:
        consumer.close()


def _consumer(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reading",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "check.crcs": True,
            "fetch.wait.max.ms": 10,  # so long is an end waited for
        }
    )


def _ends(bootstrap: str, topic: str) -> dict[int, int]:
    """The end of each partition, decided or not."""
    consumer = _consumer(bootstrap, "read_uncommitted")
    partitions: list[int] = []

    def is_known() -> bool:
        partitions[:] = consumer.list_topics(topic, timeout=SECONDS).topics[topic].partitions
        return bool(partitions)

    try:
        eventually(is_known)
        return {
            number: consumer.get_watermark_offsets(Assignment(topic, number), timeout=SECONDS)[1]
            for number in partitions
        }
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
