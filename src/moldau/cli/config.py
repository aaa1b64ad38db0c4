"""``moldau config``: settings of topics, brokers, groups and more."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.exit_codes import CommandError, ExitCode, UsageError
from moldau.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Timeout, group_app
from moldau.cli.output import note, print_json, print_table
from moldau.cli.session import DEFAULT_TIMEOUT, did_you_mean, existing_topic, with_client

if TYPE_CHECKING:
    from moldau.client.admin import ConfigChange, ConfigEntry, ConfigResource
    from moldau.client.client import Client

app = group_app("Show and change settings of topics, brokers, groups, and log levels.")


class Kind(StrEnum):
    topic = "topic"
    broker = "broker"
    group = "group"
    broker_logger = "broker-logger"
    client_metrics = "client-metrics"


MOST_DIGITS = 10
"""Of a broker id."""
EVERY_BROKER = "default"
"""Names what holds for all brokers, where a broker id is expected."""

KindArgument = Annotated[Kind, typer.Argument(help="What the settings belong to.")]


@app.command()
def describe(
    kind: KindArgument,
    name: Annotated[
        str,
        typer.Argument(
            help="Topic, broker id, group or subscription; default: what holds for all brokers; "
            "none: all there are."
        ),
    ] = "",
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[SETTING]...", help="Only these settings.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also settings that have their default value.")
    ] = False,
    documentation: Annotated[
        bool, typer.Option("--doc", help="Say what each setting does.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show settings: those that were changed, or --all.

    moldau config describe topic orders retention.ms --doc
    """
    wanted = set(settings or ())

    async def work(client: Client) -> list[tuple[str, ConfigEntry]]:
        resources = (
            [await _resource(client, kind, name)] if name else await _resources(client, kind)
        )
        outcomes = await client.admin.describe_configs(
            resources, synonyms=True, documentation=documentation
        )
        return [
            (outcome.name or EVERY_BROKER, entry) for outcome in outcomes for entry in outcome.get()
        ]

    found = with_client(bootstrap, work, timeout=timeout)
    names = [entry.name for _, entry in found]
    for setting in sorted(wanted):
        if setting not in names:
            raise CommandError(
                f"A {kind.value} has no setting {setting!r}.{did_you_mean(setting, names)}",
                ExitCode.NOT_FOUND,
            )
    shown = [
        (owner, entry)
        for owner, entry in found
        if entry.name in wanted or (not wanted and (everything or _was_changed(entry)))
    ]
    if json:
        print_json(
            [
                ({} if name else {kind.value: owner}) | _document(entry, documentation)
                for owner, entry in shown
            ]
        )
        return
    columns = ([] if name else [kind.upper()]) + ["SETTING", "VALUE", "SOURCE"]
    rows = [
        (() if name else (owner,))
        + (entry.name, _shown_value(entry), _source(entry))
        + ((entry.documentation or "",) if documentation else ())
        for owner, entry in shown
    ]
    print_table(columns + (["WHAT IT DOES"] if documentation else []), rows)
    if not shown:
        note("Every setting has its default. --all shows them.")


