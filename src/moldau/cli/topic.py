"""``moldau topic``: create, list, describe, delete, alter, trim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.exit_codes import CommandError, ExitCode, UsageError, exit_code_of, sentence_for
from moldau.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    Timeout,
    complete_topics,
    group_app,
)
from moldau.cli.output import confirm, note, print_json, print_table, warn
from moldau.cli.session import DEFAULT_TIMEOUT, did_you_mean, with_client

if TYPE_CHECKING:
    from moldau.client.admin import Outcome
    from moldau.client.client import Client
    from moldau.client.metadata import TopicInfo

app = group_app("Create, list, describe, change and delete topics.")

NewNames = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Topic names.")]
Names = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC...", help="Topic names.", autocompletion=complete_topics),
]
Name = Annotated[
    str, typer.Argument(metavar="TOPIC", help="Topic name.", autocompletion=complete_topics)
]
Configs = Annotated[
    list[str],
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A topic setting; repeatable."),
]


@app.command()
def create(
    names: NewNames,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="Partitions; -1 takes the cluster's default.")
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option("--replication-factor", "-r", help="Replicas of each; -1 as above."),
    ] = -1,
    config: Configs = [],  # noqa: B006 - typer copies it
    assign: Annotated[
        list[str],
        typer.Option(
            metavar="PARTITION:BROKER[,BROKER]...",
            help="Place a partition on brokers, leader first; repeatable, instead of numbers.",
        ),
    ] = [],  # noqa: B006
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed when a topic is already there.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check only, create nothing.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Create topics.

    moldau topic create orders --partitions 3 --config retention.ms=86400000
    """
    from moldau.cli.parsing import parse_assignment, parse_pairs
    from moldau.client.admin import NewTopic
    from moldau.errors import ErrorCode

    try:
        configs = parse_pairs(config)
        assignments = dict(map(parse_assignment, assign))
    except ValueError as error:
        raise UsageError(str(error)) from None
    if assignments and (partitions, replication_factor) != (-1, -1):
        raise UsageError("use either --assign, or --partitions and --replication-factor")
    topics = [
        NewTopic(name, partitions, replication_factor, configs, assignments) for name in names
    ]

    async def work(client: Client) -> list[Outcome[Any]]:
        outcomes = await client.admin.create_topics(topics, validate_only=dry_run)
        if not dry_run:
            for outcome in outcomes:
                if outcome.error is None:
                    await client.cluster.wait_for_leaders(outcome.name)
        return outcomes

    outcomes = with_client(bootstrap, work, timeout=timeout)
    if if_not_exists:
        existing = [
            o for o in outcomes if o.error and o.error.code == ErrorCode.TOPIC_ALREADY_EXISTS
        ]
        outcomes = [outcome for outcome in outcomes if outcome not in existing]
        for outcome in existing:
            note(f"Topic {outcome.name!r} exists already.")
    created = [outcome.get() for outcome in outcomes if outcome.error is None]
    if json:
        print_json(
            [
                {
                    "name": topic.name,
                    "topic_id": str(topic.topic_id),
                    "partitions": topic.partitions,
                    "replication_factor": topic.replication_factor,
                }
                for topic in created
            ]
        )
    for topic in created:
        note(f"{'Would create' if dry_run else 'Created'} topic {topic.name!r}.")
    _fail_on_errors(outcomes)


