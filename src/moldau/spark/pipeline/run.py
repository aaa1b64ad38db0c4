"""Running a pipeline: its streaming queries, watched until they end or are stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from moldau.spark.pipeline.backfill import close_windows
from moldau.spark.pipeline.batches import BatchWriter
from moldau.spark.pipeline.checkpoint import query_checkpoint, write_progress
from moldau.spark.pipeline.ending import await_batches
from moldau.spark.pipeline.expectations import Expectations
from moldau.spark.pipeline.failures import PipelineFailedError as PipelineFailedError
from moldau.spark.pipeline.failures import failure
from moldau.spark.pipeline.frames import Made, ReadOnce, build_frames
from moldau.spark.pipeline.group_offsets import commit_offsets
from moldau.spark.pipeline.idle import IdleClock
from moldau.spark.pipeline.layout import Query
from moldau.spark.pipeline.masters import master_problem
from moldau.spark.pipeline.paths import checkpoint_directory
from moldau.spark.pipeline.progress import Progress, progress_of, written
from moldau.spark.pipeline.queries import read_twice
from moldau.spark.pipeline.sharing import computed_once, timed, together
from moldau.spark.pipeline.sinks import Batch, finish, stream_writer, write_batch
from moldau.spark.pipeline.sinks.batch import keep
from moldau.spark.pipeline.spec import Pipeline, Sink, Trigger
from moldau.spark.pipeline.start import queries_of
from moldau.spark.pipeline.step_functions import StepFunctions
from moldau.spark.pipeline.watermarks import interval

POLL: Final = 0.2
_EARLY: Final = ("Initializing", "Getting offsets")
"""What Spark says of a query that does not know its first batch yet."""

Report = Callable[[Progress], None]
Frames = Mapping[str, DataFrame]
"""By name, in lower case."""


def once(pipeline: Pipeline) -> Pipeline:
    """The same pipeline, ending when all that is there now is processed."""
    if pipeline.trigger.batch:
        return pipeline
    return replace(pipeline, trigger=Trigger(available_now=True, idle=pipeline.trigger.idle))


@dataclass
class _Running:
    query: Query
    stream: StreamingQuery
    writer: BatchWriter | None
    """None for a sink of its own, which Spark hands its rows."""
    seen: str = ""
    """Time of the last report: an idle query reports the number of a batch that is to come."""
    begun: bool = False

    def reports(self) -> list[Progress]:
        """Those that are new, for each sink."""
        last: Any = self.stream.lastProgress
        if last is None or last["timestamp"] <= self.seen:
            return []  # Spark remembers a hundred, and all of them come through a pipe
        found = []
        for report in self.stream.recentProgress:
            progress = progress_of("", _as_dict(report))
            if progress.time > self.seen:
                self.seen = progress.time
                found_here = {} if self.writer is None else self.writer.found(progress.batch)
                progress = replace(progress, expectations={**progress.expectations, **found_here})
                # Rows that were judged are counted once, with the first of them.
                first, *others = self.query.sinks
                found.append(replace(progress, sink=first.name))
                found += [replace(progress, sink=one.name, expectations={}) for one in others]
        return found

    def has_begun(self) -> bool:
        """Whether it has settled where it begins: what is written from now on will be read."""
        if not self.begun:
            early = str(self.stream.status["message"]).startswith(_EARLY)
            self.begun = not self.stream.isActive or not early
        return self.begun

    def failure(self, pipeline: Pipeline, error: BaseException) -> PipelineFailedError:
        if self.writer is not None and self.writer.violation is not None:
            return self.writer.violation
        failed = None if self.writer is None else self.writer.failed
        if failed is not None:
            return failure(pipeline, failed, f"sink {failed.name}", error)
        return failure(pipeline, self.query.sinks[0], self.query.title, error)


class Run:
    """One run of a pipeline in a session; ``wait`` returns when it is over."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        report: Report | None = None,
        *,
        streams_only: bool = False,
    ) -> None:
        """``streams_only``: what is no stream has been written by the run before."""
        self._pipeline = pipeline
        self._spark = spark
        self._report = report
        self._stopping = False
        """A mere flag: a signal's handler must not wait for a lock that its thread may hold."""
        self._last: dict[str, Progress] = {}
        """By sink."""
        self._queries: list[_Running] = []
        self._clock = IdleClock(pipeline)
        if (problem := master_problem(pipeline)) is not None:
            raise PipelineFailedError(problem)
        self._functions = StepFunctions(pipeline)
        rules = Expectations(pipeline)
        self._read = ReadOnce()
        with ExitStack() as kept:
            frames, raw = self._build(rules, lambda name, one: self._kept(name, one, kept))
            rules.verify()
            # First: it may refuse the checkpoint.
            queries, self._known = queries_of(pipeline, frames, spark)
            if not streams_only:
                still = [one for one in pipeline.sinks if not frames[one.input.lower()].isStreaming]
                self._write_still(still, frames, rules)
        try:
            for query in queries:
                try:
                    self._start(query, frames, raw)
                except PySparkException as error:
                    raise failure(pipeline, query.sinks[0], query.title, error) from error
        except BaseException:
            self._stop_queries()
            raise

    def stop(self) -> None:
        """Let ``wait`` end the queries after their batches. Any thread may call it."""
        self._stopping = True

    @property
    def stopped(self) -> bool:
        """Whether it was, before its end."""
        return self._stopping

    def wait(
        self,
        stopping: Callable[[], None] | None = None,
        begun: Callable[[], None] | None = None,
    ) -> None:
        """Report progress until all queries have ended; ``PipelineFailedError`` if one failed.

        ``begun`` is called when all have settled where they begin, ``stopping`` before they are
        ended because of ``stop``.
        """
        try:
            while any(one.stream.isActive for one in self._queries):
                if begun is not None and all(one.has_begun() for one in self._queries):
                    begun()
                    begun = None
                self._publish()
                self._clock.look([one.stream for one in self._queries for _ in one.query.sinks])
                self._await_end(POLL)
                if self._stopping:
                    break
                self._check()
            if self._stopping:
                await_batches(one.stream for one in self._queries)
                if stopping is not None:
                    stopping()
        finally:
            self._stop_queries()
        self._publish()
        self._check()
        for one in self._queries:
            for sink in one.query.sinks:
                if sink.name in self._last:
                    # Of this batch nobody knows: an idle query would have named the next one.
                    finish(sink, Batch(str(one.stream.id), self._last[sink.name].batch))

    def _build(self, rules: Expectations, made: Made) -> tuple[Frames, Frames]:
        """All frames, and what they are before their rules."""
        raw: dict[str, DataFrame] = {}

        def noted(name: str, frame: DataFrame) -> DataFrame:
            raw[name] = made(name, frame)
            return raw[name]

        frames = build_frames(
            self._pipeline, self._spark, rules, self._functions, read=self._read, made=noted
        )
        return frames, raw

    def _kept(self, name: str, frame: DataFrame, kept: ExitStack) -> DataFrame:
        """Rows of no stream that are judged and then written have to be the same."""
        ruled = any(part.expect for part in self._pipeline.parts if part.name.lower() == name)
        return keep(frame, kept) if ruled and not frame.isStreaming else frame

    def _write_still(self, sinks: list[Sink], frames: Frames, rules: Expectations) -> None:
        """What is no stream is written at once."""
        counts = rules.counts()
        with ExitStack() as kept:
            for name in read_twice(self._pipeline, sinks):
                keep(frames[name], kept)
            for sink in sinks:
                begin = time.monotonic()
                try:
                    rows = write_batch(sink, frames[sink.input.lower()], None)
                except PySparkException as error:
                    raise failure(self._pipeline, sink, f"sink {sink.name}", error) from error
                if rows is not None and self._report is not None:
                    self._report(written(sink.name, rows, time.monotonic() - begin, counts))
                    counts = {}  # told once

    def _start(self, query: Query, frames: Frames, raw: Frames) -> None:
        pipeline, plan = self._pipeline, query.plan
        if plan.spread:
            frames, raw = self._build(
                Expectations(pipeline),
                lambda name, frame: computed_once(frame) if name in plan.spread else frame,
            )
        location = query_checkpoint(pipeline.checkpoint, query.folder)
        stream = together([(raw if one in plan.judged else frames)[one] for one in plan.frontier])
        if plan.puts_aside:
            stream = timed(stream)
        batches: BatchWriter | None = None
        if query.shared:
            batches = BatchWriter(pipeline, query, frames, self._functions, self._known, location)
            writer = stream.writeStream.foreachBatch(batches).outputMode(query.output_mode)
        else:
            writer = stream_writer(query.sinks[0], stream)
        writer = writer.queryName(f"{pipeline.name}-{query.folder}")
        writer = _triggered(writer.option("checkpointLocation", location), pipeline.trigger)
        self._queries.append(_Running(query, writer.start(), batches))

    def _publish(self) -> None:
        reports = [progress for one in self._queries for progress in one.reports()]
        for progress in reports:
            self._last[progress.sink] = progress
            self._clock.saw(progress)
            if self._report is not None:
                self._report(progress)
        directory = checkpoint_directory(self._pipeline)
        if reports and directory is not None:
            write_progress(directory, self._last)
        if reports and len(self._last) == sum(len(one.query.sinks) for one in self._queries):
            commit_offsets(self._pipeline, self._last)

    def _await_end(self, seconds: Any) -> None:
        """Until a query ends, but not for longer."""
        active = next((one.stream for one in self._queries if one.stream.isActive), None)
        if active is not None:
            with suppress(StreamingQueryException):  # it is told below
                active.awaitTermination(seconds)

    def _check(self) -> None:
        for one in self._queries:
            error = one.stream.exception()
            # Batches that are given up may fail for that.
            if error is not None and not self._stopping:
                raise one.failure(self._pipeline, error) from error

    def _stop_queries(self) -> None:
        for one in self._queries:
            if one.stream.isActive:
                one.stream.stop()


def run_pipeline(pipeline: Pipeline, spark: SparkSession, report: Report | None = None) -> None:
    """Run it to its end: pipelines that go on for ever are a ``Run``."""
    Run(pipeline, spark, report).wait()
    for _ in close_windows(pipeline):
        Run(pipeline, spark, report, streams_only=True).wait()


def _triggered(writer: Any, trigger: Trigger) -> Any:
    if trigger.available_now:
        return writer.trigger(availableNow=True)
    if trigger.every is not None:
        return writer.trigger(processingTime=interval(trigger.every))
    return writer


def _as_dict(report: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report.json) if hasattr(report, "json") else dict(report)
    return found
