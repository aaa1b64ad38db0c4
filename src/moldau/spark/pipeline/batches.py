"""A batch of a query to all of its sinks: read once, and what several sinks need computed once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from pyspark.sql import Column, DataFrame

from moldau.spark.pipeline.expectations import Expectations
from moldau.spark.pipeline.failures import PipelineFailedError
from moldau.spark.pipeline.frames import build_steps
from moldau.spark.pipeline.layout import Query
from moldau.spark.pipeline.progress import Expected
from moldau.spark.pipeline.sharing import apart, row_counts, untimed
from moldau.spark.pipeline.sinks import Batch, wants_empty, write_batch
from moldau.spark.pipeline.sinks.batch import keep, query_id
from moldau.spark.pipeline.spec import Pipeline, PythonStep, Sink
from moldau.spark.pipeline.start import KnownQueries
from moldau.spark.pipeline.step_functions import StepFunctions

_REMEMBERED: Final = 100
"""Batches whose counts wait to be reported."""


class BatchWriter:
    """What ``foreachBatch`` calls. Sinks are written one after the other, in the file's order.

    If one fails, so does the batch. When Spark runs it again, those that have it know its number.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        query: Query,
        frames: Mapping[str, DataFrame],
        functions: StepFunctions,
        known: KnownQueries,
        checkpoint: str,
    ) -> None:
        """``frames``: those that are no streams are used as they are."""
        self._pipeline = pipeline
        self._query = query
        self._functions = functions
        self._known = known
        self._still = {name: one for name, one in frames.items() if not one.isStreaming}
        self._steps = [one for one in pipeline.steps if one.name.lower() in query.plan.computed]
        self._checkpoint = checkpoint
        self._is_first = True
        self.failed: Sink | None = None
        """The sink that could not be written; None if the batch could not be read, either."""
        self.violation: PipelineFailedError | None = None
        """What to say of a row that ended the batch."""
        self._counts: dict[int, Expected] = {}
        """How many rows of each batch pass the rules of steps that are computed here."""

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.failed = None
        spark = frame.sparkSession
        self._counts.pop(number - _REMEMBERED, None)
        batch = Batch(query_id(spark), number, self._checkpoint)
        with ExitStack() as kept:
            whole, moment, empty = self._read(frame, kept)
            rules = Expectations(self._pipeline, moment)
            frames = {**self._still, **self._frontier(whole, rules)}
            build_steps(
                self._pipeline,
                self._steps,
                frames,
                spark,
                rules,
                self._functions,
                lambda name, one: self._shared(name, one, kept),
            )
            try:
                rules.verify()
            except PipelineFailedError as error:
                self.violation = error
                raise
            for sink in self._query.sinks:
                self.failed = sink
                if sink.input.lower() in empty and not wants_empty(sink, first=self._is_first):
                    continue
                write_batch(sink, frames[sink.input.lower()], batch)
        self._is_first = False
        self._known.went_on(self._query)
        self._counts[number] = rules.counts()
        self.failed = None

    def found(self, number: int) -> Expected:
        """How many rows of a batch passed the rules, and how many did not."""
        return self._counts.get(number, {})

    def _read(self, frame: DataFrame, kept: ExitStack) -> tuple[DataFrame, Column | None, set[str]]:
        """All rows of the batch, now: state is kept for those that are, whoever wants them.

        Also returns its time, if somebody has to know, and the names of frames without rows.
        """
        whole = keep(frame, kept)
        empty = self._empty(row_counts(whole, len(self._query.plan.frontier)))
        if self._query.plan.puts_aside:
            return *untimed(whole), empty
        return whole, None, empty

    def _empty(self, counts: list[int]) -> set[str]:
        names = self._query.plan.frontier
        empty = {name for name, rows in zip(names, counts, strict=True) if not rows}
        for step in self._steps:
            flowing = set(map(str.lower, step.inputs)) - self._still.keys()
            # A function of the user's may make rows of none.
            if flowing <= empty and not isinstance(step, PythonStep):
                empty.add(step.name.lower())
        return empty

    def _frontier(self, whole: DataFrame, rules: Expectations) -> dict[str, DataFrame]:
        plan = self._query.plan
        found = dict(zip(plan.frontier, apart(whole, len(plan.frontier)), strict=True))
        for part in self._pipeline.parts:
            name = part.name.lower()
            if name in plan.judged:
                found[name] = rules.apply(part, found[name])
        for name, one in found.items():
            one.createOrReplaceTempView(name)
        return found

    def _shared(self, name: str, frame: DataFrame, kept: ExitStack) -> DataFrame:
        return keep(frame, kept) if name in self._query.plan.reused else frame
