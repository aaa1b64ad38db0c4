"""``moldau dlq``: list, show, redrive: what listeners could not handle."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.command_config import client_config
from moldau.cli.exit_codes import UsageError
from moldau.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    Timeout,
    complete_topics,
    group_app,
)
from moldau.cli.output import note, print_json, print_json_line, print_table, print_text
from moldau.cli.session import DEFAULT_TIMEOUT, existing_topic, with_client
from moldau.cli.wording import counted

if TYPE_CHECKING:
    from moldau.client.client import Client
    from moldau.client.listener.dead_letters import DeadLetter, DeadLetters, Filter

app = group_app("Look at dead letters, the records that listeners gave up, and send them back.")

Topic = Annotated[
    str,
    typer.Argument(metavar="TOPIC", help="Dead-letter topic.", autocompletion=complete_topics),
]
Source = Annotated[
    str | None, typer.Option("--source", metavar="TOPIC", help="Only records of this topic.")
]
Group = Annotated[
    str | None, typer.Option("--group", metavar="GROUP", help="Only records of this group.")
]
Error = Annotated[
    str | None,
    typer.Option(
        "--error", metavar="TEXT", help="Only where the exception or its message has this in it."
    ),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="DURATION", help="Only what failed in the last 15m, 2d …"),
]
Records = Annotated[
    list[str],
    typer.Option("--record", metavar="PARTITION:OFFSET", help="Only this dead letter; repeatable."),
]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="At most so many.")]
Progress = Annotated[
    str,
    typer.Option(
        "--progress-group", metavar="GROUP", help="The group that keeps what was sent back."
    ),
]
_PROGRESS = "moldau-redrive"


@app.command("list")
def list_topics(
    suffix: Annotated[
        str, typer.Option(metavar="TEXT", help="What names of dead-letter topics end with.")
    ] = ".dlq",
    progress_group: Progress = _PROGRESS,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """List dead-letter topics: how many records they have, and how many were not sent back."""

    async def work(client: Client) -> list[tuple[str, int, int]]:
        from moldau.client.listener.dead_letters import DeadLetters, find_dead_letter_topics

        rows = []
        for topic in await find_dead_letter_topics(client.admin, suffix):
            letters = DeadLetters(client.cluster, client.admin, topic, progress_group)
            await letters.load()
            rows.append((topic, letters.count, letters.left))
        return rows

    rows = with_client(bootstrap, work, timeout=timeout)
    if json:
        print_json(
            [{"topic": topic, "records": count, "left": left} for topic, count, left in rows]
        )
        return
    print_table(["TOPIC", "RECORDS", "LEFT"], rows)
    if not rows:
        note(f"There are no topics that end with {suffix!r}.")


@app.command()
def show(
    topic: Topic,
    source: Source = None,
    group: Group = None,
    error: Error = None,
    since: Since = None,
    record: Records = [],  # noqa: B006 - typer copies it
    limit: Limit = None,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where the handlers failed.")
    ] = False,
    progress_group: Progress = _PROGRESS,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show dead letters: where they come from and why they failed.

    --json prints all there is to know, one object per line.
    """
    wanted = _filter(source, group, error, since, record)

    async def work(client: Client) -> list[DeadLetter]:
        letters = await _load(client, topic, progress_group)
        return await _take(letters, wanted, limit)

    found = with_client(bootstrap, work, timeout=timeout)
    if json:
        for letter in found:
            print_json_line(_document(letter))
        return
    print_table(
        ["PARTITION", "OFFSET", "FAILED", "SOURCE", "ATTEMPTS", "GROUP", "REDRIVEN", "ERROR"],
        [_row(letter) for letter in found],
    )
    if traceback:
        for letter in found:
            if letter.failure is not None:
                place = f"{letter.partition.partition}:{letter.record.offset}"
                print_text(f"\n{place}\n{letter.failure.traceback.rstrip()}")


