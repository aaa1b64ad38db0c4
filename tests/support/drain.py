"""Reading a partition to its end, with offsets."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from tests.support.clients.base import Sample
from tests.support.clients.confluent import QUIET

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Stored:
    offset: int
    sample: Sample


def drain(
    bootstrap: str, topic: str, partition: int = 0, *, committed: bool = False
) -> list[Stored]:
    """Every record of the partition: to the high watermark, or to the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "never-joined",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": 50,
            **QUIET,
        }
    )
    records: list[Stored] = []
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"{topic}-{partition} went silent at {len(records)} records"
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return records
                raise KafkaException(error)
            headers = tuple(message.headers() or ())
            timestamp = message.timestamp()[1]
            sample = Sample(message.key(), message.value(), headers, timestamp)
            records.append(Stored(message.offset(), sample))
    finally:
        consumer.close()
