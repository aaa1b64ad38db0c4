"""A batch of a query to all of its sinks: read once, and what several sinks need computed once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from pyspark.sql import DataFrame

from moldau.spark.pipeline.frames import build_steps
from moldau.spark.pipeline.layout import Query
from moldau.spark.pipeline.sharing import apart
from moldau.spark.pipeline.sinks import Batch, write_batch
from moldau.spark.pipeline.spec import Pipeline, Sink

_QUERY_ID: Final = "sql.streaming.queryId"
_REMEMBERED: Final = 100
"""Batches whose counts wait to be reported."""


class BatchWriter:
    """What ``foreachBatch`` calls. Sinks are written one after the other, in the file's order.

    If one fails, so does the batch. When Spark runs it again, those that have it know its number.
    """

    def __init__(
        self, pipeline: Pipeline, query: Query, frames: Mapping[str, DataFrame], checkpoint: str
    ) -> None:
        """``frames``: those that are no streams are used as they are."""
        self._pipeline = pipeline
        self._query = query
        self._still = {name: one for name, one in frames.items() if not one.isStreaming}
        self._steps = [one for one in pipeline.steps if one.name.lower() in query.plan.computed]
        self._checkpoint = checkpoint
        self.failed: Sink | None = None
        """The sink that could not be written; None if the batch could not be read, either."""
        self.counts: dict[int, dict[str, int]] = {}
        """What was counted in each batch, by name: whoever counts something adds it here."""

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.failed = None
        spark = frame.sparkSession
        self.counts[number] = {}
        self.counts.pop(number - _REMEMBERED, None)
        id_ = spark.sparkContext.getLocalProperty(_QUERY_ID)
        with ExitStack() as kept:
            frames = {**self._still, **self._read(frame, kept)}
            build_steps(
                self._pipeline,
                self._steps,
                frames,
                spark,
                lambda name, one: self._shared(name, one, kept),
            )
            for sink in self._query.sinks:
                self.failed = sink
                batch = Batch(str(id_), number, self._checkpoint)
                write_batch(sink, frames[sink.input.lower()], batch)
        self.failed = None

    def _read(self, frame: DataFrame, kept: ExitStack) -> dict[str, DataFrame]:
        """All rows of the batch, now: state is kept for those that are, whoever wants them."""
        names = self._query.plan.frontier
        whole = keep(frame, kept)
        whole.count()
        found = dict(zip(names, apart(whole, len(names)), strict=True))
        for name, one in found.items():
            one.createOrReplaceTempView(name)
        return found

    def _shared(self, name: str, frame: DataFrame, kept: ExitStack) -> DataFrame:
        return keep(frame, kept) if name in self._query.plan.reused else frame


def keep(frame: DataFrame, kept: ExitStack) -> DataFrame:
    """Compute a frame once, for all that read it until the stack is closed."""
    frame.persist()
    kept.callback(frame.unpersist)
    return frame
