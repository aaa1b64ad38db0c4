"""What ``moldau group describe`` and ``offsets`` show: offsets, lag in records and in time."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.exit_codes import CommandError, ExitCode
from moldau.cli.output import on_terminal, print_table
from moldau.cli.session import did_you_mean

if TYPE_CHECKING:
    from moldau.client import Client
    from moldau.client.admin import GroupDescription, GroupMember
    from moldau.model import OffsetAndMetadata, TopicPartition

COLUMNS = ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "BEHIND", "MEMBER", "HOST", "CLIENT")


async def describe(client: Client, names: Sequence[str]) -> list[GroupDescription]:
    """The groups, or a failure with a hint when one is not there."""
    from moldau.errors import ErrorCode

    found = []
    for outcome in await client.admin.describe_groups(names):
        if outcome.error is not None and outcome.error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            known = [listing.group for listing in await client.admin.list_groups()]
            raise CommandError(
                f"There is no group {outcome.name!r}.{did_you_mean(outcome.name, known)}",
                ExitCode.NOT_FOUND,
            )
        found.append(outcome.get())
    return found


async def report(client: Client, names: Sequence[str] | None) -> list[dict[str, Any]]:
    """One document per group, also the form of ``--json``; None stands for all groups."""
    if names is None:
        names = [listing.group for listing in await client.admin.list_groups()]
    return [await _document(client, group) for group in await describe(client, names)]


async def _document(client: Client, group: GroupDescription) -> dict[str, Any]:
    owners = {partition: member for member in group.members for partition in member.assignment}
    committed = await client.admin.list_group_offsets(group.group)
    rows = await partition_rows(client, committed, owners)
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    return {
        "group": group.group,
        "type": group.type,
        "state": group.state,
        "assignor": group.assignor,
        "epoch": group.epoch,
        "coordinator": group.coordinator.id,
        "members": len(group.members),
        "lag": sum(lags),
        "partitions": rows,
    }


async def partition_rows(
    client: Client,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    owners: Mapping[TopicPartition, GroupMember],
) -> list[dict[str, Any]]:
    """A row per partition that is committed or owned."""
    partitions = sorted({*committed, *owners})
    ends = await _ends(client, partitions)
    behind = await _behind_ms(client, committed, ends)
    rows = []
    for partition in partitions:
        offset = committed.get(partition)
        end = ends.get(partition)
        owner = owners.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed_offset": offset.offset if offset is not None else None,
                "leader_epoch": offset.leader_epoch if offset is not None else None,
                "metadata": offset.metadata if offset is not None else None,
                "end_offset": end,
                "lag": None if end is None or offset is None else end - offset.offset,
                "lag_ms": behind.get(partition),
                "member_id": owner.member_id if owner is not None else None,
                "instance_id": owner.instance_id if owner is not None else None,
                "client_id": owner.client_id if owner is not None else None,
                "host": owner.host if owner is not None else None,
            }
        )
    return rows


def print_report(documents: list[dict[str, Any]]) -> None:
    """Tables on a terminal; in a pipe one line per partition that starts with the group."""
    for document in documents:
        rows = document["partitions"]
        if not on_terminal():
            print_table([], [(document["group"], *_cells(row)) for row in rows])
            continue
        facts = [document["type"], document["state"], document["assignor"]]
        facts += [f"{document['members']} members", f"lag {document['lag']}"]
        facts += [f"coordinator {document['coordinator']}"]
        print(f"{document['group']}  " + ", ".join(fact for fact in facts if fact))
        print_table(
            COLUMNS, [(*_cells(row)[:5], show_ms(row["lag_ms"]), *_cells(row)[6:]) for row in rows]
        )


def _cells(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        row["topic"],
        row["partition"],
        row["committed_offset"],
        row["end_offset"],
        row["lag"],
        row["lag_ms"],
        row["instance_id"] or row["member_id"],
        row["host"],
        row["client_id"],
    )


def show_ms(span_ms: int | None) -> str | None:
    """A time span in its two largest units: ``850ms``, ``12s``, ``3m 20s``, ``2d 4h``."""
    if span_ms is None:
        return None
    if 0 < span_ms < 1000:
        return f"{span_ms}ms"
    seconds = span_ms // 1000
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if seconds >= size or (unit == "s" and not parts):
            parts.append(f"{seconds // size}{unit}")
            seconds %= size
    return " ".join(parts[:2])


async def _ends(
    client: Client, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The next offset of every partition that still exists and has a leader."""
    from moldau.client import OffsetSpec

    metadata = client.cluster.metadata
    if any(partition.topic not in metadata.topics for partition in partitions):
        metadata = await client.cluster.refresh(None)
    there = [
        partition
        for partition in partitions
        if partition.topic in metadata.topics
        and partition.partition in metadata.topics[partition.topic].with_leader
    ]
    found = await client.admin.list_offsets(dict.fromkeys(there, OffsetSpec.LATEST))
    return {partition: entry.offset for partition, entry in found.items()}


async def _behind_ms(
    client: Client,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """How long the oldest record not consumed yet has been waiting; 0 when there is none."""
    behind: dict[TopicPartition, int] = {}
    positions: dict[TopicPartition, int] = {}
    for partition, offset in committed.items():
        if partition not in ends:
            continue
        if offset.offset >= ends[partition]:
            behind[partition] = 0
        else:
            positions[partition] = offset.offset
    if positions:
        stamps = await _first_timestamps(client, positions, ends)
        now_ms = time.time_ns() // 1_000_000
        behind |= {partition: max(0, now_ms - stamp) for partition, stamp in stamps.items()}
    return behind


async def _first_timestamps(
    client: Client, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The timestamp of the first record at or after each position: one small fetch per leader."""
    from moldau.client.consumer.partition_reader import PartitionReader, ReaderSettings

    settings = ReaderSettings(partition_max_bytes=1, out_of_range="earliest")
    until = {partition: ends[partition] for partition in positions}
    stamps: dict[TopicPartition, int] = {}
    async with PartitionReader(client.cluster, positions, until=until, settings=settings) as reader:
        while not reader.ended and stamps.keys() < positions.keys():
            for partition, records, _ in await reader.poll():
                stamps.setdefault(partition, records[0].timestamp)
    return stamps
