"""What a task does: fetch its offset range, decode it, hand Arrow batches to Spark.

The planner, a process that Spark starts for each streaming query, imports this module for the
partitions alone: what reading takes is imported by the tasks that read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from moldau.spark.offsets import OffsetRange
from moldau.spark.options import ReadOptions

if TYPE_CHECKING:
    from moldau.spark.bad_records import BadRecords


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
    from moldau.spark.arrow import ArrowRows
    from moldau.spark.fetch import RangeFetcher

    with ExitStack() as stack:
        rows = ArrowRows(schema, options, _bad_records(options, range_, stack))
        for fetched in stack.enter_context(RangeFetcher(options, range_)):
            yield from rows.batches(fetched, range_)


def _bad_records(options: ReadOptions, range_: OffsetRange, stack: ExitStack) -> BadRecords:
    if options.on_bad_record == "deadletter":
        from moldau.spark.dead_letters import DeadLetters

        return stack.enter_context(DeadLetters(options, range_))
    from moldau.spark.bad_records import Fail, Null

    return Fail() if options.on_bad_record == "fail" else Null()
