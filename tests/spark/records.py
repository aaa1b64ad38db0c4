"""Random records written by confluent-kafka, and what it reads back: the model for Spark's rows."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)
from tests.client.reading import WHILE_LEADERS_CHANGE
from tests.support.waiting import eventually

from moldau import model
from moldau.client.admin import Admin
from moldau.client.offsets import OffsetSpec

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Row(NamedTuple):
    key: bytes | None
    value: bytes | None
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...]


def random_record(rng: random.Random) -> dict[str, Any]:
    return {
        "key": rng.choice([None, b"", rng.randbytes(rng.randrange(1, 20))]),
        "value": rng.choice([None, b"", rng.randbytes(rng.randrange(1, 300)), b"x" * 1000]),
        "timestamp": rng.randrange(1_500_000_000_000, 1_790_000_000_000),
        "headers": [
            (rng.choice(["a", "ü", ""]), rng.choice([None, b"", rng.randbytes(5)]))
            for _ in range(rng.choice([0, 0, 0, 1, 3]))
        ],
    }


def produce(bootstrap: str, topic: str, records: list[dict[str, Any]], **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    errors: list[KafkaError | None] = []
    for record in records:
        producer.produce(topic, on_delivery=lambda error, _: errors.append(error), **record)
        producer.poll(0)
    assert producer.flush(300) == 0
    assert errors == [None] * len(records)


def consume(bootstrap: str, topic: str, partitions: int, **settings: Any) -> list[Row]:
    """Everything up to the ends that the partitions have now, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "model",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    rows: list[Row] = []
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(180)
        assert message is not None, f"{topic} could not be read to its end"
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                assert error.code() in WHILE_LEADERS_CHANGE, error
            continue
        kind, timestamp = message.timestamp()
        rows.append(
            Row(
                message.key(),
                message.value(),
                message.partition(),
                message.offset(),
                timestamp,
                0 if kind == TIMESTAMP_CREATE_TIME else 1,
                tuple(message.headers() or ()),
            )
        )
    consumer.close()
    return sorted(rows, key=lambda row: (row.partition, row.offset))


def wait_for_markers(bootstrap: str, topic: str, partitions: int) -> None:
    """No transaction is open: who commits or aborts is answered before the markers are written."""
    latest = {model.TopicPartition(topic, n): OffsetSpec.LATEST for n in range(partitions)}
    with Admin(bootstrap_servers=bootstrap) as admin:
        eventually(
            lambda: admin.list_offsets(latest, read_committed=True) == admin.list_offsets(latest),
            f"a transaction is open in {topic}",
        )


def committed_rows(bootstrap: str, topic: str, partitions: int, least: int) -> list[Row]:
    """What readers see of transactions, once they see that many rows or more."""
    found: list[Row] = []

    def are_there() -> bool:
        found[:] = consume(bootstrap, topic, partitions, **{"isolation.level": "read_committed"})
        return len(found) >= least

    eventually(are_there, f"{topic} has too few rows")
    return found


def rows_of(frame: Any) -> list[Row]:
    """The rows of a DataFrame with headers, as the model has them."""
    found = [
        Row(
            _bytes(row["key"]),
            _bytes(row["value"]),
            row["partition"],
            row["offset"],
            row["millis"],
            row["timestampType"],
            tuple((one["key"], _bytes(one["value"])) for one in row["headers"] or ()),
        )
        for row in frame.selectExpr("*", "unix_millis(timestamp) as millis").collect()
    ]
    return sorted(found, key=lambda row: (row.partition, row.offset))


def _bytes(value: bytearray | bytes | None) -> bytes | None:
    return None if value is None else bytes(value)
