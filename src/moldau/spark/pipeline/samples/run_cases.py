"""Running cases: all in one session, each with frames of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so

from moldau.spark.decode.columns import DecodeError
from moldau.spark.pipeline.expectations import Expectations
from moldau.spark.pipeline.failures import PipelineFailedError, reason
from moldau.spark.pipeline.frames import build_frames
from moldau.spark.pipeline.load import load_pipeline
from moldau.spark.pipeline.problems import did_you_mean
from moldau.spark.pipeline.samples.cases import Case, Row
from moldau.spark.pipeline.samples.diff import columns_of, difference, same
from moldau.spark.pipeline.samples.given import DeadLetters, frame_of
from moldau.spark.pipeline.samples.outcome import Compared, Outcome
from moldau.spark.pipeline.samples.values import SampleError
from moldau.spark.pipeline.sinks.topic import records
from moldau.spark.pipeline.spec import Pipeline, Source, Step, TopicSink, WindowStep
from moldau.spark.pipeline.violations import told_violation
from moldau.spark.session import spark_session

_CONFIG: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.session.timeZone": "UTC",
}
"""For a handful of rows."""


def sample_session(pipeline: Pipeline) -> SparkSession:
    """On this machine, wherever the pipeline itself runs."""
    own = {name: value for name, value in pipeline.config.items() if name.startswith("spark.sql.")}
    cores = min(2, os.cpu_count() or 1)
    return spark_session(
        f"moldau pipeline test {pipeline.name}", master=f"local[{cores}]", config={**_CONFIG, **own}
    )


def run_cases(
    pipeline: Pipeline,
    given: Mapping[str, str],
    cases: Iterable[Case],
    spark: SparkSession,
) -> Iterator[Outcome]:
    """``given``: parameters; a case may have others."""
    for case in cases:
        begin = time.monotonic()
        compared: list[Compared] = []
        error: str | None = None
        try:
            own = pipeline
            if case.parameters:
                own = load_pipeline(pipeline.file, {**given, **case.parameters})
            sampled = Sampled(own, case.given, spark, until=case.until)
            sampled.verify()
            compared = list(_compare(case, sampled))
        except (PipelineFailedError, SampleError) as failed:
            error = str(failed)
        except DecodeError as failed:
            error = f"{failed}"
        except PySparkException as failed:
            error = told_violation(pipeline, str(failed)) or reason(str(failed))
        if case.fails is not None:
            error = _failed_as_expected(case.fails, error)
        yield Outcome(case, time.monotonic() - begin, compared, error)


def _failed_as_expected(fails: str, error: str | None) -> str | None:
    if error is None:
        return f"it should fail with {fails!r}, and does not"
    return None if fails in error else f"it should fail with {fails!r}, and says: {error}"


class Sampled:
    """A pipeline whose sources are sample rows."""

    def __init__(
        self,
        pipeline: Pipeline,
        given: Mapping[str, Sequence[Row]],
        spark: SparkSession,
        *,
        until: datetime | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._letters: dict[str, DeadLetters] = {}
        self._expectations = _Until(pipeline, until)

        def read(source: Source, session: SparkSession) -> DataFrame:
            letters = self._letters[source.name] = DeadLetters()
            try:
                return frame_of(source, given.get(source.name, ()), session, letters)
            except (SampleError, DecodeError) as error:
                raise PipelineFailedError(f"source {source.name}: {error}") from error

        self._frames = build_frames(pipeline, spark, self._expectations, read=read)

    def verify(self) -> None:
        """``PipelineFailedError`` if a row ends the batch."""
        self._expectations.verify()

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Of a source or step."""
        return _rows(self._frames[name.lower()])

    def written(self, name: str) -> list[dict[str, Any]]:
        """What a sink would write."""
        sink = next(one for one in self._pipeline.sinks if one.name == name)
        frame = self._frames[sink.input.lower()]
        if isinstance(sink, TopicSink):
            frame = records(replace(sink, rate=None), frame)
        return _rows(frame)

    def dead_letters(self, name: str) -> list[dict[str, Any]]:
        return self._letters[name].rows


class _Until(Expectations):
    """Leaves out the windows that are open at a time."""

    def __init__(self, pipeline: Pipeline, until: datetime | None) -> None:
        super().__init__(pipeline)
        self._until = until

    def apply(self, part: Source | Step, frame: DataFrame) -> DataFrame:
        if self._until is not None and isinstance(part, WindowStep):
            frame = frame.filter(F.col("window_end") <= F.lit(self._until))
        return super().apply(part, frame)


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return found


def _compare(case: Case, sampled: Sampled) -> Iterator[Compared]:
    groups: tuple[tuple[str, Any, Callable[[str], list[dict[str, Any]]]], ...] = (
        ("expect", case.expect, sampled.rows),
        ("sinks", case.sinks, sampled.written),
        ("dead_letters", case.dead_letters, sampled.dead_letters),
    )
    for key, expected, get in groups:
        for name, wanted in expected.items():
            found = get(name)
            if key == "dead_letters":
                wanted = [_with_reason(row, found) for row in wanted]
            _check_columns(case, key, name, wanted, found)
            differs = difference(wanted, found, ordered=case.ordered)
            if differs:
                yield Compared(key, name, case.lines[key, name], differs)


def _with_reason(row: Row, found: Sequence[Row]) -> Row:
    """A part of the reason is enough."""
    part = row.get("reason")
    others = {name: value for name, value in row.items() if name != "reason"}
    for one in found:
        fits = all(same(value, one.get(name)) for name, value in others.items())
        if part is not None and fits and part in one["reason"]:
            return {**row, "reason": one["reason"]}
    return row


def _check_columns(
    case: Case, key: str, name: str, wanted: Sequence[Row], found: Sequence[Row]
) -> None:
    """A column that is not there would be NULL, and a mistake in its name found nowhere."""
    if not found:
        return
    for column in columns_of(wanted):
        if column not in found[0]:
            raise SampleError(
                f"line {case.lines[key, name]}: {name} has no column {column}: "
                f"{did_you_mean(column, found[0])}"
            )
