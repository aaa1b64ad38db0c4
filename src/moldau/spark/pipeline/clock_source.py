"""The stream that raises watermarks in silence: its rows are the times that the driver writes.

They are joined to the rows of a step before the watermark is taken, and left out behind it. How far
this source is stands in Spark's checkpoint: a batch that runs again sees the same time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from moldau.spark.pipeline.progress import CLOCK
from moldau.spark.schema import arrow_schema

_TICK: Final = "_moldau_tick"


def with_clock(frame: DataFrame, column: str, watermark: str, file: Path) -> DataFrame:
    """A frame with its watermark, which rises with the clock as well."""
    spark = frame.sparkSession
    spark.dataSource.register(ClockSource)
    event_time = frame.select(column).schema.fields[0]
    clock = spark.readStream.format(ClockSource.name()).option("file", str(file)).load()
    # Spark takes the watermark off again.
    moment = (F.col("time") + F.expr(f"INTERVAL {watermark}")).cast(event_time.dataType)
    ticks = clock.select(moment.alias(event_time.name), F.lit(True).alias(_TICK))
    rows = frame.withColumn(_TICK, F.lit(False)).unionByName(ticks, allowMissingColumns=True)
    marked = rows.withWatermark(column, watermark)
    # A condition on the time is not moved to before the watermark is taken; others are.
    return marked.filter(~F.col(_TICK) | F.col(column).isNull()).drop(_TICK)


class ClockSource(DataSource):
    """The time of a file, each time that it has changed."""

    @classmethod
    def name(cls) -> str:
        return "moldau_clock"

    def schema(self) -> str:
        return "time TIMESTAMP"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        file = Path(self.options["file"])
        try:
            from moldau.spark.pipeline.clock_admission import AdmittingClockReader
        except ImportError:  # PySpark before 4.2
            return PlainClockReader(file, schema)
        return AdmittingClockReader(file, schema)


class ClockReader:
    """What is the same in all releases of Spark."""

    def __init__(self, file: Path, schema: StructType) -> None:
        self._file = file
        self._schema = schema

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {CLOCK: 0}

    def now(self) -> dict[str, int]:
        try:
            return {CLOCK: int(json.loads(self._file.read_text("utf-8"))[CLOCK])}
        except FileNotFoundError:
            return {CLOCK: 0}

    def partitions(
        self, start: Mapping[str, int], end: Mapping[str, int]
    ) -> Sequence[InputPartition]:
        return [InputPartition(end[CLOCK])] if end[CLOCK] > start[CLOCK] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(self._schema)
        moment = pa.array([partition.value * 1000], pa.int64()).cast(schema.field(0).type)
        yield pa.RecordBatch.from_arrays([moment], schema=schema)


class PlainClockReader(ClockReader, DataSourceStreamReader):
    """For PySpark before 4.2."""

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        return self.now()
