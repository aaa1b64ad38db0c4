"""``moldau produce``: lines in, records out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.command_config import client_config
from moldau.cli.exit_codes import CommandError, UsageError
from moldau.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    Timeout,
    command_app,
    complete_topics,
)
from moldau.cli.session import DEFAULT_TIMEOUT, existing_topic, with_client

if TYPE_CHECKING:
    from moldau.cli.lines import InputRecord, LineParser
    from moldau.client.client import Client
    from moldau.client.producer import AsyncProducer, Delivery
    from moldau.records.compression import Compression

app = command_app()

_LINGER_MS = 5
_LARGEST_RECORD = 2**30
"""What a topic takes is for the broker to say."""


class Format(StrEnum):
    raw = "raw"
    json = "json"
    hex = "hex"
    base64 = "base64"


class Codec(StrEnum):
    none = "none"
    gzip = "gzip"
    snappy = "snappy"
    lz4 = "lz4"
    zstd = "zstd"

    @property
    def compression(self) -> Compression:
        from moldau.records.compression import Compression

        return Compression[self.name.upper()]


class Acks(StrEnum):
    none = "0"
    leader = "1"
    all = "all"

    @property
    def number(self) -> int:
        return -1 if self is Acks.all else int(self)


@app.command()
def produce(
    topic: Annotated[
        str, typer.Argument(help="Where the records go.", autocompletion=complete_topics)
    ],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[VALUE]...", help="Values; none reads stdin.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key of every record.")] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="SEP", help="Each line is KEY SEP VALUE."),
    ] = None,
    header: Annotated[
        list[str],
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header; repeatable."),
    ] = [],  # noqa: B006 - typer copies it
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Default: by key, or spread.")
    ] = None,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", "-t", help="ISO 8601 or epoch; default: now.")
    ] = None,
    compression: Annotated[Codec, typer.Option("--compression", "-z", help="Codec.")] = Codec.none,
    acks: Annotated[Acks, typer.Option("--acks", "-a", help="Whose acknowledgement.")] = Acks.all,
    null_value: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="A value of exactly this text becomes null (tombstone)."),
    ] = None,
    form: Annotated[
        Format,
        typer.Option(
            "--format", help="How values (and keys) are written; json: as consume prints."
        ),
    ] = Format.raw,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", exists=True, dir_okay=False, help="Read this, not stdin."),
    ] = None,
    delimiter: Annotated[str, typer.Option(help="What ends a record in the input.")] = r"\n",
    whole: Annotated[bool, typer.Option("--whole", help="The whole input is one value.")] = False,
    batch: Annotated[
        str, typer.Option(metavar="SIZE", help="Most bytes of a batch, as in 64k or 1MB.")
    ] = "256k",
    idempotent: Annotated[
        bool | None, typer.Option(help="Store retried batches once; default with --acks all.")
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Let the broker create the topic if it is not there.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Send records: the values given, or the lines of a file or stdin.

    \b
    moldau produce greetings hello
    moldau produce orders --key-separator : < orders.txt
    moldau consume a --json | moldau produce b --format json

    --json prints one line per acknowledged record: topic, partition, offset, timestamp.
    """
    from moldau.cli.lines import LineParser
    from moldau.cli.parsing import parse_size, parse_timestamp_ms, unescape

    if values and (file or whole):
        raise UsageError("give values as arguments or in a file, not both")
    try:
        parser = LineParser(
            form.value,
            key=None if key is None else key.encode(),
            key_separator=None if key_separator is None else unescape(key_separator).encode(),
            headers=header,
            null_value=None if null_value is None else null_value.encode(),
        )
        batch_size = parse_size(batch)
        fixed_time = None if timestamp is None else parse_timestamp_ms(timestamp)
        if idempotent and acks is not Acks.all:
            raise ValueError("--idempotent needs --acks all")
    except ValueError as error:
        raise UsageError(str(error)) from None
    end = unescape(delimiter).encode()

    async def work(client: Client) -> int:
        from moldau.client.producer import AsyncProducer
        from moldau.client.settings import ProducerSettings

        if not create:
            await existing_topic(client, topic)
        records = (
            _from_arguments(values, parser) if values else _from_input(file, parser, end, whole)
        )
        settings: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "acks": acks.value,
            "compression.type": compression.value,
            "batch.size": batch_size,
            "linger.ms": _LINGER_MS,
            "max.request.size": _LARGEST_RECORD,
            "buffer.memory": _LARGEST_RECORD,
            "request.timeout.ms": round(timeout * 1000),
            "delivery.timeout.ms": round(timeout * 1000) + _LINGER_MS,
            "max.block.ms": round(timeout * 1000),
        }
        if idempotent is not None:
            settings["enable.idempotence"] = idempotent
        async with AsyncProducer(client_config(ProducerSettings, settings)) as producer:
            return await _send_all(producer, topic, records, partition, fixed_time, json)

    count = with_client(bootstrap, work, timeout=timeout)
    from moldau.cli.output import note
    from moldau.cli.wording import counted

    note(f"{counted(count, 'record')} to {topic!r}.")


async def _send_all(
    producer: AsyncProducer,
    topic: str,
    records: AsyncIterator[InputRecord],
    partition: int | None,
    timestamp: int | None,
    json: bool,
) -> int:
    from moldau.cli.output import progress

    count = 0
    unreported: list[Delivery] = []
    failures: list[Exception] = []

    def check(delivery: Delivery) -> None:
        error = delivery.exception(0)
        if error is not None:
            failures.append(error)

    with progress(f"producing to {topic}", None) as bar:
        async for record in records:
            delivery = await producer.send(
                topic,
                record.value,
                key=record.key,
                headers=record.headers,
                partition=record.partition if partition is None else partition,
                timestamp=record.timestamp if timestamp is None else timestamp,
                on_delivery=check,
            )
            count += 1
            if count % 1000 == 0:
                bar.advance(1000)
            if json:
                unreported.append(delivery)
                if len(unreported) >= 1000:
                    await _report(unreported)
        await producer.flush()
    if failures:
        raise failures[0]
    await _report(unreported)
    return count


async def _report(deliveries: list[Delivery]) -> None:
    from moldau.cli.output import print_json_line

    for delivery in deliveries:
        placed = await delivery
        print_json_line(placed._asdict())
    deliveries.clear()


async def _from_arguments(values: list[str], parser: LineParser) -> AsyncIterator[InputRecord]:
    import os

    for record in parser.parse_all([os.fsencode(value) for value in values], 1):
        yield record


async def _from_input(
    file: Path | None, parser: LineParser, delimiter: bytes, whole: bool
) -> AsyncIterator[InputRecord]:
    from moldau.cli.lines import LineSplitter
    from moldau.cli.stdin import read_chunks

    number = 1
    splitter = LineSplitter(delimiter)
    everything = []
    try:
        async for chunk in read_chunks(file):
            if whole:
                everything.append(chunk)
                continue
            lines = splitter.feed(chunk)
            for record in parser.parse_all(lines, number):
                yield record
            number += len(lines)
        rest = [b"".join(everything)] if whole else splitter.finish()
        for record in parser.parse_all(rest, number):
            yield record
    except ValueError as error:
        raise CommandError(f"{file or 'stdin'}: {error}") from None
