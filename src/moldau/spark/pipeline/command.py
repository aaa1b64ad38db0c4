"""A pipeline in a session of its own, until its end or a signal: what the command line runs."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Literal, Self

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from moldau.spark.pipeline.backfill import close_windows
from moldau.spark.pipeline.failures import reason
from moldau.spark.pipeline.run import PipelineFailedError as PipelineFailedError
from moldau.spark.pipeline.run import Report, Run
from moldau.spark.pipeline.run import once as ending
from moldau.spark.pipeline.spec import Pipeline
from moldau.spark.session import JavaNotFoundError as JavaNotFoundError
from moldau.spark.session import ServerNotFoundError as ServerNotFoundError
from moldau.spark.session import spark_session

_QUIET: Final = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
"""Spark's own bars would be drawn over ours."""

_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*))?")

State = Literal["running", "stopping"]


def run_command(
    pipeline: Pipeline,
    report: Report,
    *,
    once: bool = False,
    tell: Callable[[State], None] = lambda _: None,
) -> int | None:
    """Run it; the signal that came before the pipeline's end, None if it did what it should.

    SIGINT and SIGTERM are how a pipeline without an end is ended: its queries stop, and a batch
    under way is given up and comes again in the next run. A second signal waits for nothing.
    ``tell`` hears when the queries run, and when they are being stopped.
    """
    if once:
        pipeline = ending(pipeline)
    with _Signals(tell) as signals:
        try:
            _run(pipeline, report, signals, tell)
        except KeyboardInterrupt:
            _kill_children()
            return signals.received or signal.SIGINT
        except (PySparkException, Py4JError, ConnectionError) as error:
            # A process manager may send the signal to Spark's process as well as to this one.
            if signals.received is None:
                raise PipelineFailedError(_sentence(pipeline, error)) from error
    return signals.received if pipeline.trigger.ends else None


def _run(
    pipeline: Pipeline, report: Report, signals: _Signals, tell: Callable[[State], None]
) -> None:
    signals.interrupting = pipeline.remote
    spark = spark_session(
        f"moldau pipeline {pipeline.name}",
        master=pipeline.master,
        config={**_defaults(pipeline), **pipeline.config},
    )
    try:
        signals.install()  # Spark has put a handler of its own in the place
        if signals.received is not None:
            return
        signals.interrupting = True
        run = Run(pipeline, spark, report)
        signals.run = run
        tell("running")

        def stopping() -> None:
            if not pipeline.remote:
                # Spark complains at length of tasks that are given up.
                spark.sparkContext.setLogLevel("OFF")

        run.wait(stopping)
        for _ in () if run.stopped else close_windows(pipeline):
            signals.run = run = Run(pipeline, spark, report)
            run.wait(stopping)
            if run.stopped:
                break
    finally:
        _stop(spark)


def _defaults(pipeline: Pipeline) -> dict[str, str]:
    """Spark's 200 partitions after a shuffle are for clusters: here each costs more than its rows.

    A checkpoint keeps the number that it was begun with.
    """
    if pipeline.remote:
        return {}  # settings of the server
    found = _LOCAL.match(pipeline.master)
    if found is None:
        return _QUIET
    cores = found[1] if (found[1] or "*") != "*" else os.cpu_count()
    return {**_QUIET, "spark.sql.shuffle.partitions": str(max(2, int(cores or 1)))}


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


def _sentence(pipeline: Pipeline, error: Exception) -> str:
    if isinstance(error, PySparkException):
        text = f"Spark refused pipeline {pipeline.name}: {reason(str(error))}"
        if "DATA_SOURCE_NOT_FOUND" in text and "moldau" in text:
            text += " Moldau must be installed for the driver's Python (PYSPARK_PYTHON there)."
        return text
    if isinstance(error, Py4JJavaError):
        return f"Spark failed in pipeline {pipeline.name}: {reason(str(error))}"
    return f"Spark's process ended while pipeline {pipeline.name} was running"


class _Signals:
    """The first signal stops a run, or interrupts its beginning; the second one interrupts.

    While a process of Spark's starts, the first one is only noted: it would be left behind.
    """

    def __init__(self, tell: Callable[[State], None]) -> None:
        self._tell = tell
        self.received: int | None = None
        self.interrupting = False
        self.run: Run | None = None
        self._before: Mapping[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        self.install()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def install(self) -> None:
        for number in _SIGNALS:
            signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        again, self.received = self.received is not None, number
        self._tell("stopping")
        if again or (self.interrupting and self.run is None):
            raise KeyboardInterrupt
        if self.run is not None:
            self.run.stop()


_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
