"""What ``topic describe`` shows, gathered from four kinds of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.exit_codes import CommandError, ExitCode
from moldau.cli.output import on_terminal, print_line, print_table
from moldau.cli.parsing import format_size
from moldau.cli.session import did_you_mean

if TYPE_CHECKING:
    from moldau.client.client import Client
    from moldau.client.metadata import TopicInfo
    from moldau.model import TopicPartition


async def report(client: Client, names: Sequence[str] | None) -> list[dict[str, Any]]:
    """One document per topic, also the form of ``--json``."""
    from moldau.client.admin import ConfigResource, ConfigSource, ResourceType

    every = {topic.name: topic for topic in await client.admin.list_topics(internal=True)}
    for name in names or ():
        if name not in every:
            raise CommandError(
                f"There is no topic {name!r}.{did_you_mean(name, every)}", ExitCode.NOT_FOUND
            )
    topics = [every[name] for name in names or every]
    offsets = await _offsets(client, topics)
    sizes = await _sizes(client)
    resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in topics]
    settings = await client.admin.describe_configs(resources) if resources else []
    documents = []
    for topic, outcome in zip(topics, settings, strict=True):
        changed = {
            entry.name: entry.value for entry in outcome.get() if entry.source == ConfigSource.TOPIC
        }
        documents.append(
            {
                "name": topic.name,
                "topic_id": str(topic.topic_id),
                "internal": topic.internal,
                "replication_factor": topic.replication_factor,
                "configs": changed,
                "partitions": _partitions(topic, offsets, sizes),
            }
        )
    return documents


def print_report(documents: list[dict[str, Any]]) -> None:
    """Tables on a terminal; in a pipe one line per partition that starts with the topic."""
    for document in documents:
        rows = document["partitions"]
        if not on_terminal():
            print_table([], [(document["name"], *_cells(row)) for row in rows])
            continue
        settings = ", ".join(f"{key}={value}" for key, value in document["configs"].items())
        print_line(f"{document['name']}  id {document['topic_id']}")
        if settings:
            print_line(f"  {settings}")
        print_table(
            ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END", "SIZE"],
            [(*_cells(row)[:-1], format_size(row["size"])) for row in rows],
            optional=("EPOCH", "START"),
        )


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    return (
        row["partition"],
        row["leader"],
        row["leader_epoch"],
        row["replicas"],
        row["isr"],
        row["start_offset"],
        row["end_offset"],
        row["size"],
    )


def _partitions(
    topic: TopicInfo,
    offsets: dict[TopicPartition, tuple[int, int]],
    sizes: dict[TopicPartition, int],
) -> list[dict[str, Any]]:
    from moldau.model import TopicPartition

    rows = []
    for number, info in topic.partitions.items():
        key = TopicPartition(topic.name, number)
        start, end = offsets.get(key, (None, None))
        rows.append(
            {
                "partition": number,
                "leader": info.leader,
                "leader_epoch": info.leader_epoch,
                "replicas": list(info.replicas),
                "isr": list(info.isr),
                "offline": list(info.offline),
                "start_offset": start,
                "end_offset": end,
                "size": sizes.get(key, 0),
            }
        )
    return rows


async def _offsets(
    client: Client, topics: Sequence[TopicInfo]
) -> dict[TopicPartition, tuple[int, int]]:
    """First and next offset of every partition that has a leader to ask."""
    from moldau.client.admin import OffsetSpec
    from moldau.model import TopicPartition

    keys = [TopicPartition(topic.name, number) for topic in topics for number in topic.with_leader]
    first = await client.admin.list_offsets(dict.fromkeys(keys, OffsetSpec.EARLIEST))
    following = await client.admin.list_offsets(dict.fromkeys(keys, OffsetSpec.LATEST))
    return {key: (first[key].offset, following[key].offset) for key in keys}


async def _sizes(client: Client) -> dict[TopicPartition, int]:
    """Bytes of each partition on its largest replica."""
    sizes: dict[TopicPartition, int] = {}
    for log_dir in await client.admin.describe_log_dirs():
        for key, size in log_dir.sizes.items():
            sizes[key] = max(size, sizes.get(key, 0))
    return sizes
