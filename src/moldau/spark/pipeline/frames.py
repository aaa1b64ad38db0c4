"""Sources and steps as data frames, each a view that SQL finds by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import singledispatch
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so

from moldau.spark.pipeline.expectations import Expectations
from moldau.spark.pipeline.graph import watermarked
from moldau.spark.pipeline.refusals import blaming
from moldau.spark.pipeline.spec import (
    ChangesSource,
    DeduplicateStep,
    FileSource,
    FormatSource,
    JoinStep,
    LakeSource,
    Pipeline,
    PythonStep,
    QuarantineStep,
    Source,
    SqlStep,
    Step,
    TableSource,
    TopicSource,
    WindowStep,
)
from moldau.spark.pipeline.step_functions import StepFunctions
from moldau.spark.pipeline.watermarks import Watermarks, interval

Made = Callable[[str, DataFrame], DataFrame]
"""Told of each frame and its name, before its rules; others use what it returns."""
Read = Callable[[Source, SparkSession], DataFrame]


class ReadOnce:
    """For frames that are built several times: a data source says once what its columns are."""

    def __init__(self) -> None:
        self._frames: dict[str, DataFrame] = {}

    def __call__(self, source: Source, spark: SparkSession) -> DataFrame:
        if source.name not in self._frames:
            self._frames[source.name] = _read(source, spark)
        return self._frames[source.name]


def _as_it_is(_name: str, frame: DataFrame) -> DataFrame:
    return frame


def build_frames(
    pipeline: Pipeline,
    spark: SparkSession,
    expectations: Expectations | None = None,
    functions: StepFunctions | None = None,
    *,
    read: Read | None = None,
    made: Made = _as_it_is,
) -> dict[str, DataFrame]:
    """All frames by name in lower case, as SQL compares names; ``read`` gives those of sources."""
    frames: dict[str, DataFrame] = {}
    rules = expectations or Expectations(pipeline)
    functions = functions or StepFunctions(pipeline)
    for source in pipeline.sources:
        with blaming(pipeline, source, f"source {source.name}"):
            frame = (read or _read)(_signed(source, pipeline), spark)
            _add(source, made(source.name.lower(), frame), frames, rules)
    build_steps(pipeline, pipeline.steps, frames, spark, rules, functions, made)
    return frames


def build_steps(
    pipeline: Pipeline,
    steps: Iterable[Step],
    frames: dict[str, DataFrame],
    spark: SparkSession,
    rules: Expectations,
    functions: StepFunctions,
    made: Made = _as_it_is,
) -> None:
    """Add the frames of these steps to those of their inputs."""
    carried = watermarked(pipeline.steps)
    watermarks = Watermarks(pipeline)
    for step in steps:
        inputs = [frames[name.lower()] for name in step.inputs]
        if isinstance(step, JoinStep):
            inputs = [
                frame if name.lower() in carried else watermarks.mark(frame, time, step.watermark)
                for frame, name, time in zip(
                    inputs, step.inputs, (step.left_time, step.right_time), strict=True
                )
            ]
        with blaming(pipeline, step, f"step {step.name}"):
            frame = _apply(step, inputs, spark, functions, rules, watermarks)
            _add(step, made(step.name.lower(), frame), frames, rules)


def _add(
    part: Source | Step, frame: DataFrame, frames: dict[str, DataFrame], rules: Expectations
) -> None:
    checked = rules.apply(part, frame)
    checked.createOrReplaceTempView(part.name)
    frames[part.name.lower()] = checked


def _signed(source: Source, pipeline: Pipeline) -> Source:
    """Dead letters say whose they are."""
    if isinstance(source, TopicSource) and "deadLetterTopic" in source.options:
        return replace(source, options={**source.options, "deadLetterPipeline": pipeline.name})
    return source


@singledispatch
def _read(source: Source, spark: SparkSession) -> DataFrame:
    raise NotImplementedError(type(source))


@_read.register
def _(source: TopicSource, spark: SparkSession) -> DataFrame:
    reader = spark.readStream if source.streaming else spark.read
    return reader.format("moldau").options(**source.options).load()


@_read.register
def _(source: FileSource, spark: SparkSession) -> DataFrame:
    reader: Any = spark.readStream if source.streaming else spark.read
    reader = reader.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    frame: DataFrame = reader.load(source.path)
    if source.between is not None and source.time is not None:
        begin, end = (F.timestamp_millis(F.lit(moment)) for moment in source.between)
        moment = F.col(source.time)
        frame = frame.filter((moment >= begin) & (moment < end))
    return frame


@_read.register
def _(source: TableSource, spark: SparkSession) -> DataFrame:
    from moldau.spark.pipeline.database import read_query

    names, rows = read_query(source.database, source.query)
    return spark.createDataFrame(rows, source.schema or names)


@_read.register
def _(source: ChangesSource, spark: SparkSession) -> DataFrame:
    return spark.readStream.format("moldau_changes").options(**source.options).load()


@_read.register
def _(source: LakeSource, spark: SparkSession) -> DataFrame:
    reader: Any = spark.readStream if source.streaming else spark.read
    reader = reader.format(source.format).options(**source.options)
    frame: DataFrame = reader.load(source.table)
    return frame


@_read.register
def _(source: FormatSource, spark: SparkSession) -> DataFrame:
    reader: Any = spark.readStream if source.streaming else spark.read
    reader = reader.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    frame: DataFrame = reader.load()
    return frame


def _apply(
    step: Step,
    inputs: list[DataFrame],
    spark: SparkSession,
    functions: StepFunctions,
    expectations: Expectations,
    watermarks: Watermarks,
) -> DataFrame:
    match step:
        case SqlStep():
            return spark.sql(step.sql)
        case PythonStep():
            return _call(step, inputs, functions)
        case WindowStep():
            return _window(step, inputs[0], watermarks)
        case JoinStep():
            return _join(step, inputs[0], inputs[1])
        case DeduplicateStep():
            return _deduplicate(step, inputs[0], watermarks)
        case QuarantineStep():
            return expectations.quarantine()


def _call(step: PythonStep, inputs: list[DataFrame], functions: StepFunctions) -> DataFrame:
    frame = functions.find(step.function)(*inputs, **step.arguments)
    if not isinstance(frame, DataFrame):
        raise TypeError(f"{step.function} of step {step.name} gave no data frame but {frame!r}")
    return frame


def _window(step: WindowStep, frame: DataFrame, watermarks: Watermarks) -> DataFrame:
    slide = None if step.slide is None else interval(step.slide)
    window = F.window(F.col(step.time), interval(step.size), slide)
    groups = watermarks.mark(frame, step.time, step.watermark).groupBy(window, *step.group_by)
    counted = groups.agg(*(F.expr(text).alias(name) for name, text in step.aggregate.items()))
    # The window's column stays until the end of this step only: later ones see two times.
    return counted.select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        *step.group_by,
        *step.aggregate,
    )


def _join(step: JoinStep, left: DataFrame, right: DataFrame) -> DataFrame:
    if step.within is None:
        return left.join(right, list(step.on), _HOW.get(step.how, step.how))
    left, right = left.alias("l"), right.alias("r")
    bound = F.expr(f"INTERVAL {interval(step.within)}")
    first, second = F.col(f"l.`{step.left_time}`"), F.col(f"r.`{step.right_time}`")
    condition = (second >= first - bound) & (second <= first + bound)
    for key in step.on:
        condition = condition & (F.col(f"l.`{key}`") == F.col(f"r.`{key}`"))
    joined = left.join(right, condition, _HOW.get(step.how, step.how))
    if step.how in ("left_semi", "left_anti"):
        return joined
    # Names that both sides have: keys come from the left, others of the right say so.
    more = [
        F.col(f"r.`{name}`").alias(f"{step.inputs[1]}_{name}" if name in left.columns else name)
        for name in right.columns
        if name not in step.on
    ]
    return joined.select("l.*", *more)


_HOW = {"left": "left_outer", "right": "right_outer", "full": "full_outer"}


def _deduplicate(step: DeduplicateStep, frame: DataFrame, watermarks: Watermarks) -> DataFrame:
    if not frame.isStreaming:
        return frame.dropDuplicates(list(step.keys))
    marked = watermarks.mark(frame, step.time, step.watermark)
    return marked.dropDuplicatesWithinWatermark(list(step.keys))
