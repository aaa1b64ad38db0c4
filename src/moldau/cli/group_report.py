"""What ``moldau group describe`` and ``offsets`` show: offsets, lag in records and in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.exit_codes import CommandError, ExitCode
from moldau.cli.output import on_terminal, print_line, print_table
from moldau.cli.session import did_you_mean

if TYPE_CHECKING:
    from moldau.client.admin import GroupDescription, GroupMember, PartitionLag
    from moldau.client.client import Client
    from moldau.model import TopicPartition

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
    rows = partition_rows(await client.admin.group_lag(group.group, owners), owners)
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


def partition_rows(
    lags: Mapping[TopicPartition, PartitionLag], owners: Mapping[TopicPartition, GroupMember]
) -> list[dict[str, Any]]:
    """A row per partition that is committed or owned."""
    rows = []
    for partition, lag in lags.items():
        offset = lag.committed
        owner = owners.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed_offset": offset.offset if offset is not None else None,
                "leader_epoch": offset.leader_epoch if offset is not None else None,
                "metadata": offset.metadata if offset is not None else None,
                "end_offset": lag.end_offset,
                "lag": lag.records,
                "lag_ms": lag.behind_ms,
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
        print_line(f"{document['group']}  " + ", ".join(fact for fact in facts if fact))
        print_table(
            COLUMNS,
            [(*_cells(row)[:5], show_ms(row["lag_ms"]), *_cells(row)[6:]) for row in rows],
            optional=("HOST", "MEMBER", "CLIENT"),
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
