"""Rules for the rows of sources and steps: each row is judged, counted, and goes where it should.

The frame of a source or step is observed (that gives the counts), then rows are left out, or end
the batch. Rows that are put aside are a frame of their own, which a sink reads as any other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from threading import Thread
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so

from moldau.spark.pipeline.failures import PipelineFailedError
from moldau.spark.pipeline.progress import FAILED, OBSERVED, Expected, expected
from moldau.spark.pipeline.refusals import blaming
from moldau.spark.pipeline.spec import Expectation, Pipeline, Source, Step
from moldau.spark.pipeline.violations import MARK, SAMPLE, violation

_VERDICTS: Final = "_moldau_verdicts"
_PATIENCE: Final = 5.0
"""Seconds for the counts of a frame that was written; one that no sink reads never has any."""


class Expectations:
    """The rules of one pipeline while its frames are built; a new one for each time."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._aside: list[DataFrame] = []
        self._observations: dict[str, Observation] = {}
        self._judged: list[tuple[Source | Step, DataFrame]] = []
        """Frames, no streams, whose rows may end the batch."""

    def apply(self, part: Source | Step, frame: DataFrame) -> DataFrame:
        """The rows that those after it see."""
        rules = part.expect
        if not rules:
            return frame
        columns = [F.col(f"`{name}`") for name in frame.columns]
        judged = self._observed(part, frame.select("*", self._verdicts(part, frame)))
        if any(rule.on_failure == "fail" for rule in rules):
            if not frame.isStreaming:
                self._judged.append((part, judged))
            judged = judged.filter(_or_fail(part, columns))
        if any(rule.on_failure == "quarantine" for rule in rules):
            self._aside.append(self._put_aside(part, judged, columns))
        for index, rule in enumerate(rules):
            if rule.on_failure in ("drop", "quarantine"):
                judged = judged.filter(_passed(index))
        return judged.select(*columns)

    def quarantine(self) -> DataFrame:
        """All rows that are put aside."""
        rows = self._aside[0]
        for more in self._aside[1:]:
            rows = rows.unionByName(more)
        return rows

    def verify(self) -> None:
        """Look for rows that end the batch before anything is written; not of streams."""
        for part, judged in self._judged:
            columns = [F.col(f"`{name}`") for name in judged.columns if name != _VERDICTS]
            samples = [
                F.min(F.when(~_passed(index), _sample(columns)))
                for index, rule in enumerate(part.expect)
                if rule.on_failure == "fail"
            ]
            # All rows are looked at: what is observed on the way counts once, and has to be whole.
            with blaming(self._pipeline, part, f"the rules of {part.name}"):
                found = judged.agg(*samples).head()
            rules = [rule for rule in part.expect if rule.on_failure == "fail"]
            for rule, row in zip(rules, found or (), strict=False):
                if row is not None:
                    raise PipelineFailedError(violation(self._pipeline, part.name, rule.name, row))

    def counts(self) -> Expected:
        """Of frames that are no streams, when they have been written."""
        return expected(
            {f"{OBSERVED}{name}": _get(one) for name, one in self._observations.items()}
        )

    def _verdicts(self, part: Source | Step, frame: DataFrame) -> Column:
        """Of each rule, whether the row passes: NULL is no yes."""
        found = []
        for rule in part.expect:
            verdict = F.coalesce(F.expr(rule.check), F.lit(False))
            with blaming(self._pipeline, rule, f"{part.name}, rule {rule.name}"):
                frame.select(verdict)
            found.append(verdict)
        return F.array(*found).alias(_VERDICTS)

    def _observed(self, part: Source | Step, judged: DataFrame) -> DataFrame:
        counts = [
            F.count_if(~_passed(index)).alias(f"{FAILED}{rule.name}")
            for index, rule in enumerate(part.expect)
        ]
        rows = F.count(F.lit(1)).alias("rows")
        if judged.isStreaming:
            return judged.observe(f"{OBSERVED}{part.name}", rows, *counts)
        observation = Observation()
        self._observations[part.name] = observation
        return judged.observe(observation, rows, *counts)

    def _put_aside(
        self, part: Source | Step, judged: DataFrame, columns: list[Column]
    ) -> DataFrame:
        failed = F.lit(False)
        for index, rule in enumerate(part.expect):
            if rule.on_failure == "quarantine":
                failed = failed | ~_passed(index)
        reasons = [
            F.when(~_passed(index), F.lit(rule.name)) for index, rule in enumerate(part.expect)
        ]
        return judged.filter(failed).select(
            F.current_timestamp().alias("time"),
            F.lit(self._pipeline.name).alias("pipeline"),
            F.lit(part.name).alias("step"),
            F.array_compact(F.array(*reasons)).alias("reasons"),
            F.to_json(F.struct(*columns)).alias("row"),
        )


def _passed(index: int) -> Column:
    return F.col(_VERDICTS)[index]


def _or_fail(part: Source | Step, columns: list[Column]) -> Column:
    """True, or the end of the batch.

    What is observed below is not reordered, so that rows that never were in the frame do not count.
    """
    condition = F.lit(True)
    for index, rule in enumerate(part.expect):
        if rule.on_failure == "fail":
            said = F.concat(F.lit(MARK), _report(part, rule, columns))
            condition = F.when(~_passed(index), F.raise_error(said)).otherwise(condition)
    return condition


def _report(part: Source | Step, rule: Expectation, columns: list[Column]) -> Column:
    names = json.dumps([part.name, rule.name])
    return F.concat(F.lit(f"{names} "), _sample(columns))


def _sample(columns: list[Column]) -> Column:
    return F.substring(F.to_json(F.struct(*columns)), 1, SAMPLE)


def _get(observation: Observation) -> Mapping[str, Any]:
    """What was observed, without waiting for ever."""
    found: list[Mapping[str, Any]] = []

    def get() -> None:
        found.append(observation.get)

    thread = Thread(target=get, name="expectations", daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return found[0] if found else {}
