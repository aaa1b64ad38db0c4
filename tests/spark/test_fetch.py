"""What a task reads, without Spark around it: gaps, ends of ranges, a broker that comes back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, LongType, StructField, StructType
from tests.client.conftest import NewTopicFactory, own_moldau, topic_factory
from tests.spark.records import produce
from tests.support.target import Target

from moldau.client.consumer.fetch.fetched import FetchedRecords
from moldau.model import TopicPartition
from moldau.records.builder import build_batch
from moldau.records.record import Record
from moldau.spark.arrow import ArrowRows
from moldau.spark.bad_records import Fail
from moldau.spark.offsets import DataLossError, OffsetRange
from moldau.spark.options import ReadOptions, read_options
from moldau.spark.read_task import RangePartition, read_range
from moldau.testing.broker import MoldauProcess

__all__ = ["own_moldau"]

SCHEMA = StructType([StructField("offset", LongType()), StructField("value", BinaryType())])


def options(bootstrap: str = "localhost:9092", topic: str = "t", **more: str) -> ReadOptions:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **more}
    return read_options(given, streaming=False)


def rows(batches: list[pa.RecordBatch]) -> list[tuple[int, bytes]]:
    return [(row["offset"], row["value"]) for batch in batches for row in batch.to_pylist()]


@given(
    st.lists(st.tuples(st.sets(st.integers(0, 9), min_size=1), st.integers(0, 5)), max_size=5),
    st.integers(0, 60),
    st.integers(0, 60),
    st.sampled_from([0, 1, 4]),
)
def test_what_compaction_left_is_read_within_the_range(
    batches: list[tuple[set[int], int]], start: int, end: int, codec: int
) -> None:
    data, base, written = bytearray(), 0, []
    for deltas, gap in batches:
        records = [
            Record(base + delta, 5, None, b"%d" % (base + delta), ()) for delta in sorted(deltas)
        ]
        written += [record.offset for record in records]
        data += build_batch(records, base_offset=base, keep_offsets=True, compression=codec)
        base += max(deltas) + 1 + gap
    fetched = FetchedRecords(TopicPartition("t", 0), start, memoryview(bytes(data)))
    found = list(
        ArrowRows(SCHEMA, options(), Fail()).batches(fetched, OffsetRange("t", 0, start, end))
    )
    expected = [offset for offset in written if start <= offset < end]
    assert rows(found) == [(offset, b"%d" % offset) for offset in expected]


def read(settings: ReadOptions, start: int, end: int) -> Any:
    return read_range(
        settings, SCHEMA, RangePartition(OffsetRange(_topic(settings), 0, start, end))
    )


def _topic(settings: ReadOptions) -> str:
    return settings.subscription.topics[0]


def test_a_broker_that_is_killed_and_comes_back_is_read_on(own_moldau: MoldauProcess) -> None:
    topic = topic_factory(own_moldau.bootstrap_servers)()
    records = [{"value": b"%d" % number + b"x" * 500} for number in range(3000)]
    produce(own_moldau.bootstrap_servers, topic, records, **{"batch.size": 20000})
    small = {"kafka.max.partition.fetch.bytes": "50000"}
    batches = read(options(own_moldau.bootstrap_servers, topic, **small), 0, 3000)
    found = [next(batches)]
    own_moldau.kill()
    own_moldau.start()
    found += batches
    assert len(found) > 10
    assert [offset for offset, _ in rows(found)] == list(range(3000))


def test_a_range_beyond_the_log_is_lost_data(cluster: Target, new_topic: NewTopicFactory) -> None:
    topic = new_topic()
    produce(cluster.bootstrap, topic, [{"value": b"x"}] * 5)
    quick = {"kafkaConsumer.pollTimeoutMs": "300", "kafka.fetch.max.wait.ms": "50"}
    with pytest.raises(DataLossError, match="ends at offset 5, the range to read at 9"):
        list(read(options(cluster.bootstrap, topic, **quick), 0, 9))
    lenient = options(cluster.bootstrap, topic, failOnDataLoss="false", **quick)
    assert len(rows(list(read(lenient, 0, 9)))) == 5
    with pytest.raises(DataLossError, match="no-such-topic"):
        list(read(options(cluster.bootstrap, "no-such-topic", **quick), 0, 9))