@app.command("list")
def list_topics(
    internal: Annotated[
        bool, typer.Option("--internal", help="Also list the cluster's own topics.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """List topics: name, partitions, replication factor."""
    topics = with_client(
        bootstrap, lambda client: client.admin.list_topics(internal=internal), timeout=timeout
    )
    if json:
        print_json([_summary(topic) for topic in topics])
        return
    print_table(
        ["TOPIC", "PARTITIONS", "REPLICATION"],
        [(topic.name, len(topic.partitions), topic.replication_factor) for topic in topics],
        optional=("REPLICATION",),
    )
    if not topics:
        note("There are no topics yet. Create one: moldau topic create greetings")


@app.command()
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC]...", help="Topic names; none for all.", autocompletion=complete_topics
        ),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show partitions, leaders, replicas, offsets, sizes and changed settings of topics."""
    from moldau.cli.topic_report import print_report, report

    documents = with_client(bootstrap, lambda client: report(client, names), timeout=timeout)
    if json:
        print_json(documents)
    else:
        print_report(documents)


@app.command()
def delete(
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Succeed when a topic is not there.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete topics and all their records.

    On a terminal it asks first.
    """
    from moldau.errors import ErrorCode

    confirm(f"Delete {', '.join(names)} and all records?", yes=yes)

    async def work(client: Client) -> tuple[list[Outcome[str]], list[str]]:
        outcomes = await client.admin.delete_topics(names)
        failed = any(outcome.error is not None for outcome in outcomes)
        known = [topic.name for topic in await client.admin.list_topics()] if failed else []
        return outcomes, known

    outcomes, known = with_client(bootstrap, work, timeout=timeout)
    deleted = [outcome.name for outcome in outcomes if outcome.error is None]
    missing = [
        outcome
        for outcome in outcomes
        if outcome.error and outcome.error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
    if json:
        print_json([{"name": name} for name in deleted])
    for name in deleted:
        note(f"Deleted topic {name!r}.")
    _fail_on_errors([outcome for outcome in outcomes if outcome not in missing])
    if missing and not if_exists:
        name = missing[0].name
        raise CommandError(
            f"There is no topic {name!r}.{did_you_mean(name, known)}", ExitCode.NOT_FOUND
        )


@app.command()
def alter(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="Grow to this many partitions.")
    ] = None,
    config: Configs = [],  # noqa: B006
    delete_config: Annotated[
        list[str],
        typer.Option(metavar="NAME", help="Return a setting to its default; repeatable."),
    ] = [],  # noqa: B006
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check only, change nothing.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Add partitions to a topic or change its settings."""
    from moldau.cli.config import apply_changes
    from moldau.cli.parsing import parse_pairs
    from moldau.client.admin import AlterOperation, ConfigChange, ConfigResource, ResourceType

    try:
        changes = [ConfigChange(key, value) for key, value in parse_pairs(config).items()]
    except ValueError as error:
        raise UsageError(str(error)) from None
    changes += [ConfigChange(key, None, AlterOperation.DELETE) for key in delete_config]
    if partitions is None and not changes:
        raise UsageError("nothing to change: give --partitions, --config or --delete-config")

    async def work(client: Client) -> None:
        from moldau.cli.session import existing_topic

        await existing_topic(client, name)
        if partitions is not None:
            outcomes = await client.admin.create_partitions(
                {name: partitions}, validate_only=dry_run
            )
            _fail_on_errors(outcomes)
            if not dry_run:
                await client.cluster.wait_for_leaders(name, partitions)
        if changes:
            resource = ConfigResource(ResourceType.TOPIC, name)
            await apply_changes(client, resource, changes, dry_run=dry_run)

    with_client(bootstrap, work, timeout=timeout)
    note(f"{'Would change' if dry_run else 'Changed'} topic {name!r}.")


@app.command()
def trim(
    name: Name,
    before: Annotated[
        str, typer.Option(metavar="OFFSET", help="Drop records below this offset; latest: all.")
    ],
    partition: Annotated[
        list[int],
        typer.Option("--partition", "-p", help="Only this partition; repeatable."),
    ] = [],  # noqa: B006
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete the oldest records of a topic, up to an offset."""
    from moldau.cli.parsing import Anchor, parse_offset
    from moldau.model import TopicPartition

    try:
        start = parse_offset(before)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if start.anchor not in (Anchor.ABSOLUTE, Anchor.LATEST):
        raise UsageError("--before takes an offset or latest")
    offset = -1 if start.anchor is Anchor.LATEST else start.number
    confirm(f"Delete records of {name}?", yes=yes)

    async def work(client: Client) -> list[Outcome[int]]:
        from moldau.cli.session import existing_topic

        everywhere = (await existing_topic(client, name)).partitions
        return await client.admin.delete_records(
            {TopicPartition(name, number): offset for number in partition or everywhere}
        )

    outcomes = with_client(bootstrap, work, timeout=timeout)
    done = [(outcome.name, outcome.get()) for outcome in outcomes if outcome.error is None]
    if json:
        print_json([{"partition": where, "log_start_offset": start} for where, start in done])
    else:
        print_table(["PARTITION", "STARTS AT"], done)
    _fail_on_errors(outcomes)


def _summary(topic: TopicInfo) -> dict[str, object]:
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "internal": topic.internal,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
    }


def _fail_on_errors(outcomes: Sequence[Outcome[Any]]) -> None:
    """Say each failure in a line; the command ends with the code of the first."""
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    if not failed:
        return
    for error in failed[:-1]:
        warn(sentence_for(error))
    raise CommandError(sentence_for(failed[-1]), exit_code_of(failed[0]))