@app.command()
def alter(
    kind: KindArgument,
    name: Annotated[
        str, typer.Argument(help="Topic, broker id, group or subscription; default: all brokers.")
    ],
    assignments: Annotated[
        list[str] | None, typer.Argument(metavar="[SETTING=VALUE]...", help="New values.")
    ] = None,
    delete: Annotated[
        list[str],
        typer.Option(
            "--delete", "-d", metavar="SETTING", help="Return to the default; repeatable."
        ),
    ] = [],  # noqa: B006 - typer copies it
    append: Annotated[
        list[str],
        typer.Option(metavar="SETTING=VALUE", help="Add to a list setting; repeatable."),
    ] = [],  # noqa: B006
    subtract: Annotated[
        list[str],
        typer.Option(metavar="SETTING=VALUE", help="Take from a list setting; repeatable."),
    ] = [],  # noqa: B006
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check only, change nothing.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Change settings; all of them or, if one is wrong, none.

    moldau config alter topic orders retention.ms=86400000 --delete segment.ms

    moldau config alter broker-logger 1 moldau.controller=DEBUG
    """
    from moldau.cli.parsing import parse_pairs
    from moldau.client.admin import AlterOperation, ConfigChange

    try:
        changes = [
            ConfigChange(key, value, operation)
            for pairs, operation in (
                (assignments or [], AlterOperation.SET),
                (append, AlterOperation.APPEND),
                (subtract, AlterOperation.SUBTRACT),
            )
            for key, value in parse_pairs(pairs).items()
        ]
    except ValueError as error:
        raise UsageError(str(error)) from None
    changes += [ConfigChange(key, None, AlterOperation.DELETE) for key in delete]
    if not changes:
        raise UsageError("nothing to change: give SETTING=VALUE or --delete SETTING")

    async def work(client: Client) -> None:
        resource = await _resource(client, kind, name)
        await apply_changes(client, resource, changes, dry_run=dry_run)

    with_client(bootstrap, work, timeout=timeout)
    what = ", ".join(change.name for change in changes)
    note(f"{'Would change' if dry_run else 'Changed'} {what} of {kind.value} {name}.")


async def apply_changes(
    client: Client, resource: ConfigResource, changes: Sequence[ConfigChange], *, dry_run: bool
) -> None:
    """Change settings; a name that does not exist is answered with the closest one that does."""
    from moldau.errors import ErrorCode

    (outcome,) = await client.admin.alter_configs({resource: changes}, validate_only=dry_run)
    if outcome.error is None:
        return
    if outcome.error.code == ErrorCode.INVALID_CONFIG:
        (known,) = await client.admin.describe_configs([resource])
        names = [entry.name for entry in known.get()]
        for change in changes:
            if change.name not in names and change.name in outcome.error.message:
                raise CommandError(
                    f"There is no setting {change.name!r}.{did_you_mean(change.name, names)}"
                )
    raise outcome.error


async def _resource(client: Client, kind: Kind, name: str) -> ConfigResource:
    from moldau.client.admin import ConfigResource, ResourceType

    if kind is Kind.topic:
        await existing_topic(client, name)  # groups and subscriptions need not exist yet
    elif kind is Kind.broker and name == EVERY_BROKER:
        name = ""
    elif kind in (Kind.broker, Kind.broker_logger) and not (
        name.isdecimal() and len(name) <= MOST_DIGITS
    ):
        raise UsageError(f"{name!r} is not a broker id")
    return ConfigResource(ResourceType[kind.name.upper()], name)


async def _resources(client: Client, kind: Kind) -> list[ConfigResource]:
    """Everything of a kind that has settings: all topics, or all brokers and their default, or
    what has settings of its own.
    """
    from moldau.client.admin import ConfigResource, ResourceType

    if kind is Kind.topic:
        topics = await client.admin.list_topics(internal=True)
        return [ConfigResource(ResourceType.TOPIC, topic.name) for topic in topics]
    if kind is not Kind.broker:
        return await client.admin.list_config_resources([ResourceType[kind.name.upper()]])
    cluster = await client.admin.describe_cluster()
    return [
        ConfigResource(ResourceType.BROKER, name)
        for name in (*(str(node.id) for node in cluster.nodes), "")
    ]


def _was_changed(entry: ConfigEntry) -> bool:
    from moldau.client.admin import ConfigSource

    return entry.source not in (ConfigSource.DEFAULT, ConfigSource.UNKNOWN)


def _shown_value(entry: ConfigEntry) -> str:
    if entry.sensitive:
        return "(hidden)"
    return "" if entry.value is None else entry.value


def _source(entry: ConfigEntry) -> str:
    return entry.source.name.lower().replace("_", " ")


def _document(entry: ConfigEntry, documentation: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name.lower(),
        "type": entry.type.name.lower(),
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
        "synonyms": [
            {"name": name, "value": value, "source": source.name.lower()}
            for name, value, source in entry.synonyms
        ],
    }
    if documentation:
        document["documentation"] = entry.documentation
    return document
