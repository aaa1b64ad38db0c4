"""Rows as records of a topic: exactly once by transactions, or again if a batch comes again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so

from moldau.spark.pipeline.sinks.batch import Batch
from moldau.spark.pipeline.sinks.counting import Counted
from moldau.spark.pipeline.spec import TopicSink

RECORD_COLUMNS: Final = ("key", "value", "headers", "timestamp", "partition", "topic")


def write_batch(sink: TopicSink, frame: DataFrame, batch: Batch | None) -> int | None:
    counted = Counted(records(sink, frame), wanted=batch is None)
    options = {**sink.options, **_batch_options(sink, batch)}
    counted.frame.write.format("moldau").options(**options).mode("append").save()
    return counted.rows


def _batch_options(sink: TopicSink, batch: Batch | None) -> dict[str, str]:
    """What the data source must know of a batch to write it exactly once."""
    if batch is None or "exactlyOnce" not in sink.options:
        return {}
    found = {"exactlyOnce.query": batch.writer(sink.name), "exactlyOnce.batch": str(batch.number)}
    return found if batch.checkpoint is None else {**found, "checkpointLocation": batch.checkpoint}


def records(sink: TopicSink, frame: DataFrame) -> DataFrame:
    """Rows as records: by the sink's expressions, as they are if they are records, or as JSON."""
    if sink.columns:
        frame = frame.select(*(_column(name, text, frame) for name, text in sink.columns.items()))
    elif "value" not in frame.columns or not set(frame.columns) <= set(RECORD_COLUMNS):
        frame = frame.select(F.to_json(F.struct("*")).alias("value"))
    if sink.rate is not None:
        frame = frame.coalesce(1).mapInArrow(throttle(sink.rate), frame.schema)
    return frame


def _column(name: str, text: str, frame: DataFrame) -> Any:
    column = F.expr(text)
    kind = frame.select(column).schema.fields[0].dataType.typeName()
    if name in ("key", "value") and kind not in ("string", "binary"):
        structured = kind in ("struct", "array", "map", "variant")
        column = F.to_json(column) if structured else column.cast("string")
    return column.alias(name)


def throttle(
    rate: float,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes rows on in a tenth of a second's portions, no faster than ``rate`` a second."""
    portion = max(1, int(rate / 10))

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin, passed = time.monotonic(), 0
        for batch in batches:
            for start in range(0, batch.num_rows, portion):
                rows = batch.slice(start, portion)
                time.sleep(max(0.0, begin + passed / rate - time.monotonic()))
                passed += rows.num_rows
                yield rows

    return slowly
