"""Folders of Parquet files, each row once for whoever reads the files: no list says which count.

A batch is written beside the folder and moved into it file by file, under names that a batch that
runs again takes again.
"""

from __future__ import annotations

import uuid

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from moldau.spark.pipeline.preflight.tables import SPARK_METADATA, metadata_problem
from moldau.spark.pipeline.sinks.batch import Batch, SinkError, begin
from moldau.spark.pipeline.sinks.compaction import compact
from moldau.spark.pipeline.sinks.counting import Counted
from moldau.spark.pipeline.sinks.files import Files, LocalFiles, files_of
from moldau.spark.pipeline.sinks.parts import adopt, staging_of
from moldau.spark.pipeline.spec import ParquetSink


def write_batch(sink: ParquetSink, frame: DataFrame, batch: Batch | None) -> int | None:
    """A frame that is no stream is a batch of its own: it adds its files."""
    spark = frame.sparkSession
    files = files_of(spark, sink.path)
    if files.has_folder(SPARK_METADATA):
        raise SinkError(metadata_problem(sink.path))
    once = batch or Batch(uuid.uuid4().hex, 0)
    writer = once.writer(sink.name)
    again = begin(writer, once.number)
    if sink.compact and sink.partition_by:
        # One file for each folder and batch.
        frame = frame.repartition(*sink.partition_by)
    counted = Counted(frame, wanted=batch is None or not _is_local(files, spark))
    output = counted.frame.write.mode("overwrite")
    output = output.partitionBy(*sink.partition_by) if sink.partition_by else output
    output.parquet(f"{files.staging}/{staging_of(writer, once.number)}")

    def has_rows(name: str) -> bool:
        if batch is None:
            return True  # it has the columns, for whoever reads a folder without rows
        if isinstance(files, LocalFiles) and not sink.partition_by:
            return bool(pq.read_metadata(files.staged_file(name)).num_rows)
        return counted.rows != 0

    names = adopt(files, writer, once.number, again=again, has_rows=has_rows)
    if isinstance(files, LocalFiles):
        _check(files, names, counted.rows)
        if sink.compact:
            compact(files, writer, once.number)
    return counted.rows


def finish(sink: ParquetSink, batch: Batch) -> None:
    files = files_of(SparkSession.active(), sink.path)
    if isinstance(files, LocalFiles):
        compact(files, batch.writer(sink.name), batch.number)


def _is_local(files: Files, spark: SparkSession) -> bool:
    """Whether all files are there to be looked at, and workers have no other folder of the name."""
    local = is_remote() or str(spark.sparkContext.master).startswith("local")
    return isinstance(files, LocalFiles) and local


def _check(files: LocalFiles, names: list[str], rows: int | None) -> None:
    if rows is None:
        return
    found = sum(pq.read_metadata(files.directory / name).num_rows for name in names)
    if found < rows:
        raise SinkError(
            f"{rows} rows were written to {files.directory} and {found} are there: the workers "
            "have another folder of that name. Choose one that all machines share, such as "
            "hdfs:// or s3a://"
        )
