"""Rows to the terminal."""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame

from moldau.spark.pipeline.sinks.batch import Batch
from moldau.spark.pipeline.spec import ConsoleSink


def write_batch(sink: ConsoleSink, frame: DataFrame, batch: Batch | None) -> None:
    """The first rows; a batch that comes again is shown again."""
    if batch is not None:
        sys.stdout.write(f"{sink.name}, batch {batch.number}\n")
    frame.show(sink.rows, truncate=False)
