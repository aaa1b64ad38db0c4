"""A streaming query for one sink: its batches, and what is left to do at its end."""

from __future__ import annotations

from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from moldau.spark.pipeline.sinks import parquet, topic
from moldau.spark.pipeline.sinks.batch import Batch, has_begun, keep, query_id
from moldau.spark.pipeline.sinks.write import write_batch
from moldau.spark.pipeline.spec import ConsoleSink, LakeSink, ParquetSink, Sink, TopicSink


def stream_writer(sink: Sink, frame: DataFrame) -> DataStreamWriter:
    """What a streaming query writes with; trigger and checkpoint are not its business."""
    writer: DataStreamWriter
    match sink:
        case TopicSink():
            writer = topic.records(sink, frame).writeStream.format("moldau").options(**sink.options)
        case ConsoleSink():
            writer = frame.writeStream.format("console").option("numRows", sink.rows)
        case _:
            writer = frame.writeStream.foreachBatch(_Batches(sink))
    return writer.outputMode(sink.output_mode)


class _Batches:
    """Writes the batches of a query to its sink."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._is_first = True

    def __call__(self, frame: DataFrame, number: int) -> None:
        batch = Batch(query_id(frame.sparkSession), number)
        # Files are written anew, whether they are there or not.
        if not self._is_first or isinstance(self._sink, ParquetSink):
            write_batch(self._sink, frame, batch)
            return
        # Others may have the first batch of a run, and leave it out. Windows and the like have
        # their state of it from computing it.
        with ExitStack() as kept:
            keep(frame, kept).count()
            write_batch(self._sink, frame, batch)
        self._is_first = False


def finish(sink: Sink, batch: Batch) -> None:
    """A stream has ended; of this batch and later ones nobody knows whether they are written."""
    if not has_begun(batch.writer(sink.name)):
        return  # nothing came, and there may be no table yet
    match sink:
        case ParquetSink(compact=True):
            parquet.finish(sink, batch)
        case LakeSink(compact=True):
            from moldau.spark.pipeline.sinks import lake

            lake.compact(sink, SparkSession.active())
