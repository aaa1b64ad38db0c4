"""Batch queries: rows are what confluent-kafka reads, whatever wrote them and however they lie."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, BinaryType, StructType
from tests.client.conftest import NewTopicFactory
from tests.spark.records import (
    CODECS,
    consume,
    produce,
    random_record,
    rows_of,
    wait_for_markers,
)
from tests.support.target import Target

from moldau.errors import KafkaError
from moldau.spark.batch_reader import BatchReader
from moldau.spark.options import OptionError, read_options
from moldau.spark.source import MoldauDataSource


def test_rows_are_what_another_client_reads(
    cluster: Target, new_topic: NewTopicFactory, batch: Any
) -> None:
    rng = random.Random(7)
    topic = new_topic(partitions=3, retention_ms=-1)
    for codec in CODECS:
        records = [random_record(rng) for _ in range(200)]
        settings = {"compression.type": codec, "linger.ms": rng.choice([0, 20])}
        produce(cluster.bootstrap, topic, records, **settings)
    rows = rows_of(batch(cluster, subscribe=topic, includeHeaders=True, minPartitions=5))
    assert len(rows) == 1000
    assert rows == consume(cluster.bootstrap, topic, 3)


def test_times_of_the_broker_are_told_from_those_of_the_producer(
    cluster: Target, new_topic: NewTopicFactory, batch: Any
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    produce(cluster.bootstrap, topic, [{"value": b"x"}] * 3)
    rows = rows_of(batch(cluster, subscribe=topic, includeHeaders=True))
    assert [row.timestamp_type for row in rows] == [1, 1, 1]
    assert rows == consume(cluster.bootstrap, topic, 1)


def test_aborted_transactions_are_read_only_by_who_wants_them(
    kafka: Target, kafka_topic: NewTopicFactory, batch: Any
) -> None:
    topic = kafka_topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    rng = random.Random(3)
    for number in range(12):
        producer.begin_transaction()
        for _ in range(rng.randrange(1, 20)):
            producer.produce(topic, f"{number}".encode(), partition=rng.randrange(2))
        producer.flush()  # what is aborted before it was sent is in no log
        if number % 3:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    wait_for_markers(kafka.bootstrap, topic, 2)
    for isolation in ("read_committed", "read_uncommitted"):
        options = {"includeHeaders": True, "kafka.isolation.level": isolation, "minPartitions": 6}
        rows = rows_of(batch(kafka, subscribe=topic, **options))
        assert rows == consume(kafka.bootstrap, topic, 2, **{"isolation.level": isolation})
        aborted = {row.value for row in rows} & {b"0", b"3", b"6", b"9"}
        assert bool(aborted) == (isolation == "read_uncommitted")


def test_ranges_are_chosen_by_offset_and_by_time(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic(partitions=2, retention_ms=-1)
    first = 1_700_000_000_000
    records = [
        {"value": b"x", "partition": number % 2, "timestamp": first + number}
        for number in range(200)
    ]
    produce(cluster.bootstrap, topic, records)

    def ranges(**options: Any) -> list[tuple[int, int, int]]:
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, **options}
        given = {name: str(value) for name, value in given.items() if value is not None}
        partitions = BatchReader(read_options(given, streaming=False), StructType()).partitions()
        found = [one.value for one in partitions if one.value is not None]
        return [(one.partition, one.start, one.end) for one in found]

    def by_partition(zero: int, one: int) -> str:
        return json.dumps({topic: {"0": zero, "1": one}})

    assert ranges() == [(0, 0, 100), (1, 0, 100)]
    assert ranges(startingOffsets=by_partition(10, -2), endingOffsets=by_partition(12, -1)) == [
        (0, 10, 12),
        (1, 0, 100),
    ]
    assert ranges(startingTimestamp=first + 150, endingTimestamp=first + 160) == [
        (0, 75, 80),
        (1, 75, 80),
    ]
    by_time = by_partition(first + 190, first + 195)
    assert ranges(startingOffsetsByTimestamp=by_time) == [(0, 95, 100), (1, 97, 100)]
    assert ranges(assign=json.dumps({topic: [1]}), subscribe=None) == [(1, 0, 100)]
    pattern = topic[:-2] + ".."
    assert ranges(subscribePattern=pattern, subscribe=None) == [(0, 0, 100), (1, 0, 100)]
    assert len(ranges(minPartitions=7)) == 8
    assert len(ranges(maxRecordsPerPartition=30)) == 8
    with pytest.raises(OptionError, match="startingOffsetsByTimestampStrategy=latest"):
        ranges(startingTimestamp=first + 1000)
    later = {"startingTimestamp": first + 1000, "startingOffsetsByTimestampStrategy": "latest"}
    assert ranges(**later) == []
    with pytest.raises(OptionError, match="must name all partitions"):
        ranges(startingOffsets=json.dumps({topic: {"0": 1}}))
    with pytest.raises(KafkaError, match="no-such-topic"):
        ranges(subscribe="no-such-topic")


def test_filters_narrow_what_is_read(
    cluster: Target, new_topic: NewTopicFactory, batch: Any
) -> None:
    topic = new_topic(partitions=3, retention_ms=-1)
    first = 1_700_000_000_000
    records = [
        {"value": b"x", "partition": number % 3, "timestamp": first + number}
        for number in range(90)
    ]
    produce(cluster.bootstrap, topic, records)
    frame = batch(cluster, subscribe=topic).where(
        f"timestamp >= timestamp_millis({first + 60}) and partition in (1, 2) and offset < 25"
    )
    assert frame.rdd.getNumPartitions() == 2
    found = sorted((row["partition"], row["offset"]) for row in frame.collect())
    assert found == [(number, offset) for number in (1, 2) for offset in range(20, 25)]


def test_filters_work_while_spark_does_not_push_them(
    cluster: Target, new_topic: NewTopicFactory, batch: Any, spark: SparkSession
) -> None:
    topic = new_topic()
    produce(cluster.bootstrap, topic, [{"value": b"x"}] * 10)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert batch(cluster, subscribe=topic).where("offset > 6").count() == 3
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_a_schema_narrows_the_columns(
    cluster: Target, new_topic: NewTopicFactory, spark: SparkSession
) -> None:
    topic = new_topic()
    produce(cluster.bootstrap, topic, [{"value": b"x", "key": b"k"}])

    reader = spark.read.format("moldau").schema("offset LONG, key BINARY")
    rows = reader.options(**{"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic})
    assert [tuple(row) for row in rows.load().collect()] == [(0, b"k")]


def test_columns_that_are_not_there_are_refused() -> None:
    source = MoldauDataSource({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"})
    for name, kind, message in (
        ("valu", "binary", "did you mean value"),
        ("value", "string", "value is of type binary, not string"),
        ("headers", "array<binary>", "includeHeaders"),
    ):
        schema = StructType().add(name, ArrayType(BinaryType()) if "array" in kind else kind)
        with pytest.raises(OptionError, match=message):
            source.reader(schema)
        with pytest.raises(OptionError, match=message):
            source.streamReader(schema)


def test_deleted_records_are_an_error_unless_that_is_fine(
    cluster: Target, new_topic: NewTopicFactory, batch: Any
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic = new_topic()
    produce(cluster.bootstrap, topic, [{"value": f"{number}".encode()} for number in range(20)])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 12)]).values():
        future.result(60)
    wanted = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 5}})}
    with pytest.raises(PySparkException, match="has offsets 12 to 20, not 5"):
        batch(cluster, **wanted).collect()
    assert batch(cluster, failOnDataLoss=False, **wanted).count() == 8


def test_what_is_wrong_is_said_before_anything_runs(
    cluster: Target, new_topic: NewTopicFactory, batch: Any
) -> None:
    with pytest.raises(AnalysisException, match=re.escape("did you mean subscribe?")):
        batch(cluster, subscibe="x")
    assert batch(cluster, subscribe=new_topic(partitions=2)).count() == 0
