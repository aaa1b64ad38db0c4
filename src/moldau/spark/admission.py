"""Limits on micro-batches, AvailableNow and lag in progress reports: PySpark 4.2 and later."""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from moldau.spark.offsets import to_nested
from moldau.spark.stream_reader import Offsets, StreamPlan


class AdmittingStreamReader(StreamPlan, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark asks with a limit: its own, or the one that the options make."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        # Without limits in the options, "all" is what they say too.
        return self.batch_end(start, everything=isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        return to_nested(self.latest())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.freeze()
