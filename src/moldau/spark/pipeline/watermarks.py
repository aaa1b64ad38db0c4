"""How late rows may be, in Spark's words."""

from __future__ import annotations

from pyspark.sql import DataFrame

from moldau.spark.pipeline.clock_source import with_clock
from moldau.spark.pipeline.idle import clock_file
from moldau.spark.pipeline.spec import Pipeline


def interval(duration: int) -> str:
    """Milliseconds in Spark's words."""
    return f"{duration} milliseconds"


class Watermarks:
    """Those of one pipeline's streams."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._clock = clock_file(pipeline)

    def mark(self, frame: DataFrame, time: str, watermark: int | None) -> DataFrame:
        """The frame with a watermark; one that is no stream needs none."""
        if watermark is None or not frame.isStreaming:
            return frame
        if self._clock is not None:
            return with_clock(frame, time, interval(watermark), self._clock)
        return frame.withWatermark(time, interval(watermark))