@app.command()
def redrive(
    topic: Topic,
    source: Source = None,
    group: Group = None,
    error: Error = None,
    since: Since = None,
    record: Records = [],  # noqa: B006
    limit: Limit = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Send them; without this they are only shown.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show it (the default).")] = False,
    progress_group: Progress = _PROGRESS,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Send dead letters back to the topics that they come from.

    Shows what would be sent; --execute sends it. What was sent before is not sent again.
    """
    if execute and dry_run:
        raise UsageError("use either --execute or --dry-run")
    wanted = _filter(source, group, error, since, record)

    async def work(client: Client) -> list[DeadLetter]:
        from moldau.client.large import Chunking
        from moldau.client.listener.forwarding import Forwarding
        from moldau.client.settings import ConsumerSettings

        letters = await _load(client, topic, progress_group)
        if not execute:
            return await _take(letters, lambda one: _can_go_back(one) and wanted(one), limit)
        sent: list[DeadLetter] = []
        own = {"bootstrap.servers": bootstrap}
        settings = ConsumerSettings(client_config(ConsumerSettings, own))
        async with Forwarding(settings, Chunking()) as forwarding:
            await letters.redrive(wanted, forwarding.send, limit=limit, progress=sent.append)
        return sent

    found = with_client(bootstrap, work, timeout=timeout)
    if json:
        print_json([_document(letter) for letter in found])
    else:
        print_table(
            ["PARTITION", "OFFSET", "TO", "ERROR"],
            [
                (
                    letter.partition.partition,
                    letter.record.offset,
                    letter.failure.source.topic if letter.failure else None,
                    _error(letter),
                )
                for letter in found
            ],
        )
    records = counted(len(found), "record")
    if execute:
        note(f"Sent {records} back.")
    else:
        note(f"Nothing was sent; --execute sends {records} back.")


async def _load(client: Client, topic: str, progress_group: str) -> DeadLetters:
    from moldau.client.listener.dead_letters import DeadLetters

    await existing_topic(client, topic)
    letters = DeadLetters(client.cluster, client.admin, topic, progress_group)
    await letters.load()
    return letters


async def _take(
    letters: DeadLetters, wanted: Callable[[DeadLetter], bool], limit: int | None
) -> list[DeadLetter]:
    from contextlib import aclosing

    found: list[DeadLetter] = []
    async with aclosing(letters.read()) as reading:
        async for letter in reading:
            if wanted(letter):
                found.append(letter)
                if len(found) == limit:
                    break
    return found


def _can_go_back(letter: DeadLetter) -> bool:
    return letter.failure is not None and not letter.redriven


def _filter(
    source: str | None,
    group: str | None,
    error: str | None,
    since: str | None,
    records: list[str],
) -> Filter:
    import time

    from moldau.cli.parsing import parse_duration_ms
    from moldau.client.listener.dead_letters import Filter

    try:
        since_ms = None
        if since is not None:
            since_ms = time.time_ns() // 1_000_000 - parse_duration_ms(since)
        pairs = [text.partition(":") for text in records]
        places = frozenset((int(partition), int(offset)) for partition, _, offset in pairs)
    except ValueError as problem:
        text = str(problem) if since is not None and not records else "--record is PARTITION:OFFSET"
        raise UsageError(text) from None
    return Filter(source, group, error, since_ms, places)


def _row(letter: DeadLetter) -> tuple[object, ...]:
    from moldau.cli.parsing import format_timestamp

    failure = letter.failure
    return (
        letter.partition.partition,
        letter.record.offset,
        format_timestamp(failure.failed_at) if failure else None,
        f"{failure.source.topic}-{failure.source.partition}@{failure.source.offset}"
        if failure
        else None,
        failure.attempts if failure else None,
        failure.group if failure else None,
        "yes" if letter.redriven else "no",
        _error(letter),
    )


def _error(letter: DeadLetter) -> str | None:
    if letter.failure is None:
        return None
    text = f"{letter.failure.exception}: {letter.failure.message}"
    return " ".join(text.split())


def _document(letter: DeadLetter) -> dict[str, Any]:
    import msgspec

    from moldau.cli.render import make_renderer
    from moldau.client.listener.headers import own_headers
    from moldau.records.consumer_record import ConsumerRecord

    record = letter.record
    plain = ConsumerRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.timestamp_type,
        record.key,
        record.value,
        tuple(own_headers(record.headers)),
    )
    line = make_renderer("json")(record.topic, record.partition, plain)
    document: dict[str, Any] = msgspec.json.decode(line)
    failure = letter.failure
    document["redriven"] = letter.redriven
    document["failure"] = None
    if failure is not None:
        document["failure"] = {**failure._asdict(), "source": failure.source._asdict()}
    return document
