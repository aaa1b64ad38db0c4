"""What a task does: fetch its offset range, decode it, hand Arrow batches to Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from moldau.spark.arrow import ArrowRows
from moldau.spark.bad_records import BadRecords, Fail, Null
from moldau.spark.fetch import RangeFetcher
from moldau.spark.offsets import OffsetRange
from moldau.spark.options import ReadOptions


class RangePartition(InputPartition):
    """One offset range, one task."""

    value: OffsetRange | None

    def __init__(self, value: OffsetRange | None) -> None:
        super().__init__(value)


def read_range(
    options: ReadOptions, schema: StructType, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """The rows of an offset range; a partition without one stands for a query without rows."""
    range_: OffsetRange | None = partition.value
    if range_ is None:
        return
    with ExitStack() as stack:
        rows = ArrowRows(schema, options, _bad_records(options, stack))
        for fetched in stack.enter_context(RangeFetcher(options, range_)):
            yield from rows.batches(fetched, range_)


def _bad_records(options: ReadOptions, stack: ExitStack) -> BadRecords:
    if options.on_bad_record == "deadletter":
        from moldau.spark.dead_letters import DeadLetters

        return stack.enter_context(DeadLetters(options))
    return Fail() if options.on_bad_record == "fail" else Null()
