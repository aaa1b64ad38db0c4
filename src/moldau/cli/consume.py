"""``moldau consume``: records out. Like ``cat``, or with ``--follow`` like ``tail -f``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.exit_codes import UsageError
from moldau.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    Timeout,
    command_app,
    complete_topics,
)
from moldau.cli.output import on_terminal, write_records
from moldau.cli.session import DEFAULT_TIMEOUT, existing_topic, with_client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moldau.cli.parsing import StartAt
    from moldau.cli.render import Renderer
    from moldau.client.client import Client
    from moldau.client.consumer.partition_reader import PartitionReader
    from moldau.client.metadata import TopicInfo
    from moldau.model import TopicPartition

app = command_app()


@app.command()
def consume(
    topic: Annotated[str, typer.Argument(help="What to read.", autocompletion=complete_topics)],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for new records instead of ending.")
    ] = False,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the oldest record.")
    ] = False,
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset", "-o", metavar="OFFSET", help="N, -N (the last N), earliest or latest."
        ),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp", "-t", metavar="TIME", help="Start at an ISO 8601 time or epoch."
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Start so long ago: 90s, 15m, 1h30m, 2d.")
    ] = None,
    partition: Annotated[
        list[int],
        typer.Option("--partition", "-p", min=0, help="Only this partition; repeatable."),
    ] = [],  # noqa: B006 - typer copies it
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", "-n", min=1, help="End after so many records.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="text, json, hex, base64, or a template (see below).")
    ] = "text",
    keys: Annotated[bool, typer.Option("--keys", "-k", help="Print keys.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="Print headers.")] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Print timestamps.")] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Print partitions and offsets.")
    ] = False,
    separator: Annotated[str, typer.Option(help="Between printed fields.")] = r"\t",
    delimiter: Annotated[str, typer.Option(help="After each record.")] = r"\n",
    null_value: Annotated[str, typer.Option(help="How null keys and values are printed.")] = "",
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="Leave out aborted and open transactions.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Print records.

    Without --follow it reads from the oldest record to what is there now, and ends. With --follow
    it starts at the end and waits for more; --from-beginning, --offset, --timestamp and --since
    start elsewhere.

    \b
    moldau consume greetings --keys
    moldau consume orders -f --offset -10 --format '%p:%o %k=%v'
    moldau consume orders --since 1h --json | jq .value

    Templates: %t topic, %p partition, %o offset, %k key, %v value, %K and %V their lengths,
    %T epoch milliseconds, %d date, %h headers, %% percent; \\n, \\t and \\xHH are understood.
    """
    from moldau.cli.render import Columns, make_renderer

    start = _start(follow, from_beginning, offset, timestamp, since)
    columns = Columns(timestamps, offsets, offsets, headers, keys)
    try:
        renderer = make_renderer(
            "json" if json else form,
            columns=columns,
            separator=separator,
            delimiter=delimiter,
            null=null_value,
            escape=on_terminal(),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None

    async def work(client: Client) -> None:
        info = await existing_topic(client, topic)
        positions, ends = await _positions(client, info, partition, start, read_committed)
        from moldau.client.consumer.partition_reader import PartitionReader, ReaderSettings

        settings = ReaderSettings(read_committed=read_committed, out_of_range="earliest")
        async with PartitionReader(
            client.cluster, positions, until=None if follow else ends, settings=settings
        ) as reader:
            await _print_all(reader, renderer, max_messages)

    with_client(bootstrap, work, timeout=timeout)


def _start(
    follow: bool,
    from_beginning: bool,
    offset: str | None,
    timestamp: str | None,
    since: str | None,
) -> StartAt:
    import time

    from moldau.cli.parsing import (
        Anchor,
        StartAt,
        parse_duration_ms,
        parse_offset,
        parse_timestamp_ms,
    )

    if sum([from_beginning, offset is not None, timestamp is not None, since is not None]) > 1:
        raise UsageError("use one of --from-beginning, --offset, --timestamp and --since")
    try:
        if offset is not None:
            return parse_offset(offset)
        if timestamp is not None:
            return StartAt(Anchor.TIMESTAMP, parse_timestamp_ms(timestamp))
        if since is not None:
            now = time.time_ns() // 1_000_000
            return StartAt(Anchor.TIMESTAMP, now - parse_duration_ms(since))
    except ValueError as error:
        raise UsageError(str(error)) from None
    return StartAt(Anchor.LATEST if follow and not from_beginning else Anchor.EARLIEST)


async def _positions(
    client: Client, topic: TopicInfo, wanted: list[int], start: StartAt, read_committed: bool
) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]:
    """Where to start and where the end is now, of each partition."""
    from moldau.cli.parsing import Anchor
    from moldau.client.admin import OffsetSpec
    from moldau.client.errors import UnknownTopicError
    from moldau.model import TopicPartition

    for number in wanted:
        if number not in topic.partitions:
            raise UnknownTopicError(topic.name, number)
    partitions = [TopicPartition(topic.name, number) for number in wanted or topic.partitions]

    async def look_up(timestamp: int) -> dict[TopicPartition, int]:
        found = await client.admin.list_offsets(
            dict.fromkeys(partitions, timestamp), read_committed=read_committed
        )
        return {key: at.offset for key, at in found.items()}

    first = await look_up(OffsetSpec.EARLIEST)
    ends = await look_up(OffsetSpec.LATEST)
    match start.anchor:
        case Anchor.EARLIEST:
            return first, ends
        case Anchor.LATEST:
            return ends, ends
        case Anchor.FROM_END:
            positions = {key: ends[key] - start.number for key in partitions}
        case Anchor.ABSOLUTE:
            positions = dict.fromkeys(partitions, start.number)
        case Anchor.TIMESTAMP:
            found = await look_up(start.number)
            positions = {key: at if at >= 0 else ends[key] for key, at in found.items()}
    return {key: min(max(positions[key], first[key]), ends[key]) for key in partitions}, ends


async def _print_all(reader: PartitionReader, renderer: Renderer, most: int | None) -> None:
    left = most
    async for (topic, partition), records, _ in reader:
        if left is not None:
            records = records[:left]
            left -= len(records)
        write_records([renderer(topic, partition, record) for record in records])
        if left == 0:
            return
