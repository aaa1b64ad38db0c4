"""Topics that the broker has compacted: what is left is read, wherever a range begins or ends."""

from __future__ import annotations

import json
import random
from typing import Any

from pyspark.sql import SparkSession
from tests.client.conftest import NewTopicFactory
from tests.spark.records import CODECS, Row, consume, produce, rows_of
from tests.support.target import Target
from tests.support.waiting import eventually

COMPACTED = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": 0,
    "segment_ms": 1,  # every round of records is a segment
    "delete_retention_ms": 0,
}
ROUNDS = 10
PER_ROUND = 30
KEYS = 25


def test_ranges_that_begin_and_end_in_gaps(
    cluster: Target, new_topic: NewTopicFactory, batch: Any, spark: SparkSession, checkpoint: str
) -> None:
    rng = random.Random(5)
    topic = new_topic(partitions=2, **COMPACTED)
    for number in range(ROUNDS):
        records = [
            {"key": b"%d" % rng.randrange(KEYS), "value": rng.choice([b"v%d" % number, None]),
             "partition": rng.randrange(2), "headers": [("round", b"%d" % number)]}
            for _ in range(PER_ROUND)
        ]  # fmt: skip
        produce(cluster.bootstrap, topic, records, **{"compression.type": CODECS[number % 5]})
    # The last record of a partition is never cleaned.
    produce(cluster.bootstrap, topic, [{"value": b"end", "key": b"end", "partition": part}
                                       for part in range(2)])  # fmt: skip
    eventually(lambda: is_clean(cluster, topic), "the cleaner left doubles", timeout=120)
    expected = consume(cluster.bootstrap, topic, 2)
    ends = {
        part: 1 + max(row.offset for row in expected if row.partition == part) for part in (0, 1)
    }
    assert len(expected) < sum(ends.values()) / 2

    for _ in range(3):
        first = {part: missing(rng, expected, part, 0, ends[part] // 2) for part in ends}
        last = {part: missing(rng, expected, part, first[part] + 1, ends[part]) for part in ends}
        found = rows_of(
            batch(
                cluster,
                subscribe=topic,
                includeHeaders=True,
                minPartitions=4,
                startingOffsets=json.dumps({topic: first}),
                endingOffsets=json.dumps({topic: last}),
            )
        )
        assert found == [
            row for row in expected if first[row.partition] <= row.offset < last[row.partition]
        ]

    query = (
        spark.readStream.format("moldau")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .options(subscribe=topic, startingOffsets=json.dumps({topic: first}))
        .options(includeHeaders=True, maxOffsetsPerTrigger=37)
        .load()
        .writeStream.format("memory")
        .queryName(f"compacted_{topic.replace('-', '_')}")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert len([one for one in query.recentProgress if one["numInputRows"]]) > 3
    found = rows_of(spark.table(query.name))
    assert found == [row for row in expected if row.offset >= first[row.partition]]


def is_clean(cluster: Target, topic: str) -> bool:
    """Every key is there once."""
    keys = [(row.partition, row.key) for row in consume(cluster.bootstrap, topic, 2)]
    return len(set(keys)) == len(keys)


def missing(rng: random.Random, rows: list[Row], part: int, low: int, high: int) -> int:
    """An offset that has no record any more."""
    there = {row.offset for row in rows if row.partition == part}
    return rng.choice([offset for offset in range(low, high) if offset not in there])
