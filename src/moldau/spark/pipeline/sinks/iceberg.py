"""Tables of Apache Iceberg, each batch once: its number stands in the summary of the snapshot.

It is looked for there before a batch is written that may be written already, so that the last
snapshot that a pipeline has made must not expire while the pipeline is down.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so

from moldau.spark.pipeline.sinks.batch import Batch, begin
from moldau.spark.pipeline.sinks.counting import Counted
from moldau.spark.pipeline.sinks.lake import (
    compact_if_due,
    ddl,
    filled,
    marks_of,
    merge,
    quoted,
    settings,
    sql_name,
    with_columns,
)
from moldau.spark.pipeline.spec import LakeSink

_WRITER: Final = "snapshot-property.moldau.writer"
_NUMBER: Final = "snapshot-property.moldau.batch"
_SETTING: Final = "spark.sql.iceberg."
"""Where commands take them from that have no options."""


def write_batch(sink: LakeSink, frame: DataFrame, batch: Batch | None) -> int | None:
    spark = frame.sparkSession
    if batch is None or begin(batch.writer(sink.name), batch.number):
        _create(sink, frame)
        if batch is not None and _last_batch(sink, frame, batch) >= batch.number:
            return None
    columns = with_columns(sink, frame)
    marks = marks_of(sink, batch, _WRITER, _NUMBER)
    counted: Counted | None = None
    if sink.keys and sink.output_mode != "complete":
        with settings(spark, {f"{_SETTING}{name}": value for name, value in marks.items()}):
            merge(sink, frame, columns)
    else:
        counted = Counted(filled(frame, columns), wanted=batch is None)
        writer = counted.frame.writeTo(sql_name(sink)).options(**sink.options, **marks)
        if sink.output_mode == "complete":
            writer.overwrite(F.lit(True))
        else:
            writer.append()
    compact_if_due(sink, spark, batch)
    return None if counted is None else counted.rows


def _create(sink: LakeSink, frame: DataFrame) -> None:
    """Without rows; nothing if it is there. ``partition_by`` may have transforms in it."""
    spark = frame.sparkSession
    if spark.catalog.tableExists(sql_name(sink)):
        return
    *namespace, _ = sink.table.split(".")
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {'.'.join(map(quoted, namespace))}")
    partitions = ", ".join(one if "(" in one else quoted(one) for one in sink.partition_by)
    clause = f" PARTITIONED BY ({partitions})" if partitions else ""
    columns = ddl(frame.schema.fields)
    spark.sql(f"CREATE TABLE IF NOT EXISTS {sql_name(sink)} ({columns}) USING iceberg{clause}")


def _last_batch(sink: LakeSink, frame: DataFrame, batch: Batch) -> int:
    # The catalog may have cached what it was before.
    frame.sparkSession.catalog.refreshTable(sql_name(sink))
    summary = F.col("summary")
    found = (
        frame.sparkSession.table(f"{sql_name(sink)}.snapshots")
        .where(summary["moldau.writer"] == batch.writer(sink.name))
        .agg(F.max(summary["moldau.batch"].cast("bigint")).alias("last"))
        .first()
    )
    return -1 if found is None or found["last"] is None else int(found["last"])
