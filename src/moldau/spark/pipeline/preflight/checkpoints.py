"""Whether a checkpoint is this pipeline's: what was read before is nothing to go on from elsewhere.

Spark keeps offsets by topic and partition only. Beside them a file says whose they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from moldau.model import NO_TOPIC_ID, TopicPartition
from moldau.spark.pipeline.checkpoint import (
    Offsets,
    Planned,
    folder_of,
    planned_offsets,
    read_queries,
    slots_of,
)
from moldau.spark.pipeline.paths import checkpoint_directory
from moldau.spark.pipeline.preflight.found import Findings, SourceIdentity
from moldau.spark.pipeline.problems import Problem
from moldau.spark.pipeline.spec import Pipeline, Sink, TopicSource
from moldau.spark.pipeline.topics import reads_topic

OWNER_FILE: Final = "owner.json"


def read_planned(pipeline: Pipeline) -> Planned:
    """To be read before the clusters are asked: the pipeline may be running and go on meanwhile."""
    directory = checkpoint_directory(pipeline)
    if directory is None:
        return {}
    return {sink.name: planned_offsets(directory, sink.name) for sink in pipeline.sinks}


def known_slots(pipeline: Pipeline) -> set[str]:
    """Replication slots of all its queries, whatever folders they are in."""
    directory = checkpoint_directory(pipeline)
    if directory is None:
        return set()
    return {slot for file in directory.glob("*/offsets/[0-9]*") for slot in slots_of(file)}


def check_checkpoints(pipeline: Pipeline, planned: Planned, found: Findings) -> list[Problem]:
    """``found``: what the clusters have answered."""
    directory = checkpoint_directory(pipeline)
    if directory is None:
        return []
    try:
        queries = read_queries(directory)
    except ValueError as error:
        return [pipeline.problem(("spark", "checkpoint"), f"{directory}: {error}")]
    owners = _owners(directory)
    said: dict[str, str] = {}
    """By folder: sinks that share a query have the same to complain of."""
    for sink in pipeline.sinks:
        folder = folder_of(queries, sink.name)
        where = f"checkpoint {directory / folder}"
        complaints = _complaints(pipeline, sink, where, planned.get(sink.name, ()), owners, found)
        if folder not in said and (sentence := next(complaints, None)) is not None:
            said[folder] = sentence
    return [
        pipeline.problem(("spark", "checkpoint"), f"{sentence}; {_advice(pipeline, directory)}")
        for sentence in said.values()
    ]


def remember_owner(pipeline: Pipeline, found: Findings) -> None:
    """Write down whose the offsets will be that Spark is about to keep."""
    directory = checkpoint_directory(pipeline)
    if directory is None or not pipeline.streaming:
        return
    owners = _owners(directory)
    for sink in pipeline.sinks:
        names = [source.name for source in sources_of(pipeline, sink)]
        sources = {name: asdict(found.sources[name]) for name in names if name in found.sources}
        if sources:
            owners[sink.name] = {"pipeline": pipeline.name, "sources": sources}
    growing = directory / f".{OWNER_FILE}"
    with suppress(OSError):  # Spark will say it better, if it cannot write there, either
        directory.mkdir(parents=True, exist_ok=True)
        growing.write_text(json.dumps(owners, indent=2), "utf-8")
        growing.replace(directory / OWNER_FILE)


def sources_of(pipeline: Pipeline, sink: Sink) -> list[TopicSource]:
    """The streams of topics that a sink's rows come from."""
    inputs = {step.name.lower(): step.inputs for step in pipeline.steps}
    seen: set[str] = set()
    left = [sink.input.lower()]
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left += [one.lower() for one in inputs.get(name, ())]
    return [
        source
        for source in pipeline.sources
        if isinstance(source, TopicSource) and source.streaming and source.name.lower() in seen
    ]


def _complaints(
    pipeline: Pipeline,
    sink: Sink,
    where: str,
    planned: Sequence[Offsets],
    owners: Mapping[str, Any],
    found: Findings,
) -> Iterator[str]:
    sources = sources_of(pipeline, sink)
    if not planned or not sources or all(map(_may_lose_data, sources)):
        return
    owner = owners.get(sink.name, {})
    if owner.get("pipeline", pipeline.name) != pipeline.name:
        yield f"{where} belongs to another pipeline, {owner['pipeline']}, which reads " + _topics(
            one for line in planned for one in line
        )
    # Of all sources: what a query reads is only roughly known without Spark.
    streams = [one for one in pipeline.sources if isinstance(one, TopicSource) and one.streaming]
    foreign = {
        one
        for line in planned
        for one in line
        if not any(_reads(source, one) for source in streams)
    }
    if foreign and not any(map(_may_lose_data, streams)):
        yield (
            f"{where} belongs to another source: it has offsets of {_topics(foreign)}, and sink "
            f"{sink.name} reads {_declared(sources)}"
        )
    for source in sources:
        now = found.sources.get(source.name)
        before = owner.get("sources", {}).get(source.name)
        if now is not None and before is not None and not _may_lose_data(source):
            yield from _changes(where, SourceIdentity(**before), now)
    for line in planned:
        for partition, offset in line.items():
            end = _end(partition, streams, found)
            if end is not None and end < offset:
                yield (
                    f"{where} belongs to another source, or records were lost: it has read "
                    f"{partition} up to offset {offset}, and that ends at {end} now"
                )


def _end(partition: TopicPartition, sources: Sequence[TopicSource], found: Findings) -> int | None:
    """Where it ends, at the farthest if topics of several clusters have this name."""
    readers = [source for source in sources if _reads(source, partition)]
    ends = [found.ends.get(source.name, {}).get(partition) for source in readers]
    known = [end for end in ends if end is not None]
    if not known or len(known) < len(ends) or any(map(_may_lose_data, readers)):
        return None
    return max(known)


def _changes(where: str, before: SourceIdentity, now: SourceIdentity) -> Iterator[str]:
    if before.cluster and now.cluster and before.cluster != now.cluster:
        yield (
            f"{where} belongs to another source: the cluster {before.cluster} at {before.servers}; "
            f"{now.servers} is cluster {now.cluster}"
        )
    for topic, number in before.topics.items():
        ids = {number, now.topics.get(topic, number)}
        if len(ids) == 2 and str(NO_TOPIC_ID) not in ids:
            yield (
                f"{where} belongs to another source: topic {topic} was deleted and created anew "
                "since, and its offsets are others"
            )


def _advice(pipeline: Pipeline, directory: Path) -> str:
    return (
        f'give this pipeline a checkpoint of its own ([spark] checkpoint = "{pipeline.checkpoint}'
        f'-2"), or remove {directory} to read everything anew'
    )


def _may_lose_data(source: TopicSource) -> bool:
    """Whether the file says that reading goes on whatever is missing."""
    return source.options.get("failOnDataLoss", "").lower() == "false"


def _reads(source: TopicSource, partition: TopicPartition) -> bool:
    return reads_topic(source, partition.topic)


def _topics(partitions: Iterable[TopicPartition]) -> str:
    names = sorted({partition.topic for partition in partitions})
    return f"topic {names[0]}" if len(names) == 1 else f"topics {', '.join(names)}"


def _declared(sources: Sequence[TopicSource]) -> str:
    return " and ".join(
        f"pattern {source.options['subscribePattern']}"
        if "subscribePattern" in source.options
        else f"topic {source.options['subscribe'].replace(',', ', ')}"
        for source in sources
    )


def _owners(directory: Path) -> dict[str, Any]:
    try:
        found = json.loads((directory / OWNER_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
