"""A pipeline in a session of its own, until its end or a signal: what the command line runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkException

from moldau.spark.pipeline.run import PipelineFailedError as PipelineFailedError
from moldau.spark.pipeline.run import Report, Run
from moldau.spark.pipeline.run import once as ending
from moldau.spark.pipeline.spec import Pipeline
from moldau.spark.session import JavaNotFoundError as JavaNotFoundError
from moldau.spark.session import spark_session

_QUIET = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
"""Spark's own bars would be drawn over ours."""


def run_command(pipeline: Pipeline, report: Report, *, once: bool = False) -> None:
    """SIGINT and SIGTERM end it. A batch under way is given up, and comes again in the next run."""
    if once:
        pipeline = ending(pipeline)
    try:
        spark = spark_session(
            f"moldau pipeline {pipeline.name}",
            master=pipeline.master,
            config={**_QUIET, **pipeline.config},
        )
        try:
            run = Run(pipeline, spark, report)
            with _signals(run):
                run.wait()
        finally:
            spark.stop()
    except PySparkException as error:
        said = str(error).split("JVM stacktrace", 1)[0].strip()
        raise PipelineFailedError(f"Spark refused pipeline {pipeline.name}: {said}") from error


@contextmanager
def _signals(run: Run) -> Iterator[None]:
    def stop(*_: Any) -> None:
        run.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
