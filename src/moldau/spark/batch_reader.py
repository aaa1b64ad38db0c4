"""Batch queries: offsets are resolved when the query is planned, then one task reads each range."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from moldau.spark.filters import Bounds, narrow, pushed
from moldau.spark.lookup import OffsetLookup
from moldau.spark.offsets import plan
from moldau.spark.options import ReadOptions
from moldau.spark.read_task import RangePartition, read_range

_PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module that Spark's planner runs when spark.sql.python.filterPushdown.enabled is set."""


class BatchReader(DataSourceReader):
    """Reads all that lies between the starting and the ending offsets."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        lookup = OffsetLookup(options)
        try:
            partitions = lookup.partitions()
            start = lookup.resolve(options.starting, partitions)
            end = lookup.resolve(options.ending, partitions, ending=True)
            start, end = narrow(self._bounds, start, end, lookup.at_timestamp)
        finally:
            lookup.close()
        ranges = plan(
            start,
            end,
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
        )
        # Spark takes an empty list for "one task, whatever it reads".
        return [RangePartition(one) for one in ranges] or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, self._schema, partition)


class FilteringBatchReader(BatchReader):
    """Leaves out partitions and offsets that a filter on them rules out."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        self._bounds = pushed(filters)
        # Ranges are narrowed to what may match; Spark still looks at each row that is read.
        return filters


def batch_reader(options: ReadOptions, schema: StructType) -> BatchReader:
    """With filters only where they are switched on: Spark refuses such a reader otherwise.

    The planner's process has no session to ask for the setting, but which of Spark's modules runs
    there follows from it.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    enabled = _PUSHDOWN_WORKER in sys.modules or getattr(main, "name", "") == _PUSHDOWN_WORKER
    return (FilteringBatchReader if enabled else BatchReader)(options, schema)
