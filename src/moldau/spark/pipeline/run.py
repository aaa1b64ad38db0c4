"""Running a pipeline: a streaming query for each sink, watched until it ends or is stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from moldau.spark.pipeline.checkpoint import local_directory, sink_checkpoint, write_progress
from moldau.spark.pipeline.ending import await_batches
from moldau.spark.pipeline.failures import PipelineFailedError as PipelineFailedError
from moldau.spark.pipeline.failures import failure
from moldau.spark.pipeline.frames import build_frames, interval
from moldau.spark.pipeline.group_offsets import commit_offsets
from moldau.spark.pipeline.masters import master_problem
from moldau.spark.pipeline.progress import Progress, progress_of, written
from moldau.spark.pipeline.sinks import finish, stream_writer, write_once
from moldau.spark.pipeline.spec import Pipeline, Sink, Trigger

POLL: Final = 0.2

Report = Callable[[Progress], None]


def once(pipeline: Pipeline) -> Pipeline:
    """The same pipeline, ending when all that is there now is processed."""
    if pipeline.trigger.batch:
        return pipeline
    return replace(pipeline, trigger=Trigger(available_now=True))


class Run:
    """One run of a pipeline in a session; ``wait`` returns when it is over."""

    def __init__(
        self, pipeline: Pipeline, spark: SparkSession, report: Report | None = None
    ) -> None:
        self._pipeline = pipeline
        self._report = report
        self._stopping = False
        """A mere flag: a signal's handler must not wait for a lock that its thread may hold."""
        self._seen: dict[str, str] = {}
        """Times of reports: an idle query reports the number of a batch that is yet to come."""
        self._last: dict[str, Progress] = {}
        self._queries: dict[str, StreamingQuery] = {}
        if (problem := master_problem(pipeline)) is not None:
            raise PipelineFailedError(problem)
        frames = build_frames(pipeline, spark)
        try:
            for sink in pipeline.sinks:
                try:
                    self._start(sink, frames[sink.input.lower()])
                except PySparkException as error:
                    raise failure(pipeline, sink, f"sink {sink.name}", error) from error
        except BaseException:
            self._stop_queries()
            raise

    def stop(self) -> None:
        """Let ``wait`` end the queries after their batches. Any thread may call it."""
        self._stopping = True

    def wait(self, stopping: Callable[[], None] | None = None) -> None:
        """Report progress until all queries have ended; ``PipelineFailedError`` if one failed.

        ``stopping`` is called before they are ended because of ``stop``.
        """
        try:
            while any(query.isActive for query in self._queries.values()):
                self._publish()
                time.sleep(POLL)
                if self._stopping:
                    break
                self._check()
            if self._stopping:
                await_batches(self._queries.values())
                if stopping is not None:
                    stopping()
        finally:
            self._stop_queries()
        self._publish()
        self._check()
        for sink in self._pipeline.sinks:
            if sink.name in self._last:
                # Of this batch nobody knows: an idle query would have named the next one.
                finish(sink, self._last[sink.name].batch)

    def _start(self, sink: Sink, frame: DataFrame) -> None:
        if not frame.isStreaming:
            begin = time.monotonic()
            rows = write_once(sink, frame)
            if rows is not None and self._report is not None:
                self._report(written(sink.name, rows, time.monotonic() - begin))
            return
        writer = stream_writer(sink, frame).queryName(f"{self._pipeline.name}-{sink.name}")
        location = sink_checkpoint(self._pipeline.checkpoint, sink.name)
        writer = _triggered(writer.option("checkpointLocation", location), self._pipeline.trigger)
        self._queries[sink.name] = writer.start()

    def _publish(self) -> None:
        changed = False
        for name, query in self._queries.items():
            for report in query.recentProgress:
                progress = progress_of(name, _as_dict(report))
                if progress.time > self._seen.get(name, ""):
                    self._seen[name] = progress.time
                    self._last[name] = progress
                    changed = True
                    if self._report is not None:
                        self._report(progress)
        directory = local_directory(self._pipeline.checkpoint)
        if changed and directory is not None:
            write_progress(directory, self._last)
        if changed and len(self._last) == len(self._queries):
            commit_offsets(self._pipeline, self._last)

    def _check(self) -> None:
        for sink in self._pipeline.sinks:
            query = self._queries.get(sink.name)
            error = None if query is None else query.exception()
            # Batches that are given up may fail for that.
            if error is not None and not self._stopping:
                raise failure(self._pipeline, sink, f"sink {sink.name}", error) from error

    def _stop_queries(self) -> None:
        for query in self._queries.values():
            if query.isActive:
                query.stop()


def run_pipeline(pipeline: Pipeline, spark: SparkSession, report: Report | None = None) -> None:
    """Run it to its end: pipelines that go on for ever are a ``Run``."""
    Run(pipeline, spark, report).wait()


def _triggered(writer: Any, trigger: Trigger) -> Any:
    if trigger.available_now:
        return writer.trigger(availableNow=True)
    if trigger.every is not None:
        return writer.trigger(processingTime=interval(trigger.every))
    return writer


def _as_dict(report: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report.json) if hasattr(report, "json") else dict(report)
    return found
