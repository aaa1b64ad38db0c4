"""``moldau claim-check``: payloads of large messages that no record needs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.exit_codes import UsageError
from moldau.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    Timeout,
    complete_topics,
    group_app,
)
from moldau.cli.output import note, print_json, print_table
from moldau.cli.parsing import parse_pairs
from moldau.cli.session import DEFAULT_TIMEOUT, with_client

if TYPE_CHECKING:
    from moldau.client.client import Client
    from moldau.client.large.clean_up import Payload

app = group_app("Payloads of large messages in shared storage.")


@app.command("clean-up")
def clean_up(
    url: Annotated[str, typer.Argument(metavar="URL", help="The folder, as ClaimCheck has it.")],
    topic: Annotated[
        list[str],
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC",
            help="Only payloads of this topic; repeatable.",
            autocompletion=complete_topics,
        ),
    ] = [],  # noqa: B006 - typer copies it
    unreferenced: Annotated[
        bool,
        typer.Option(
            "--unreferenced", help="Read the topics for addresses instead of going by retention."
        ),
    ] = False,
    storage_option: Annotated[
        list[str],
        typer.Option(metavar="NAME=VALUE", help="An option of the storage; repeatable."),
    ] = [],  # noqa: B006
    execute: Annotated[
        bool, typer.Option("--execute", help="Delete them; without this they are only shown.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show it (the default).")] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete payloads that are older than their topic keeps records, or that nobody points to.

    Shows what would be deleted; --execute deletes it. Payloads of the last hour always stay.
    """
    if execute and dry_run:
        raise UsageError("use either --execute or --dry-run")
    from moldau.client.large import ClaimCheck

    try:
        claims = ClaimCheck(url, storage_options=parse_pairs(storage_option))
    except ValueError as error:
        raise UsageError(str(error)) from None

    async def work(client: Client) -> list[Payload]:
        from moldau.client.large.clean_up import (
            delete_payloads,
            expired_payloads,
            unreferenced_payloads,
        )

        topics = topic or None
        if unreferenced:
            found = await unreferenced_payloads(claims, client.cluster, client.admin, topics=topics)
        else:
            found = await expired_payloads(claims, client.admin, topics=topics)
        if execute:
            delete_payloads(claims.storage, found)
        return found

    found = with_client(bootstrap, work, timeout=timeout)
    if json:
        print_json([payload._asdict() for payload in found])
    else:
        print_table(
            ["TOPIC", "CREATED", "SIZE", "ADDRESS"],
            [(p.topic, p.created_ms, p.size, p.address) for p in found],
        )
    note(
        f"Deleted {len(found)} payloads."
        if execute
        else f"Nothing was deleted; --execute deletes {len(found)} payloads."
    )
