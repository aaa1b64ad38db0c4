"""Sources and steps as data frames, each a view that SQL finds by its name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import singledispatch
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so

from moldau.spark.pipeline.failures import failure, own_failure
from moldau.spark.pipeline.graph import watermarked
from moldau.spark.pipeline.spec import (
    ChangesSource,
    DeduplicateStep,
    FileSource,
    JoinStep,
    Part,
    Pipeline,
    PythonStep,
    Source,
    SqlStep,
    Step,
    TableSource,
    TopicSource,
    WindowStep,
)

Frames = Mapping[str, DataFrame]


def build_frames(pipeline: Pipeline, spark: SparkSession) -> dict[str, DataFrame]:
    """All frames by name in lower case, as SQL compares names."""
    frames: dict[str, DataFrame] = {}
    for source in pipeline.sources:
        with _blaming(pipeline, source, f"source {source.name}"):
            frames[source.name.lower()] = _view(_read(source, spark), source.name)
    folder = Path(pipeline.file).parent
    carried = watermarked(pipeline.steps)
    for step in pipeline.steps:
        inputs = [frames[name.lower()] for name in step.inputs]
        if isinstance(step, JoinStep):
            inputs = [
                frame if name.lower() in carried else _marked(frame, time, step.watermark)
                for frame, name, time in zip(
                    inputs, step.inputs, (step.left_time, step.right_time), strict=True
                )
            ]
        with _blaming(pipeline, step, f"step {step.name}"):
            frames[step.name.lower()] = _view(_apply(step, inputs, spark, folder), step.name)
    return frames


@contextmanager
def _blaming(pipeline: Pipeline, part: Part, what: str) -> Iterator[None]:
    """What Spark refuses is told with the line of the file, and so is what users' code raises."""
    try:
        yield
    except PySparkException as error:
        raise failure(pipeline, part, what, error) from error
    except (Py4JError, ConnectionError):
        raise  # Spark is gone
    except Exception as error:
        raise own_failure(pipeline, part, what, error) from error


def _view(frame: DataFrame, name: str) -> DataFrame:
    frame.createOrReplaceTempView(name)
    return frame


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
    return frame


@_read.register
def _(source: TableSource, spark: SparkSession) -> DataFrame:
    from moldau.spark.pipeline.database import read_query

    names, rows = read_query(source.database, source.query)
    return spark.createDataFrame(rows, source.schema or names)


@_read.register
def _(source: ChangesSource, spark: SparkSession) -> DataFrame:
    return spark.readStream.format("moldau_changes").options(**source.options).load()


def _apply(step: Step, inputs: list[DataFrame], spark: SparkSession, folder: Path) -> DataFrame:
    match step:
        case SqlStep():
            return spark.sql(step.sql)
        case PythonStep():
            return _call(step, inputs, folder)
        case WindowStep():
            return _window(step, inputs[0])
        case JoinStep():
            return _join(step, inputs[0], inputs[1])
        case DeduplicateStep():
            return _deduplicate(step, inputs[0])


def _call(step: PythonStep, inputs: list[DataFrame], folder: Path) -> DataFrame:
    frame = find_function(step.function, folder)(*inputs, **step.arguments)
    if not isinstance(frame, DataFrame):
        raise TypeError(f"{step.function} of step {step.name} gave no data frame but {frame!r}")
    return frame


def find_function(reference: str, folder: Path) -> Callable[..., Any]:
    """``module:function``, or ``file.py:function`` with the file beside the pipeline's."""
    place, _, name = reference.rpartition(":")
    if place.endswith(".py"):
        file = folder / place
        spec = spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        # Spark's workers get functions of the module by value: they have no such file.
        sys.modules[spec.name] = module
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        spec.loader.exec_module(module)
    else:
        module = import_module(place)
    function: Callable[..., Any] = getattr(module, name)
    return function


def interval(duration: int) -> str:
    """Milliseconds in Spark's words."""
    return f"{duration} milliseconds"


def _marked(frame: DataFrame, time: str, watermark: int | None) -> DataFrame:
    if watermark is None or not frame.isStreaming:
        return frame
    return frame.withWatermark(time, interval(watermark))


def _window(step: WindowStep, frame: DataFrame) -> DataFrame:
    slide = None if step.slide is None else interval(step.slide)
    window = F.window(F.col(step.time), interval(step.size), slide)
    groups = _marked(frame, step.time, step.watermark).groupBy(window, *step.group_by)
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


def _deduplicate(step: DeduplicateStep, frame: DataFrame) -> DataFrame:
    if not frame.isStreaming:
        return frame.dropDuplicates(list(step.keys))
    marked = _marked(frame, step.time, step.watermark)
    return marked.dropDuplicatesWithinWatermark(list(step.keys))
