"""Sample rows as the frames of sources.

Rows of topics become records, which are decoded as those of brokers are: what cannot be decoded is
a dead letter, a null or a failure here, too.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from moldau.model import TopicPartition
from moldau.records.reader import RecordColumns
from moldau.spark.arrow import ArrowRows, Rows
from moldau.spark.bad_records import BadRecords, Fail, Null
from moldau.spark.offsets import OffsetRange
from moldau.spark.options import Decoding, ReadOptions, read_options
from moldau.spark.pipeline.problems import did_you_mean
from moldau.spark.pipeline.samples.cases import Row, as_moment
from moldau.spark.pipeline.samples.values import SampleError, inferred, parsed, typed
from moldau.spark.pipeline.spec import Source, TopicSource
from moldau.spark.schema import arrow_schema, full_schema

DEFAULT_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Of records whose rows have no timestamp."""

_RECORD: Final = ("key", "value", "headers", "timestamp", "topic", "partition", "offset")
_END: Final = 2**62


@dataclass
class DeadLetters:
    """What would have been written to a source's ``dead_letter_topic``."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def handle(
        self, partition: TopicPartition, columns: RecordColumns, bad: Mapping[int, str]
    ) -> bool:
        self.rows += [
            {
                "key": columns.keys[index],
                "value": columns.values[index],
                "topic": partition.topic,
                "partition": partition.partition,
                "offset": columns.offsets[index],
                "timestamp": as_moment(columns.timestamps[index]),
                "reason": reason,
            }
            for index, reason in bad.items()
        ]
        return True


def frame_of(
    source: Source, rows: Sequence[Row], spark: SparkSession, letters: DeadLetters
) -> DataFrame:
    """``SampleError`` says which row cannot be taken."""
    match source:
        case TopicSource():
            return _records(source, rows, spark, letters)
        case _:
            declared = getattr(source, "schema", None)
            if declared is not None:
                schema = parsed(declared)
                return spark.createDataFrame(typed(rows, schema), schema)
            if not rows:
                raise SampleError("it has no schema: give at least one row, whose types are taken")
            return spark.createDataFrame(inferred(rows))


def _records(
    source: TopicSource, rows: Sequence[Row], spark: SparkSession, letters: DeadLetters
) -> DataFrame:
    options = read_options(source.options, streaming=source.streaming)
    schema = parsed(full_schema(options))
    bad: BadRecords = letters
    if options.on_bad_record != "deadletter":
        bad = Fail() if options.on_bad_record == "fail" else Null()
    arrow = ArrowRows(schema, options, bad)
    batches = [
        batch for part in _by_partition(options, source.name, rows) for batch in arrow.batch(part)
    ]
    if not batches:
        return spark.createDataFrame([], schema)
    table = pa.Table.from_batches(batches, arrow_schema(schema))
    frame: DataFrame = spark.createDataFrame(table, schema)
    return frame


def _by_partition(options: ReadOptions, name: str, rows: Sequence[Row]) -> list[Rows]:
    topic = next(iter(options.subscription.topics), name)
    found: dict[TopicPartition, Rows] = {}
    for row in rows:
        for column in row:
            if column not in _RECORD:
                hint = did_you_mean(column, _RECORD)
                raise SampleError(f"a record has no {column}: {hint}")
        partition = TopicPartition(str(row.get("topic", topic)), int(row.get("partition", 0)))
        part = found.get(partition)
        if part is None:
            part = found[partition] = Rows(OffsetRange(*partition, 0, _END))
            part.timestamp_types.append((0, 0))
        _add(part, row, options)
    return list(found.values())


def _add(part: Rows, row: Row, options: ReadOptions) -> None:
    columns = part.columns
    moment = as_moment(row.get("timestamp", DEFAULT_TIME))
    if moment is None:
        raise SampleError(f"this is no timestamp: {row['timestamp']!r}")
    following = columns.offsets[-1] + 1 if columns.offsets else 0
    columns.offsets.append(int(row.get("offset", following)))
    columns.timestamps.append(int(moment.timestamp() * 1000))
    columns.keys.append(encoded(row.get("key"), options.key))
    columns.values.append(encoded(row.get("value"), options.value))
    headers = row.get("headers") or {}
    columns.headers.append(
        tuple((name, encoded(value, Decoding())) for name, value in headers.items())
    )
    part.timestamp_types[0] = (0, len(columns.offsets))


def encoded(value: Any, decoding: Decoding) -> bytes | None:
    """Bytes as a producer would have sent them; texts are taken as they are."""
    if value is None:
        return None
    if decoding.format == "avro":
        return _avro(value, decoding)
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, default=_json_moment).encode()


def _json_moment(value: Any) -> str:
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    raise SampleError(f"JSON has no such value: {value!r}")


def _avro(value: Any, decoding: Decoding) -> bytes:
    if isinstance(value, str):
        return value.encode()  # no Avro: a bad record
    if decoding.schema is None:
        raise SampleError(
            "its schema is in a registry: give value_schema, or texts that are no Avro"
        )
    import fastavro

    stream = io.BytesIO()
    stream.write(b"\0\0\0\0\0")
    try:
        fastavro.schemaless_writer(stream, json.loads(decoding.schema), value)
    except (ValueError, TypeError, KeyError) as error:
        raise SampleError(f"{value!r} does not fit the Avro schema: {error!r}") from None
    return stream.getvalue()
