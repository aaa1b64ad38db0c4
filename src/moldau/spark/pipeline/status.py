"""How far a pipeline is, and whether it runs: its checkpoint beside what the brokers have now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from moldau.model import TopicPartition
from moldau.spark.pipeline.checkpoint import SinkState, read_state
from moldau.spark.pipeline.lags import Lags, lags_of, total
from moldau.spark.pipeline.paths import checkpoint_directory
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.runs.places import place_of
from moldau.spark.pipeline.runs.record import RunRecord, read_record
from moldau.spark.pipeline.spec import Pipeline, TopicSource
from moldau.spark.pipeline.topics import reads_topic


@dataclass(frozen=True)
class SinkStatus:
    sink: str
    batch: int | None
    planned: int | None
    watermark: str | None
    offsets: dict[TopicPartition, int]
    lag: int | None
    """None if the brokers cannot be asked, or nothing was read yet."""
    lag_seconds: float | None
    """How old the oldest record is that was not read."""
    progress: Progress | None


@dataclass(frozen=True)
class SourceStatus:
    """Of the sink that is the furthest behind."""

    source: str
    lag: int | None
    lag_seconds: float | None


@dataclass(frozen=True)
class PipelineStatus:
    run: RunRecord | None
    """The one that goes on, or the last one; None if none has left a word."""
    sinks: list[SinkStatus]
    sources: list[SourceStatus]


def status_of(pipeline: Pipeline, *, timeout: float) -> PipelineStatus:
    """``ValueError`` says why nothing can be told."""
    run = read_record(place_of(pipeline))
    directory = checkpoint_directory(pipeline)
    if directory is None:
        if run is None:
            raise ValueError(
                f"The checkpoint {pipeline.checkpoint} is not on this machine: only local ones are "
                "read"
            )
        return PipelineStatus(run, [], [])
    if not directory.is_dir():
        raise ValueError(
            f"There is no checkpoint {directory} yet: has the pipeline run, from this directory?"
        )
    states = [read_state(directory, sink.name) for sink in pipeline.sinks]
    lags = _ask(pipeline, states, timeout)
    return PipelineStatus(
        run,
        [_sink_status(state, lag) for state, lag in zip(states, lags, strict=True)],
        [
            _source_status(source, lags)
            for source in pipeline.sources
            if isinstance(source, TopicSource) and source.streaming
        ],
    )


def _ask(pipeline: Pipeline, states: Sequence[SinkState], timeout: float) -> list[Lags]:
    """For each sink; brokers are asked once about those that are equally far."""
    asked: dict[frozenset[tuple[TopicPartition, int]], Lags] = {}
    found = []
    for state in states:
        key = frozenset(state.offsets.items())
        if key not in asked:
            asked[key] = lags_of(pipeline, state.offsets, timeout)
        found.append(asked[key])
    return found


def _sink_status(state: SinkState, lags: Lags) -> SinkStatus:
    lag = total(lags, state.offsets)
    return SinkStatus(
        state.sink,
        state.batch,
        state.planned,
        _iso(state.watermark_ms),
        state.offsets,
        None if lag is None else lag.records,
        None if lag is None else lag.seconds,
        state.progress,
    )


def _source_status(source: TopicSource, lags: Sequence[Lags]) -> SourceStatus:
    behind = [total(one, [at for at in one if reads_topic(source, at.topic)]) for one in lags]
    known = [one for one in behind if one is not None]
    ages = [one.seconds for one in known if one.seconds is not None]
    records = max((one.records for one in known), default=None)
    return SourceStatus(source.name, records, max(ages, default=None))


def _iso(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
