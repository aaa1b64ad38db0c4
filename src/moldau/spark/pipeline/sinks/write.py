"""A batch to its sink, of whatever kind."""

from __future__ import annotations

from pyspark.sql import DataFrame

from moldau.spark.pipeline.sinks import console, formats, parquet, topic
from moldau.spark.pipeline.sinks.batch import Batch
from moldau.spark.pipeline.spec import (
    ConsoleSink,
    FormatSink,
    LakeSink,
    ParquetSink,
    Sink,
    TableSink,
    TopicSink,
)


def wants_empty(sink: Sink, *, first: bool) -> bool:
    """Whether something is missing if a batch without rows is not written.

    ``first``: of a run. Tables are made for it, and what an earlier attempt has left of the batch
    is removed.
    """
    if sink.output_mode == "complete":
        return True
    match sink:
        case TopicSink():
            return "exactlyOnce" in sink.options  # each batch is decided
        case LakeSink(compact=True):
            return True  # which numbers compaction is due at does not depend on rows
        case _:
            return first


def write_batch(sink: Sink, frame: DataFrame, batch: Batch | None) -> int | None:
    """All rows of a batch, or of a frame that is no stream (None); how many, if that is known."""
    match sink:
        case TopicSink():
            return topic.write_batch(sink, frame, batch)
        case ParquetSink():
            return parquet.write_batch(sink, frame, batch)
        case TableSink():
            from moldau.spark.pipeline.sinks import database  # and SQLAlchemy

            return database.write_batch(sink, frame, batch)
        case LakeSink(format="delta"):
            from moldau.spark.pipeline.sinks import delta

            return delta.write_batch(sink, frame, batch)
        case LakeSink():
            from moldau.spark.pipeline.sinks import iceberg

            return iceberg.write_batch(sink, frame, batch)
        case FormatSink():
            return formats.write_batch(sink, frame, batch)
        case ConsoleSink():
            console.write_batch(sink, frame, batch)
            return None
