"""Tables of Delta Lake, each batch once: its number stands in the same entry of the table's log."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from moldau.spark.pipeline.sinks.batch import Batch, begin
from moldau.spark.pipeline.sinks.counting import Counted
from moldau.spark.pipeline.sinks.lake import (
    compact_if_due,
    filled,
    located,
    marks_of,
    merge,
    settings,
    with_columns,
)
from moldau.spark.pipeline.spec import LakeSink

_WRITER: Final = "txnAppId"
_NUMBER: Final = "txnVersion"
_SETTING: Final = "spark.databricks.delta.write."
"""Where commands take them from that have no options."""


def write_batch(sink: LakeSink, frame: DataFrame, batch: Batch | None) -> int | None:
    spark = frame.sparkSession
    sink = located(sink, spark)
    if batch is None or begin(batch.writer(sink.name), batch.number):
        _create(sink, frame)
    columns = with_columns(sink, frame)
    marks = marks_of(sink, batch, _WRITER, _NUMBER)
    counted: Counted | None = None
    if sink.keys and sink.output_mode != "complete":
        with settings(spark, {f"{_SETTING}{name}": value for name, value in marks.items()}):
            merge(sink, frame, columns)
    else:
        mode = "overwrite" if sink.output_mode == "complete" else "append"
        counted = Counted(filled(frame, columns), wanted=batch is None)
        writer = counted.frame.write.format("delta").mode(mode)
        writer.options(**sink.options, **marks).save(sink.table)
    compact_if_due(sink, spark, batch)
    return None if counted is None else counted.rows


def _create(sink: LakeSink, frame: DataFrame) -> None:
    """Without rows; nothing if it is there."""
    writer = frame.limit(0).write.format("delta").mode("ignore")
    writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
    writer.save(sink.table)
