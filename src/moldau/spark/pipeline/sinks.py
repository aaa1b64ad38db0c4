"""Sinks: what is written where, in a stream or once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameWriter, Observation
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so
from pyspark.sql.streaming.readwriter import DataStreamWriter

from moldau.spark.pipeline.parquet import STAGING, adopt, compact
from moldau.spark.pipeline.spec import ConsoleSink, ParquetSink, Sink, TableSink, TopicSink

RECORD_COLUMNS: Final = ("key", "value", "headers", "timestamp", "partition", "topic")


def stream_writer(sink: Sink, frame: DataFrame) -> DataStreamWriter:
    """What a streaming query writes with; trigger and checkpoint are not its business."""
    writer: DataStreamWriter
    match sink:
        case TopicSink():
            writer = records(sink, frame).writeStream.format("moldau").options(**sink.options)
        case ParquetSink(compact=True):
            writer = frame.writeStream.foreachBatch(_parquet_batch(sink))
        case ParquetSink():
            writer = frame.writeStream.format("parquet").option("path", sink.path)
            writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
        case TableSink():
            writer = frame.writeStream.foreachBatch(_table_batch(sink))
        case ConsoleSink():
            writer = frame.writeStream.format("console").option("numRows", sink.rows)
    return writer.outputMode(sink.output_mode)


def write_once(sink: Sink, frame: DataFrame) -> int | None:
    """All rows of a frame that is no stream; how many they were, if that is known."""
    writer: DataFrameWriter
    counted = Observation()
    match sink:
        case TopicSink():
            writer = _counting(records(sink, frame), counted).write.format("moldau")
            writer.options(**sink.options).mode("append").save()
        case ParquetSink():
            writer = _counting(frame, counted).write.mode("append")
            writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
            writer.parquet(sink.path)
        case TableSink():
            from moldau.spark.pipeline.database import write_batch

            return write_batch(sink, frame, None, 0)
        case ConsoleSink():
            frame.show(sink.rows, truncate=False)
            return None
    return counted.get.get("rows")


def _counting(frame: DataFrame, counted: Observation) -> DataFrame:
    return frame.observe(counted, F.count(F.lit(1)).alias("rows"))


def finish(sink: Sink, batches: int) -> None:
    """A stream has ended after so many batches: what is left to do."""
    if isinstance(sink, ParquetSink) and sink.compact:
        compact(_directory(sink), batches)


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


def _table_batch(sink: TableSink) -> Callable[[DataFrame, int], None]:
    def write(frame: DataFrame, batch: int) -> None:
        from moldau.spark.pipeline.database import write_batch

        # Unlike the checkpoint's path, it is another one when a pipeline starts anew.
        context = frame.sparkSession.sparkContext
        query = context.getLocalProperty("sql.streaming.queryId")
        if write_batch(sink, frame, query, batch) is None:
            # Windows and the like have their state of the batch from computing it.
            frame.write.format("noop").mode("overwrite").save()

    return write


def _parquet_batch(sink: ParquetSink) -> Callable[[DataFrame, int], None]:
    directory = _directory(sink)

    def write(frame: DataFrame, batch: int) -> None:
        if sink.partition_by:
            # One file for each folder and batch.
            frame = frame.repartition(*sink.partition_by)
        writer = frame.write.mode("overwrite")
        writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
        writer.parquet(str(directory / STAGING / str(batch)))
        adopt(directory, batch)
        compact(directory, batch)

    return write


def _directory(sink: ParquetSink) -> Path:
    return Path(sink.path.removeprefix("file://")).absolute()
