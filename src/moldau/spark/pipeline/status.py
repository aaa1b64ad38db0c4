"""How far a pipeline is: its checkpoint beside what the brokers have now."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from moldau.client.admin import Admin
from moldau.client.errors import KafkaError
from moldau.client.offsets import OffsetSpec
from moldau.model import TopicPartition
from moldau.spark.options import KAFKA_PREFIX
from moldau.spark.pipeline.checkpoint import local_directory, read_state
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.spec import Pipeline, TopicSource


@dataclass(frozen=True)
class SinkStatus:
    sink: str
    batch: int | None
    planned: int | None
    watermark: str | None
    offsets: dict[TopicPartition, int]
    lag: int | None
    """None if the brokers cannot be asked, or nothing was read yet."""
    progress: Progress | None


def status_of(pipeline: Pipeline, *, timeout: float) -> list[SinkStatus]:
    """``ValueError`` says why nothing can be told."""
    directory = local_directory(pipeline.checkpoint)
    if directory is None:
        raise ValueError(
            f"The checkpoint {pipeline.checkpoint} is not on this machine: only local ones are read"
        )
    if not directory.is_dir():
        raise ValueError(
            f"There is no checkpoint {directory} yet: has the pipeline run, from this directory?"
        )
    states = [read_state(directory, sink.name) for sink in pipeline.sinks]
    known = {partition for state in states for partition in state.offsets}
    ends = _ends(pipeline, known, timeout)
    return [
        SinkStatus(
            state.sink,
            state.batch,
            state.planned,
            _iso(state.watermark_ms),
            state.offsets,
            _lag(state.offsets, ends),
            state.progress,
        )
        for state in states
    ]


def _lag(offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int | None:
    asked = [partition for partition in offsets if partition in ends]
    if not asked:
        return None
    return sum(max(0, ends[partition] - offsets[partition]) for partition in asked)


def _ends(
    pipeline: Pipeline, partitions: set[TopicPartition], timeout: float
) -> dict[TopicPartition, int]:
    """Where partitions end now, from the cluster of the source that reads them."""
    found: dict[TopicPartition, int] = {}
    for source in pipeline.sources:
        if not isinstance(source, TopicSource):
            continue
        mine = [one for one in partitions if one not in found and reads_topic(source, one.topic)]
        if mine:
            found.update(_latest(source, mine, timeout))
    return found


def _latest(
    source: TopicSource, partitions: list[TopicPartition], timeout: float
) -> dict[TopicPartition, int]:
    settings = connection_settings(source.options)
    settings["default.api.timeout.ms"] = int(timeout * 1000)
    settings["request.timeout.ms"] = int(timeout * 1000)
    try:
        with Admin(settings) as admin:
            latest = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    except KafkaError:
        return {}
    return {partition: found.offset for partition, found in latest.items()}


_CONNECTION = frozenset(("bootstrap", "security", "sasl", "ssl", "client"))


def connection_settings(options: Mapping[str, str]) -> dict[str, object]:
    """How to reach the cluster that a source or a sink with these options uses."""
    return {
        name.removeprefix(KAFKA_PREFIX): value
        for name, value in options.items()
        if name.startswith(KAFKA_PREFIX) and name.split(".")[1] in _CONNECTION
    }


def reads_topic(source: TopicSource, topic: str) -> bool:
    pattern = source.options.get("subscribePattern")
    if pattern is not None:
        return re.fullmatch(pattern, topic) is not None
    return topic in map(str.strip, source.options.get("subscribe", "").split(","))


def _iso(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
