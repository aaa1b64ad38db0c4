"""``moldau group``: list, describe, members, offsets, reset-offsets, delete, delete-offsets."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.command_config import complete_names
from moldau.cli.exit_codes import CommandError, UsageError, exit_code_of, sentence_for
from moldau.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    Timeout,
    complete_topics,
    group_app,
)
from moldau.cli.output import confirm, note, print_json, print_table, warn
from moldau.cli.session import DEFAULT_TIMEOUT, with_client

if TYPE_CHECKING:
    from moldau.cli.group_reset import Step
    from moldau.client.admin import Outcome
    from moldau.client.client import Client

app = group_app("Look at consumer groups, their members, offsets and lag; reset and delete them.")


def complete_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Group names for the shell."""

    async def names(client: Client) -> list[str]:
        return [listing.group for listing in await client.admin.list_groups()]

    return complete_names(ctx, incomplete, names)


Name = Annotated[
    str, typer.Argument(metavar="GROUP", help="Group name.", autocompletion=complete_groups)
]
Names = Annotated[
    list[str],
    typer.Argument(metavar="GROUP...", help="Group names.", autocompletion=complete_groups),
]
Topics = Annotated[
    list[str],
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:PARTITION,...]",
        help="Only this topic, or these partitions of it; repeatable.",
        autocompletion=complete_topics,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again until Ctrl-C.")]
Every = Annotated[
    str, typer.Option("--every", metavar="DURATION", help="How often --watch shows it.")
]


@app.command("list")
def list_groups(
    state: Annotated[
        list[str],
        typer.Option(metavar="STATE", help="Only groups in this state (Stable, Empty, …)."),
    ] = [],  # noqa: B006 - typer copies it
    type: Annotated[  # noqa: A002 - the option's name
        list[str], typer.Option(metavar="TYPE", help="Only groups of this type: classic, consumer.")
    ] = [],  # noqa: B006
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """List groups: name, type, state, protocol."""
    from dataclasses import asdict

    groups = with_client(
        bootstrap,
        lambda client: client.admin.list_groups(states=state, types=type),
        timeout=timeout,
    )
    if json:
        print_json([asdict(group) for group in groups])
        return
    print_table(
        ["GROUP", "TYPE", "STATE", "PROTOCOL"],
        [(g.group, g.type, g.state, g.protocol_type or None) for g in groups],
        optional=("PROTOCOL", "TYPE"),
    )
    if not groups:
        note("There are no groups.")


@app.command()
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...", help="Group names; none for all.", autocompletion=complete_groups
        ),
    ] = None,
    watch: Watch = False,
    every: Every = "2s",
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show state, committed offsets, owners and lag of groups, in records and in time."""
    from moldau.cli.group_report import print_report, report

    _show(
        lambda client: report(client, names or None),
        print_report,
        (watch, every, json, bootstrap, timeout),
    )


@app.command()
def members(
    name: Name,
    watch: Watch = False,
    every: Every = "2s",
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the members of a group and what each of them owns."""
    from moldau.cli.group_report import describe as describe_groups

    async def gather(client: Client) -> list[dict[str, Any]]:
        (group,) = await describe_groups(client, [name])
        return [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "epoch": member.epoch,
                "topics": list(member.topics),
                "topic_regex": member.topic_regex,
                "assignment": [str(partition) for partition in member.assignment],
                "target": None if member.target is None else [str(p) for p in member.target],
            }
            for member in group.members
        ]

    def show(rows: list[dict[str, Any]]) -> None:
        print_table(
            ["MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS", "ASSIGNMENT"],
            [
                (
                    row["member_id"],
                    row["instance_id"],
                    row["client_id"],
                    row["host"],
                    len(row["assignment"]),
                    row["assignment"],
                )
                for row in rows
            ],
        )

    _show(gather, show, (watch, every, json, bootstrap, timeout))


