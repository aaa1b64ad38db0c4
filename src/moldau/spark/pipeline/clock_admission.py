"""The clock in runs that end by themselves, as PySpark 4.2 and later ask for it.

If one source of a query cannot do this, Spark ends after the batch in which the watermark has
moved, and what it has closed is not written before the next run.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from moldau.spark.pipeline.clock_source import ClockReader


class AdmittingClockReader(ClockReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    _target: dict[str, int] | None = None
    """Where a run that ends by itself ends."""

    def latestOffset(  # noqa: N802
        self,
        start: dict[str, int],  # noqa: ARG002
        limit: ReadLimit,  # noqa: ARG002
    ) -> dict[str, int]:
        return self.now() if self._target is None else self._target

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self.now()
