"""Rows through a producer, without Spark: each record is where it belongs, in the rows' order."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from tests.client.conftest import NewTopicFactory
from tests.spark.records import Row, consume, random_record
from tests.support.target import Target

from moldau.client.errors import RecordTooLargeError, UnknownTopicError
from moldau.client.producer.murmur import partition_for_key
from moldau.client.producer.producer import Producer
from moldau.spark.produce import RowProducer

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", HEADERS),
    ]
)
PARTITIONS = 3


def table(records: Sequence[dict[str, Any]], *columns: str) -> pa.Table:
    def cell(record: dict[str, Any], name: str) -> Any:
        value = record.get(name)
        if name == "timestamp" and value is not None:
            return value * 1000
        if name == "headers" and value:
            return [{"key": key, "value": content} for key, content in value]
        return value

    fields = [SCHEMA.field(name) for name in columns]
    arrays = [pa.array([cell(one, field.name) for one in records], field.type) for field in fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def write(
    target: Target,
    rows: pa.Table,
    topic: str | None,
    settings: Mapping[str, object] | None = None,
    per_batch: int = 10_000,
) -> None:
    producer = Producer({"bootstrap.servers": target.bootstrap, **(settings or {})})
    with RowProducer(producer, topic, from_arrow_schema(rows.schema)) as sink:
        for batch in rows.to_batches(max_chunksize=per_batch):
            sink.send(batch)
        sink.flush()
    assert sink.sent == len(rows)


def records_of(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    return [(row.key, row.value, row.timestamp, row.headers) for row in rows]


@pytest.mark.parametrize(
    "settings", [{}, {"batch.size": 2000}, {"batch.size": 0, "compression.type": "zstd"}]
)
def test_rows_of_all_columns_are_the_records_they_say(
    cluster: Target, new_topic: NewTopicFactory, settings: dict[str, Any]
) -> None:
    rng = random.Random(5)
    topics = [new_topic(partitions=PARTITIONS, retention_ms=-1) for _ in range(2)]
    records = [
        {
            **random_record(rng),
            "topic": rng.choice(topics),
            "partition": rng.choice([None, None, 0, 1, 2]),
        }
        for _ in range(700)
    ]
    write(cluster, table(records, *SCHEMA.names), None, settings, per_batch=90)
    for topic in topics:
        found = consume(cluster.bootstrap, topic, PARTITIONS)
        sent = [one for one in records if one["topic"] == topic]
        places: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        for number in range(PARTITIONS):
            inside = records_of([row for row in found if row.partition == number])
            for place, record in enumerate(inside):
                places.setdefault(record, []).append((number, place))
        last = dict.fromkeys(range(PARTITIONS), -1)
        for one in sent:
            record = (one["key"], one["value"], one["timestamp"], tuple(one["headers"]))
            wanted = one["partition"]
            if wanted is None and one["key"] is not None:
                wanted = partition_for_key(one["key"], PARTITIONS)
            open_places = [at for at in places[record] if wanted in (None, at[0])]
            number, place = min(open_places)
            places[record].remove((number, place))
            assert place > last[number], "rows of a partition changed their order"
            last[number] = place
        assert not any(places.values())


def test_rows_that_name_nothing_are_spread_and_in_order(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic(partitions=PARTITIONS)
    before = time.time_ns() // 1_000_000
    rows = table([{"value": b"%06d" % number} for number in range(20_000)], "value")
    write(cluster, rows, topic, {"batch.size": 20_000}, per_batch=3000)
    found = consume(cluster.bootstrap, topic, PARTITIONS)
    assert sorted(row.value or b"" for row in found) == rows.column("value").to_pylist()
    for number in range(PARTITIONS):
        inside = [row.value or b"" for row in found if row.partition == number]
        assert inside == sorted(inside)
        assert len(inside) > 2000
    assert {row.timestamp >= before for row in found} == {True}


def test_batches_that_the_broker_finds_too_large_are_divided(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic(max_message_bytes=4000)
    rows = table(
        [{"value": b"%06d" % number, "key": b"k"} for number in range(3000)], "key", "value"
    )
    write(cluster, rows, topic)
    found = consume(cluster.bootstrap, topic, 1)
    assert [row.value for row in found] == rows.column("value").to_pylist()


def test_a_buffer_smaller_than_the_rows_is_waited_for(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic(partitions=PARTITIONS)
    rows = table([{"value": b"x" * 1000, "key": b"%d" % n} for n in range(3000)], "key", "value")
    write(cluster, rows, topic, {"buffer.memory": 100_000, "batch.size": 20_000})
    assert len(consume(cluster.bootstrap, topic, PARTITIONS)) == 3000


def test_a_partitioner_of_the_users_sees_every_row(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic(partitions=PARTITIONS, retention_ms=-1)
    rng = random.Random(6)
    records = [{**random_record(rng), "key": b"same"} for _ in range(60)]
    rows = table(records, "key", "value", "timestamp", "headers")
    write(cluster, rows, topic, {"partitioner.class": "round_robin"})
    found = consume(cluster.bootstrap, topic, PARTITIONS)
    expected = [
        (one["key"], one["value"], one["timestamp"], tuple(one["headers"])) for one in records
    ]
    turns = [records_of([row for row in found if row.partition == n]) for n in range(PARTITIONS)]
    assert sorted(turns) == sorted(expected[turn::PARTITIONS] for turn in range(PARTITIONS))


@pytest.mark.parametrize(
    ("record", "error", "message"),
    [
        ({"partition": 3}, UnknownTopicError, "partition 3"),
        ({"timestamp": -5}, ValueError, "milliseconds since 1970, not -5"),
        ({"value": b"x" * 1_100_000}, RecordTooLargeError, r"max\.request\.size"),
    ],
)
def test_rows_that_cannot_be_records_fail(
    cluster: Target,
    new_topic: NewTopicFactory,
    record: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        write(cluster, table([{}, record], *SCHEMA.names[1:]), new_topic(partitions=PARTITIONS))


def test_a_row_needs_a_topic(cluster: Target, new_topic: NewTopicFactory) -> None:
    rows = table([{"topic": new_topic()}, {}], "topic", "value")
    with pytest.raises(ValueError, match="null for its topic"):
        write(cluster, rows, None)
