"""Rules for the rows of sources and steps: each row is judged, counted, and goes where it should.

The frame of a source or step is judged, then rows are left out, or end the batch. Rows that are put
aside are a frame of their own, which a sink reads as any other. Streams are observed while they are
written, which gives the counts. Frames that are no streams are counted before: their readers need
not read all rows, and of some of Spark's ways to read nothing that was observed is heard.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so

from moldau.spark.pipeline.failures import PipelineFailedError
from moldau.spark.pipeline.progress import FAILED, OBSERVED, Expected, expected
from moldau.spark.pipeline.refusals import blaming
from moldau.spark.pipeline.spec import Expectation, Pipeline, Source, Step
from moldau.spark.pipeline.violations import MARK, SAMPLE, violation

_VERDICTS: Final = "_moldau_verdicts"


class Expectations:
    """The rules of one pipeline while its frames are built; a new one for each time."""

    def __init__(self, pipeline: Pipeline, moment: Column | None = None) -> None:
        """``moment``: the time of the batch; a stream knows it by itself."""
        self._pipeline = pipeline
        self._moment = moment
        self._aside: list[DataFrame] = []
        self._judged: list[tuple[Source | Step, DataFrame]] = []
        """Frames that are no streams."""
        self._counts: dict[str, Any] = {}

    def apply(self, part: Source | Step, frame: DataFrame) -> DataFrame:
        """The rows that those after it see."""
        rules = part.expect
        if not rules:
            return frame
        columns = [F.col(f"`{name}`") for name in frame.columns]
        judged = frame.select("*", self._verdicts(part, frame))
        if frame.isStreaming:
            judged = judged.observe(f"{OBSERVED}{part.name}", *_counting(part))
        else:
            self._judged.append((part, judged))
        if any(rule.on_failure == "fail" for rule in rules):
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
        """Count rows, and look for those that end the batch; not of streams, which do so later."""
        for part, judged in self._judged:
            columns = [F.col(f"`{name}`") for name in judged.columns if name != _VERDICTS]
            failing = [rule for rule in part.expect if rule.on_failure == "fail"]
            samples = [
                F.min(F.when(~_passed(part.expect.index(rule)), _sample(columns)))
                for rule in failing
            ]
            with blaming(self._pipeline, part, f"the rules of {part.name}"):
                found = judged.agg(*_counting(part), *samples).head()
            assert found is not None
            counted = len(part.expect) + 1
            for rule, row in zip(failing, found[counted:], strict=True):
                if row is not None:
                    raise PipelineFailedError(violation(self._pipeline, part.name, rule.name, row))
            self._counts[f"{OBSERVED}{part.name}"] = dict(
                zip(found.__fields__[:counted], found, strict=False)
            )

    def counts(self) -> Expected:
        """Of frames that are no streams, when they have been verified."""
        return expected(self._counts)

    def _verdicts(self, part: Source | Step, frame: DataFrame) -> Column:
        """Of each rule, whether the row passes: NULL is no yes."""
        found = []
        for rule in part.expect:
            verdict = F.coalesce(F.expr(rule.check), F.lit(False))
            with blaming(self._pipeline, rule, f"{part.name}, rule {rule.name}"):
                frame.select(verdict)
            found.append(verdict)
        return F.array(*found).alias(_VERDICTS)

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
            (F.current_timestamp() if self._moment is None else self._moment).alias("time"),
            F.lit(self._pipeline.name).alias("pipeline"),
            F.lit(part.name).alias("step"),
            F.array_compact(F.array(*reasons)).alias("reasons"),
            F.to_json(F.struct(*columns)).alias("row"),
        )


def _counting(part: Source | Step) -> list[Column]:
    """All rows, and those that fail each rule."""
    return [
        F.count(F.lit(1)).alias("rows"),
        *(
            F.count_if(~_passed(index)).alias(f"{FAILED}{rule.name}")
            for index, rule in enumerate(part.expect)
        ),
    ]


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
