"""Rows to records, at least once: each task has a producer and ends when all is acknowledged.

The producer is idempotent and waits for all in-sync replicas. A task that Spark runs again sends
its rows again: that is what at-least-once means; ``exactlyOnce`` is the other choice.

The processes that plan and commit a write import this module too: what writing takes is imported
by the tasks that write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from moldau.spark.options import WriteOptions
from moldau.spark.record_columns import check_columns


@dataclass
class Written(WriterCommitMessage):
    """What a task has written."""

    records: int


def write_rows(
    options: WriteOptions, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Written:
    """All rows of a task, acknowledged."""
    from moldau.client.producer.producer import Producer
    from moldau.spark.produce import BULK_SETTINGS, RowProducer

    rows = RowProducer(Producer({**BULK_SETTINGS, **options.client}), options.topic, schema)
    with rows:
        for batch in batches:
            rows.send(batch)
        rows.flush()
    return Written(rows.sent)


class MoldauWriter(DataSourceArrowWriter):
    """``df.write.format("moldau")``."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(schema, options.topic)
        self._options = options
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_rows(self._options, self._schema, iterator)


class MoldauStreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream.format("moldau")``."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(schema, options.topic)
        self._options = options
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_rows(self._options, self._schema, iterator)
