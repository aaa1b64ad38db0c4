"""Any format that Spark can write, at least once: nobody but the format knows of batches."""

from __future__ import annotations

from pyspark.sql import DataFrame

from moldau.spark.pipeline.sinks.batch import Batch
from moldau.spark.pipeline.sinks.counting import Counted
from moldau.spark.pipeline.spec import FormatSink


def write_batch(sink: FormatSink, frame: DataFrame, batch: Batch | None) -> int | None:
    counted = Counted(frame, wanted=batch is None)
    writer = counted.frame.write.format(sink.format).options(**sink.options).mode("append")
    writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
    writer.save()
    return counted.rows