@app.command()
def offsets(
    name: Name,
    topic: Topics = [],  # noqa: B006
    watch: Watch = False,
    every: Every = "2s",
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show what a group has committed, also when it has no members."""
    from moldau.cli.group_report import describe as describe_groups
    from moldau.cli.group_report import partition_rows, show_ms
    from moldau.cli.group_reset import parse_topics, scope

    owner = {"member_id", "instance_id", "client_id", "host"}
    topics = parse_topics(topic)

    async def gather(client: Client) -> list[dict[str, Any]]:
        await describe_groups(client, [name])
        lags = await client.admin.group_lag(name)
        if topics:
            wanted = await scope(client, topics)
            lags = {partition: lag for partition, lag in lags.items() if partition in wanted}
        rows = partition_rows(lags, {})
        return [{key: row[key] for key in row if key not in owner} for row in rows]

    def show(rows: list[dict[str, Any]]) -> None:
        print_table(
            ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "BEHIND", "METADATA"],
            [
                (
                    row["topic"],
                    row["partition"],
                    row["committed_offset"],
                    row["end_offset"],
                    row["lag"],
                    show_ms(row["lag_ms"]) if sys.stdout.isatty() else row["lag_ms"],
                    row["metadata"] or None,
                )
                for row in rows
            ],
        )

    _show(gather, show, (watch, every, json, bootstrap, timeout))


@app.command("reset-offsets")
def reset_offsets(
    name: Name,
    topic: Topics = [],  # noqa: B006
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="The oldest record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="The end: skip all.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="What is committed now; commits it again.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option(metavar="N", help="This offset.")] = None,
    to_timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="The first record at or after this time.")
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The first record of the last 15m, 2d …")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="N records ahead, or back if negative.")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Lines of topic,partition,offset.", exists=True),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Commit it; without this it is only shown.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show it (the default).")] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Move a group that has no members to other offsets.

    Shows what would change; --execute changes it. Without --topic, everything that is committed.
    """
    from moldau.cli.group_reset import goal_of, parse_topics, plan, scope

    if execute and dry_run:
        raise UsageError("use either --execute or --dry-run")
    goal = goal_of(
        earliest=to_earliest,
        latest=to_latest,
        current=to_current,
        offset=to_offset,
        timestamp=to_timestamp,
        duration=by_duration,
        shift=shift_by,
        file=from_file,
    )
    topics = parse_topics(topic)

    async def work(client: Client) -> tuple[list[Step], list[Outcome[int]]]:
        from moldau.model import OffsetAndMetadata

        await _refuse_active(client, name)
        committed = await client.admin.list_group_offsets(name)
        partitions = await scope(client, topics)
        if not topics and goal.offsets is None:
            partitions = list(committed)
        steps = await plan(client, goal, committed, partitions)
        if not execute:
            return steps, []
        wanted = {step.partition: OffsetAndMetadata(step.new) for step in steps}
        return steps, await client.admin.alter_group_offsets(name, wanted) if wanted else []

    steps, outcomes = with_client(bootstrap, work, timeout=timeout)
    if not steps:
        raise CommandError(f"Group {name!r} has committed nothing: name topics with --topic.")
    rows = [(s.partition.topic, s.partition.partition, s.new, s.current) for s in steps]
    if json:
        keys = ("topic", "partition", "new_offset", "current_offset")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        print_table(["TOPIC", "PARTITION", "NEW OFFSET", "CURRENT OFFSET"], rows)
    _fail_on_errors(outcomes)
    note("Committed." if execute else "Nothing was changed; --execute commits it.")


@app.command()
def delete(
    names: Names,
    yes: Yes = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete groups that have no members, with their offsets.

    On a terminal it asks first.
    """
    confirm(f"Delete {', '.join(names)} and their offsets?", yes=yes)
    outcomes = with_client(
        bootstrap, lambda client: client.admin.delete_groups(names), timeout=timeout
    )
    deleted = [outcome.name for outcome in outcomes if outcome.error is None]
    if json:
        print_json([{"group": group} for group in deleted])
    for group in deleted:
        note(f"Deleted group {group!r}.")
    _fail_on_errors(outcomes)


@app.command("delete-offsets")
def delete_offsets(
    name: Name,
    topic: Topics = [],  # noqa: B006
    yes: Yes = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Forget a group's offsets of topics that no member subscribes to."""
    from moldau.cli.group_reset import parse_topics, scope

    if not topic:
        raise UsageError("say which offsets with --topic; `moldau group delete` deletes all")
    confirm(f"Delete offsets of {name}?", yes=yes)

    async def work(client: Client) -> list[Outcome[Any]]:
        partitions = await scope(client, parse_topics(topic))
        return list(await client.admin.delete_group_offsets(name, partitions))

    outcomes = with_client(bootstrap, work, timeout=timeout)
    deleted = [outcome.get() for outcome in outcomes if outcome.error is None]
    if json:
        print_json([{"topic": p.topic, "partition": p.partition} for p in deleted])
    else:
        print_table(["TOPIC", "PARTITION"], deleted)
    _fail_on_errors(outcomes)


def _show(
    gather: Callable[[Client], Awaitable[list[dict[str, Any]]]],
    show: Callable[[list[dict[str, Any]]], None],
    options: tuple[bool, str, bool, str, float],
) -> None:
    """Print what is gathered: once, or over and over on one connection."""
    from moldau.cli.output import clear_terminal, on_terminal, print_json_line
    from moldau.cli.parsing import parse_duration_ms

    watch, every, json, bootstrap, timeout = options
    try:
        pause = parse_duration_ms(every) / 1000
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not watch:
        rows = with_client(bootstrap, gather, timeout=timeout)
        if json:
            print_json(rows)
        else:
            show(rows)
        return

    async def repeat(client: Client) -> None:
        import asyncio

        while True:
            rows = await gather(client)
            if json:
                print_json_line(rows)
            else:
                if on_terminal():
                    clear_terminal()
                show(rows)
            sys.stdout.flush()
            await asyncio.sleep(pause)

    with_client(bootstrap, repeat, timeout=timeout)


async def _refuse_active(client: Client, name: str) -> None:
    """Members would commit over what is set here; Kafka's tool refuses too."""
    from moldau.errors import ErrorCode

    (outcome,) = await client.admin.describe_groups([name])
    if outcome.error is not None:
        if outcome.error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return
        raise outcome.error
    group = outcome.get()
    if group.members:
        raise CommandError(
            f"Group {name!r} has {len(group.members)} members ({group.state}): stop them first."
        )


def _fail_on_errors(outcomes: Sequence[Outcome[Any]]) -> None:
    """Say each failure in a line; the command ends with the code of the first."""
    failed = [(outcome.name, outcome.error) for outcome in outcomes if outcome.error is not None]
    if not failed:
        return
    *others, last = [f"{name}: {sentence_for(error)}" for name, error in failed]
    for sentence in others:
        warn(sentence)
    raise CommandError(last, exit_code_of(failed[0][1]))
