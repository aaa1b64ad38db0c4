"""Where ``moldau group reset-offsets`` puts a group: the plan, and nothing but the plan."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.exit_codes import CommandError, UsageError
from moldau.model import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from moldau.client.client import Client


class To(Enum):
    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    CURRENT = "--to-current"
    OFFSET = "--to-offset"
    TIMESTAMP = "--to-timestamp"
    SHIFT = "--shift-by"
    FILE = "--from-file"


@dataclass(frozen=True, slots=True)
class Goal:
    """What was asked for: a kind, and its number or its offsets where it needs them."""

    to: To
    number: int = 0
    offsets: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    partition: TopicPartition
    current: int | None
    new: int


def goal_of(
    *,
    earliest: bool,
    latest: bool,
    current: bool,
    offset: int | None,
    timestamp: str | None,
    duration: str | None,
    shift: int | None,
    file: Path | None,
) -> Goal:
    """The one goal among the options; anything but exactly one is wrong usage."""
    from moldau.cli.parsing import parse_duration_ms, parse_timestamp_ms

    goals: list[Goal] = []
    goals += [Goal(To.EARLIEST)] if earliest else []
    goals += [Goal(To.LATEST)] if latest else []
    goals += [Goal(To.CURRENT)] if current else []
    goals += [Goal(To.OFFSET, offset)] if offset is not None else []
    goals += [Goal(To.SHIFT, shift)] if shift is not None else []
    try:
        if timestamp is not None:
            goals.append(Goal(To.TIMESTAMP, parse_timestamp_ms(timestamp)))
        if duration is not None:
            now_ms = time.time_ns() // 1_000_000
            goals.append(Goal(To.TIMESTAMP, now_ms - parse_duration_ms(duration)))
        if file is not None:
            goals.append(Goal(To.FILE, offsets=read_offsets(file.read_text())))
    except ValueError as error:
        raise UsageError(str(error)) from None
    if len(goals) != 1:
        raise UsageError(
            "say where to in one way: --to-earliest, --to-latest, --to-current, --to-offset, "
            "--to-timestamp, --by-duration, --shift-by or --from-file"
        )
    return goals[0]


def read_offsets(text: str) -> dict[TopicPartition, int]:
    """Lines of topic, partition and offset, separated by commas or tabs; more fields may follow."""
    offsets = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        fields = [field.strip().strip('"') for field in line.replace("\t", ",").split(",")]
        try:
            topic, partition, offset = fields[:3]
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise ValueError(f"line {number} is not topic,partition,offset: {line!r}") from None
    return offsets


def parse_topics(texts: Sequence[str]) -> dict[str, list[int] | None]:
    """``orders`` or ``orders:0,2``: topics, and which of their partitions (None: all)."""
    topics: dict[str, list[int] | None] = {}
    for text in texts:
        name, separator, numbers = text.partition(":")
        try:
            topics[name] = [int(number) for number in numbers.split(",")] if separator else None
        except ValueError:
            raise UsageError(f"{text!r} is not TOPIC or TOPIC:PARTITION[,PARTITION]…") from None
    return topics


async def scope(client: Client, topics: Mapping[str, list[int] | None]) -> list[TopicPartition]:
    """The partitions that are meant."""
    from moldau.cli.session import existing_topic

    partitions = []
    for name, numbers in topics.items():
        everything = (await existing_topic(client, name)).partitions
        partitions += [
            TopicPartition(name, n) for n in (everything if numbers is None else numbers)
        ]
    return sorted(partitions)


async def plan(
    client: Client,
    goal: Goal,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    partitions: Collection[TopicPartition],
) -> list[Step]:
    """The new offset of each partition, never outside what its log holds."""
    from moldau.client.admin import OffsetSpec

    if goal.offsets is not None:
        partitions = [p for p in goal.offsets if not partitions or p in partitions]
    if goal.to is To.SHIFT:
        for partition in partitions:
            if partition not in committed:
                raise CommandError(f"{partition} has no committed offset to shift.")
    first = await client.admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    end = await client.admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    stamped = {}
    if goal.to is To.TIMESTAMP:
        stamped = await client.admin.list_offsets(dict.fromkeys(partitions, goal.number))
    steps = []
    for partition in sorted(partitions):
        known = committed.get(partition)
        current = known.offset if known is not None else None
        start, stop = first[partition].offset, end[partition].offset
        found = stamped[partition].offset if partition in stamped else -1
        wanted = {
            To.EARLIEST: start,
            To.LATEST: stop,
            To.CURRENT: stop if current is None else current,
            To.OFFSET: goal.number,
            To.TIMESTAMP: stop if found < 0 else found,
            To.SHIFT: (current or 0) + goal.number,
            To.FILE: (goal.offsets or {}).get(partition, 0),
        }[goal.to]
        steps.append(Step(partition, current, min(max(wanted, start), stop)))
    return steps
