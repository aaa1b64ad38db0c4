"""Windows close in silence, too: a second stream raises the watermark when no records come.

Watermarks move with rows only. Here a tiny source has one: the time up to which nothing more is
waited for, which the driver writes to a file (``IdleClock``). Its rows are joined to those of the
step before the watermark is taken, and left out behind it. Where the source is stands in Spark's
checkpoint: a batch that runs again sees the same time.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from moldau.spark.pipeline.checkpoint import local_directory
from moldau.spark.pipeline.progress import CLOCK, Progress
from moldau.spark.pipeline.spec import Pipeline
from moldau.spark.schema import arrow_schema

IDLE_FILE: Final = "idle.json"
_TICK: Final = "_moldau_tick"


def clock_file(pipeline: Pipeline) -> Path | None:
    """Where the time is kept; None if windows do not close in silence."""
    if pipeline.trigger.idle is None:
        return None
    directory = local_directory(pipeline.checkpoint)
    if directory is None:
        # It begins anew with each run, which costs a batch.
        directory = Path(tempfile.gettempdir()) / f"moldau-pipeline-{pipeline.name}"
    return (directory / IDLE_FILE).absolute()


def write_clock(file: Path, moment: int) -> None:
    """Nothing from before this time, in milliseconds, is waited for any more."""
    file.parent.mkdir(parents=True, exist_ok=True)
    growing = file.with_name(f".{file.name}")
    growing.write_text(json.dumps({CLOCK: moment}), "utf-8")
    growing.replace(file)


def with_clock(frame: DataFrame, column: str, watermark: str, file: Path) -> DataFrame:
    """A frame with its watermark, which rises with the clock as well."""
    spark: SparkSession = frame.sparkSession
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
        return _ClockReader(Path(self.options["file"]), schema)


class _ClockReader(DataSourceStreamReader):
    def __init__(self, file: Path, schema: StructType) -> None:
        self._file = file
        self._schema = schema

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {CLOCK: 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
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


class IdleClock:
    """Tells when it has been quiet long enough, from what the queries of a run report.

    After ``idle`` without records all that is older than that is complete: the time in the file
    follows the clock, so long behind it. A record that comes later than that is late, and counted.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        # A run that ends by itself reads what is there, and waits for nothing.
        self._file = None if pipeline.trigger.ends else clock_file(pipeline)
        self._idle = (pipeline.trigger.idle or 0) / 1000
        self._busy_at = time.monotonic()
        self._ticked_at: float | None = None
        self._last: dict[str, Progress] = {}

    def saw(self, progress: Progress) -> None:
        """A batch is done, or there was none for a while."""
        self._last[progress.sink] = progress
        if progress.rows:
            self._busy_at = time.monotonic()

    def look(self, queries: Iterable[Any]) -> None:
        """``queries``: all that run now; to be called now and then."""
        if self._file is None:
            return
        running = list(queries)
        now = time.monotonic()
        if any(_reads(query.status) for query in running):
            self._busy_at = now
        if len(self._last) < len(running) or not self._is_quiet(now) or not self._is_of_use():
            return
        self._ticked_at = now
        write_clock(self._file, int((time.time() - self._idle) * 1000))

    def _is_quiet(self, now: float) -> bool:
        since = max(self._busy_at, self._ticked_at or 0.0)
        # What was not read yet is no silence.
        caught_up = all(one.rows == 0 or one.lag == 0 for one in self._last.values())
        return caught_up and now - since >= self._idle

    def _is_of_use(self) -> bool:
        """Whether something may be open: after a start nobody knows."""
        if self._ticked_at is None or self._busy_at > self._ticked_at:
            return True
        return any(one.state_rows for one in self._last.values())


def _reads(status: Mapping[str, Any]) -> bool:
    """Whether a batch with records is under way, however long it takes."""
    return bool(status.get("isTriggerActive") and status.get("isDataAvailable"))
