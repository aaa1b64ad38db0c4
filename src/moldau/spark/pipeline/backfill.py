"""The same pipeline for a range of time, beside the one that goes on: with a checkpoint of its own.

Where the range begins and ends in each partition is asked of the brokers once and written down, so
that a run that was killed goes on within the same offsets. When all of it is read, windows are
closed: there is nothing after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from moldau.spark.options import read_options
from moldau.spark.pipeline.idle import clock_file, write_clock
from moldau.spark.pipeline.paths import checkpoint_directory
from moldau.spark.pipeline.problems import PipelineError, Problem
from moldau.spark.pipeline.spec import (
    ConsoleSink,
    FileSource,
    LakeSink,
    Pipeline,
    Source,
    TableSink,
    TopicSink,
    TopicSource,
    Trigger,
)

RANGE_FILE: Final = "backfill.json"
_END_OF_TIME: Final = int(datetime(9000, 1, 1, tzinfo=UTC).timestamp() * 1000)
_GONE: Final = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "subscribe",
                "subscribePattern", "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp",
                "kafka.group.id")  # fmt: skip
"""Options that say something else, and the group: it is how far the pipeline itself is."""


@dataclass(frozen=True)
class Range:
    """From and until, in milliseconds; without the end."""

    begin: int
    end: int

    @property
    def folder(self) -> str:
        return f"backfill-{_short(self.begin)}-{_short(self.end)}"


def prepared(pipeline: Pipeline, wanted: Range) -> Pipeline:
    """With the checkpoint of the range, to be looked at before Spark starts."""
    problems = list(_problems(pipeline))
    if problems:
        raise PipelineError(pipeline.file, problems)
    trigger = pipeline.trigger
    if not trigger.batch:
        marked = any(getattr(step, "watermark", None) for step in pipeline.steps)
        trigger = Trigger(available_now=True, idle=1 if marked else None)
    place = f"{pipeline.checkpoint.rstrip('/')}/{wanted.folder}"
    return replace(pipeline, checkpoint=place, trigger=trigger, backfill=True)


def narrowed(pipeline: Pipeline, wanted: Range) -> Pipeline:
    """With sources that have the records of the range only; brokers are asked."""
    file = _range_file(pipeline)
    known = _read(file)
    sources = tuple(
        _narrowed(source, wanted, known) if _is_read(source, pipeline) else source
        for source in pipeline.sources
    )
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        growing = file.with_name(f".{file.name}")
        growing.write_text(json.dumps(known, indent=2), "utf-8")
        growing.replace(file)
    return replace(pipeline, sources=sources)


def close_windows(pipeline: Pipeline) -> Iterator[None]:
    """All of the range is read: nothing, or runs that close the windows are to follow.

    Two of them: before PySpark 4.2 a run ends before what it has closed is written.
    """
    file = clock_file(pipeline) if pipeline.backfill else None
    if file is None:
        return
    for moment in (_END_OF_TIME, _END_OF_TIME + 1):
        write_clock(file, moment)
        yield


def notes(pipeline: Pipeline) -> Iterator[str]:
    """What a backfill means for each sink: not all of them can replace what they have."""
    for sink in pipeline.sinks:
        match sink:
            case TableSink(keys=keys) | LakeSink(keys=keys) if keys:
                yield f"sink {sink.name}: rows replace those with the same {', '.join(keys)}"
            case ConsoleSink():
                continue
            case TopicSink():
                yield f"sink {sink.name}: records come behind those that are there, once more"
            case _:
                yield f"sink {sink.name}: rows are added to those that are there"


def _problems(pipeline: Pipeline) -> Iterator[Problem]:
    if pipeline.remote:
        yield pipeline.problem(
            ("spark", "master"),
            f"a backfill needs a driver on this machine, and with {pipeline.shown_master} that is "
            "a server",
        )
    read = [source for source in pipeline.sources if _is_read(source, pipeline)]
    for source in read:
        if isinstance(source, FileSource) and source.time is None:
            yield pipeline.problem(
                source.place,
                f"source {source.name} needs time for a backfill, such as time = "
                '"timestamp": the column that tells when a row happened',
            )
    for source in pipeline.sources:
        if source.streaming and not isinstance(source, (TopicSource, FileSource)):
            yield pipeline.problem(
                source.place,
                f"source {source.name} would be read from its beginning: a backfill takes a range "
                "of topics and files only; streaming = false, or a pipeline without it",
            )
    for sink in pipeline.sinks:
        if sink.output_mode == "complete":
            yield pipeline.problem(
                pipeline.declared(sink, "output_mode"),
                f'sink {sink.name}: output_mode = "complete" replaces all rows, and a backfill has '
                "those of the range only",
            )
    if not read:
        yield Problem(0, "There is no topic and no files with time to read a range of")


def _is_read(source: Source, pipeline: Pipeline) -> bool:
    """Whether a source is narrowed: what is only looked up stays whole."""
    match source:
        case TopicSource():
            return source.streaming or pipeline.trigger.batch
        case FileSource():
            return source.streaming or source.time is not None
        case _:
            return False


def _narrowed(source: Source, wanted: Range, known: dict[str, Any]) -> Source:
    if isinstance(source, FileSource):
        return replace(source, between=(wanted.begin, wanted.end))
    assert isinstance(source, TopicSource)
    offsets = known.get(source.name)
    if offsets is None:
        offsets = known[source.name] = _offsets(source, wanted)
    options = {name: value for name, value in source.options.items() if name not in _GONE}
    options["assign"] = json.dumps(
        {topic: [int(number) for number in partitions] for topic, partitions in offsets[0].items()}
    )
    options["startingOffsets"] = json.dumps(offsets[0])
    options["endingOffsets"] = json.dumps(offsets[1])
    return replace(source, options=options)


def _offsets(source: TopicSource, wanted: Range) -> list[Any]:
    """Where the range begins and ends: the first records that are as young, or the ends of now."""
    from moldau.spark.lookup import OffsetLookup
    from moldau.spark.offsets import to_nested
    from moldau.spark.options import Where

    lookup = OffsetLookup(read_options(source.options, streaming=source.streaming))
    try:
        partitions = lookup.partitions()
        return [
            to_nested(lookup.resolve(Where(timestamp=moment), partitions, ending=True))
            for moment in (wanted.begin, wanted.end)
        ]
    finally:
        lookup.close()


def _range_file(pipeline: Pipeline) -> Path | None:
    directory = checkpoint_directory(pipeline)
    return None if directory is None else directory / RANGE_FILE


def _read(file: Path | None) -> dict[str, Any]:
    if file is None or not file.exists():
        return {}
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


def _short(moment: int) -> str:
    """A time in the name of a folder: a day, or as exact as it must be."""
    time = datetime.fromtimestamp(moment / 1000, UTC)
    if moment % 86_400_000 == 0:
        return f"{time:%Y%m%d}"
    exact = f"{time:%Y%m%dT%H%M%S}"
    return f"{exact}Z" if moment % 1000 == 0 else f"{exact}.{moment % 1000:03d}Z"
