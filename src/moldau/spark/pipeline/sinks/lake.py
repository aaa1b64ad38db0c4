"""What tables of Delta and Iceberg have in common: columns that fit, MERGE by keys, compaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.utils import is_remote

from moldau.spark.pipeline.sinks.batch import Batch, SinkError
from moldau.spark.pipeline.sinks.files import HadoopFiles
from moldau.spark.pipeline.spec import LakeSink

COMPACT_EVERY: Final = 20
"""Batches, and at the end of a run."""
_POSITION: Final = "moldau_position"
_RANK: Final = "moldau_rank"


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def located(sink: LakeSink, spark: SparkSession) -> LakeSink:
    """With the full path of a folder: SQL would look for a relative one elsewhere."""
    if sink.format == "iceberg" or is_remote():
        return sink
    return replace(sink, table=HadoopFiles(spark, sink.table).place)


def sql_name(sink: LakeSink) -> str:
    """As SQL finds the table; Delta's are found by their folders."""
    if sink.format == "delta":
        return f"delta.{quoted(sink.table)}"
    return ".".join(map(quoted, sink.table.split(".")))


def ddl(columns: Sequence[T.StructField]) -> str:
    """Columns that may be NULL, whatever the first rows have in them."""
    return T.StructType([T.StructField(one.name, one.dataType) for one in columns]).toDDL()


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(name)


def with_columns(sink: LakeSink, frame: DataFrame) -> list[T.StructField]:
    """The columns of the table, new ones of the frame among them, if they may be added."""
    spark, table = frame.sparkSession, sql_name(sink)
    known = spark.table(table).schema.fields
    names = {one.name.lower() for one in known}
    new = [one for one in frame.schema.fields if one.name.lower() not in names]
    if not new:
        return known
    if not sink.schema_evolution:
        listed = ", ".join(one.name for one in new)
        raise SinkError(
            f"table {sink.table} has no column {listed}: add it to the table, leave it out of the "
            "rows, or let the sink add it with schema_evolution = true"
        )
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({ddl(new)})")
    return spark.table(table).schema.fields


def filled(frame: DataFrame, columns: Sequence[T.StructField]) -> DataFrame:
    """All columns of the table in its order: those that the frame does not have are NULL."""
    names = {one.lower() for one in frame.columns}
    return frame.select(
        *(
            F.col(quoted(one.name)).alias(one.name)
            if one.name.lower() in names
            else F.lit(None).cast(one.dataType).alias(one.name)
            for one in columns
        )
    )


def merge(sink: LakeSink, frame: DataFrame, columns: Sequence[T.StructField]) -> None:
    """Rows replace those with the same keys; columns that they do not have are left alone."""
    own = {one.lower() for one in frame.columns}
    keys = {one.lower() for one in sink.keys}
    names = [quoted(one.name) for one in columns]
    written = [one.name for one in columns if one.name.lower() in own]
    # NULL is a key like any other: it would be added anew by each batch that comes again.
    same = " AND ".join(f"t.{quoted(key)} <=> s.{quoted(key)}" for key in sink.keys)
    updates = ", ".join(
        f"t.{quoted(one)} = s.{quoted(one)}" for one in written if one.lower() not in keys
    )
    matched = f"WHEN MATCHED THEN UPDATE SET {updates} " if updates else ""
    view = f"moldau_{uuid.uuid4().hex}"
    spark = frame.sparkSession
    # MERGE reads its source several times: it is computed once, and cannot change meanwhile.
    source = filled(_last_of_each(frame, sink.keys), columns).localCheckpoint()
    source.createOrReplaceTempView(view)
    try:
        # The names come from whoever writes the file, who may run any query.
        spark.sql(
            f"MERGE INTO {sql_name(sink)} AS t USING {view} AS s ON {same} {matched}"  # noqa: S608
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) "
            f"VALUES ({', '.join(f's.{name}' for name in names)})"
        )
    finally:
        spark.catalog.dropTempView(view)


def marks_of(sink: LakeSink, batch: Batch | None, writer: str, number: str) -> dict[str, str]:
    """What stands with a batch in the table's log, under the names that the format has for it."""
    return {} if batch is None else {writer: batch.writer(sink.name), number: str(batch.number)}


def compact_if_due(sink: LakeSink, spark: SparkSession, batch: Batch | None) -> None:
    if sink.compact and batch is not None and (batch.number + 1) % COMPACT_EVERY == 0:
        compact(sink, spark)


def compact(sink: LakeSink, spark: SparkSession) -> None:
    """Small files become large ones; the old ones stay for those who read older versions."""
    if sink.format == "delta":
        spark.sql(f"OPTIMIZE {sql_name(located(sink, spark))}")
        return
    catalog, _, table = sink.table.partition(".")
    spark.sql(f"CALL {quoted(catalog)}.system.rewrite_data_files(table => '{table}')")


def _last_of_each(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Of several rows with the same keys the last one, in the order of partitions."""
    window = Window.partitionBy(*(F.col(quoted(key)) for key in keys)).orderBy(F.desc(_POSITION))
    return (
        frame.withColumn(_POSITION, F.monotonically_increasing_id())
        .withColumn(_RANK, F.row_number().over(window))
        .where(F.col(_RANK) == 1)
        .drop(_POSITION, _RANK)
    )
