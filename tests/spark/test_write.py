"""Batch writes: every row is a record where the Java client would put it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from tests.client.conftest import NewTopicFactory
from tests.spark.records import consume, produce
from tests.support.target import Target

from moldau.spark.options import OptionError
from moldau.spark.source import MoldauDataSource


def write(frame: DataFrame, target: Target, **options: Any) -> None:
    writer = frame.write.format("moldau").option("kafka.bootstrap.servers", target.bootstrap)
    writer.options(**options).mode("append").save()


def test_keys_find_the_partitions_of_the_java_client(
    cluster: Target, new_topic: NewTopicFactory, spark: SparkSession
) -> None:
    topic, model = new_topic(partitions=7), new_topic(partitions=7)
    frame = spark.range(2000).selectExpr(
        "if(id % 5 = 0, null, repeat(cast(id as string), cast(id % 4 as int))) as key",
        "if(id % 7 = 0, null, binary(string(id))) as value",
    )
    write(frame, cluster, topic=topic, **{"kafka.compression.type": "lz4"})
    found = consume(cluster.bootstrap, topic, 7)
    expected = [
        (None if row.key is None else row.key.encode(), row.value) for row in frame.collect()
    ]
    key = lambda row: (row[0] or b"", row[1] or b"", row[0] is None)  # noqa: E731
    assert sorted(((row.key, row.value) for row in found), key=key) == sorted(expected, key=key)
    keyed = [{"key": one, "value": b""} for one in {row.key for row in found} if one is not None]
    produce(cluster.bootstrap, model, keyed, partitioner="murmur2_random")
    places = {row.key: row.partition for row in consume(cluster.bootstrap, model, 7)}
    assert {row.key: row.partition for row in found if row.key is not None} == places


def test_all_columns_of_a_record_are_written(
    cluster: Target, new_topic: NewTopicFactory, spark: SparkSession
) -> None:
    topic, other = (new_topic(partitions=3, retention_ms=-1) for _ in range(2))
    rows = spark.createDataFrame(
        [
            (topic, "k", "text", 2, 1_700_000_000_123, [("h", bytearray(b"1")), ("h", None)]),
            (other, None, None, 0, 1_700_000_000_456, None),
            (topic, None, "", 1, 1_700_000_000_789, []),
        ],
        "topic STRING, key STRING, value STRING, partition INT, millis LONG, "
        "headers ARRAY<STRUCT<key: STRING, value: BINARY>>",
    )
    rows = rows.selectExpr("* except (millis)", "timestamp_millis(millis) as timestamp")
    write(rows.coalesce(1), cluster)
    first = consume(cluster.bootstrap, topic, 3)
    assert [tuple(row) for row in first] == [
        (None, b"", 1, 0, 1_700_000_000_789, 0, ()),
        (b"k", b"text", 2, 0, 1_700_000_000_123, 0, (("h", b"1"), ("h", None))),
    ]
    second = consume(cluster.bootstrap, other, 3)
    assert [tuple(row) for row in second] == [(None, None, 0, 0, 1_700_000_000_456, 0, ())]


def test_what_was_read_is_written_as_it_was(
    cluster: Target, new_topic: NewTopicFactory, batch: Any
) -> None:
    topic, copy = (new_topic(partitions=2, retention_ms=-1) for _ in range(2))
    records = [
        {"value": b"%d" % number, "key": b"k", "partition": number % 2, "timestamp": 10 + number,
         "headers": [("n", b"%d" % number)] if number % 3 else []}
        for number in range(50)
    ]  # fmt: skip
    produce(cluster.bootstrap, topic, records)
    frame = batch(cluster, subscribe=topic, includeHeaders=True)
    frame = frame.select("key", "value", "partition", "timestamp", "headers")
    write(frame, cluster, topic=copy)
    assert consume(cluster.bootstrap, copy, 2) == consume(cluster.bootstrap, topic, 2)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("id: long", {"topic": "t"}, "Column id is no part of a record"),
        ("value: long", {"topic": "t"}, "value is of type bigint, not binary or string"),
        ("key: string", {"topic": "t"}, "Column value is missing"),
        ("value: string", {}, "Rows have no column topic"),
        ("value: string", {"topics": "t"}, "did you mean topic"),
    ],
)
def test_rows_that_are_no_records_are_refused(
    columns: str, options: dict[str, str], message: str
) -> None:
    name, kind = columns.split(": ")
    schema = StructType().add(name, kind)
    source = MoldauDataSource({"kafka.bootstrap.servers": "localhost:9092", **options})
    with pytest.raises(OptionError, match=message):
        source.writer(schema, overwrite=False)
    with pytest.raises(OptionError, match=message):
        source.streamWriter(schema, overwrite=False)


def test_topics_are_not_overwritten() -> None:
    source = MoldauDataSource({"kafka.bootstrap.servers": "localhost:9092", "topic": "t"})
    schema = StructType().add("value", "string")
    with pytest.raises(OptionError, match="only appended to"):
        source.writer(schema, overwrite=True)
    with pytest.raises(OptionError, match="outputMode append or update"):
        source.streamWriter(schema, overwrite=True)


def test_a_record_that_cannot_be_written_fails_its_task(
    cluster: Target, new_topic: NewTopicFactory, spark: SparkSession
) -> None:
    rows = spark.range(1).selectExpr("repeat('x', 2000000) as value")
    with pytest.raises(PySparkException, match=r"larger than max\.request\.size"):
        write(rows, cluster, topic=new_topic())
