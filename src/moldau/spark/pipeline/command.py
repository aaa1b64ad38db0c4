"""A pipeline in a session of its own, until its end or a signal: what the command line runs."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from moldau.spark.pipeline.backfill import close_windows
from moldau.spark.pipeline.cores import PARTITIONS, local_partitions, set_cluster_partitions
from moldau.spark.pipeline.failures import reason
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.run import PipelineFailedError as PipelineFailedError
from moldau.spark.pipeline.run import Report, Run
from moldau.spark.pipeline.run import once as ending
from moldau.spark.pipeline.signals import RestartRequestedError as RestartRequestedError
from moldau.spark.pipeline.signals import Signals, Tell
from moldau.spark.pipeline.spec import Pipeline
from moldau.spark.pipeline.table_formats import session_config
from moldau.spark.pipeline.timings import Timings
from moldau.spark.session import JavaNotFoundError as JavaNotFoundError
from moldau.spark.session import ServerNotFoundError as ServerNotFoundError
from moldau.spark.session import spark_session

_QUIET: Final = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
"""Spark's own bars would be drawn over ours."""


def run_command(
    pipeline: Pipeline,
    report: Report,
    *,
    once: bool = False,
    tell: Tell = lambda _: None,
    timings: Timings | None = None,
) -> int | None:
    """Run it; the signal that came before the pipeline's end, None if it did what it should.

    SIGINT and SIGTERM are how a pipeline without an end is ended: its queries stop after the batch
    that they are at, or give it up if it takes long, and it comes again in the next run. A second
    signal waits for nothing. ``RestartRequestedError`` if it shall begin anew (SIGUSR1).
    ``tell`` hears when the queries run, and when they are being stopped.
    """
    if once:
        pipeline = ending(pipeline)
    with Signals(tell) as signals:
        try:
            _run(pipeline, report, signals, tell, timings or Timings())
        except KeyboardInterrupt:
            _kill_children()
            return signals.received or signal.SIGINT
        except (PySparkException, Py4JError, ConnectionError) as error:
            # A process manager may send the signal to Spark's process as well as to this one.
            if signals.received is None:
                raise _failed(pipeline, error) from error
    if signals.restart_requested:
        raise RestartRequestedError
    return signals.received if pipeline.trigger.ends else None


def _run(
    pipeline: Pipeline, report: Report, signals: Signals, tell: Tell, timings: Timings
) -> None:
    signals.interrupting = pipeline.remote
    spark = spark_session(
        f"moldau pipeline {pipeline.name}",
        master=pipeline.master,
        config={**_defaults(pipeline), **session_config(pipeline)},
    )
    try:
        if not pipeline.remote:
            timings.mark("Spark's process", spark.sparkContext.startTime / 1000)
        timings.mark("Spark's session")
        signals.install()  # Spark has put a handler of its own in the place
        if signals.received is not None:
            return
        signals.interrupting = True
        set_cluster_partitions(pipeline, spark)
        run = Run(pipeline, spark, _timed(report, timings))
        timings.mark("sources, steps, sinks")
        signals.run = run

        def stopping() -> None:
            if not pipeline.remote:
                # Spark complains at length of tasks that are given up.
                spark.sparkContext.setLogLevel("OFF")

        run.wait(stopping, lambda: tell("running"))
        for _ in () if run.stopped else close_windows(pipeline):
            signals.run = run = Run(pipeline, spark, report, streams_only=True)
            run.wait(stopping)
            if run.stopped:
                break
        timings.mark("after that")
    finally:
        _stop(spark)
        timings.mark("the end")


def _timed(report: Report, timings: Timings) -> Report:
    def timed(progress: Progress) -> None:
        if "first batch" not in timings.found:
            timings.mark("first batch")
        report(progress)

    return timed


def _defaults(pipeline: Pipeline) -> dict[str, str]:
    """A checkpoint keeps the number of partitions that it was begun with."""
    if pipeline.remote:
        return {}  # settings of the server
    partitions = local_partitions(pipeline.master)
    return _QUIET if partitions is None else {**_QUIET, PARTITIONS: partitions}


def _stop(spark: SparkSession) -> None:
    with suppress(Py4JError, ConnectionError):  # if Spark's process is gone
        spark.stop()


def _kill_children(of: int | Literal["self"] = "self") -> None:
    """Spark's process ends with this one, but not if it is still starting, or hangs."""
    for file in Path(f"/proc/{of}/task").glob("*/children"):
        with suppress(OSError):  # of processes and threads that have ended meanwhile
            for child in map(int, file.read_text().split()):
                _kill_children(child)
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)


def _failed(pipeline: Pipeline, error: Exception) -> PipelineFailedError:
    if isinstance(error, PySparkException):
        text = f"Spark refused pipeline {pipeline.name}: {reason(str(error))}"
        if "DATA_SOURCE_NOT_FOUND" in text and "moldau" in text:
            text += " Moldau must be installed for the driver's Python (PYSPARK_PYTHON there)."
        return PipelineFailedError(text)
    if isinstance(error, Py4JJavaError):
        return PipelineFailedError(
            f"Spark failed in pipeline {pipeline.name}: {reason(str(error))}"
        )
    return PipelineFailedError(
        f"Spark's process ended while pipeline {pipeline.name} was running", "lost"
    )
