"""``moldau bench``: how fast is this server, from here?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.exit_codes import UsageError
from moldau.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Timeout, group_app
from moldau.cli.output import print_json, print_table, progress
from moldau.cli.produce import Acks, Codec
from moldau.cli.session import DEFAULT_TIMEOUT, with_client

if TYPE_CHECKING:
    from moldau.cli.load import Measured
    from moldau.client.client import Client
    from moldau.client.metadata import TopicInfo

app = group_app("Measure a server with simple load.")

Topic = Annotated[
    str | None,
    typer.Option("--topic", "-t", help="An existing topic; default: one made for this run."),
]
Partitions = Annotated[int, typer.Option("--partitions", "-p", min=1, help="Of the new topic.")]
Size = Annotated[str, typer.Option("--size", "-s", help="Bytes of each record's value.")]
Batch = Annotated[str, typer.Option("--batch", help="Bytes of each request's batch.")]


@app.command("produce")
def bench_produce(
    topic: Topic = None,
    records: Annotated[int, typer.Option("--records", "-n", min=1, help="How many.")] = 500_000,
    size: Size = "100",
    batch: Batch = "16k",
    in_flight: Annotated[
        int, typer.Option("--in-flight", min=1, help="Requests under way at a time.")
    ] = 5,
    partitions: Partitions = 1,
    compression: Annotated[Codec, typer.Option("--compression", "-z", help="Codec.")] = Codec.none,
    acks: Annotated[Acks, typer.Option("--acks", "-a", help="Whose acknowledgement.")] = Acks.all,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Send records as fast as the server takes them.

    Batches are encoded once and sent again and again, so that the server is the limit, not this
    client. Latency is per request, from sending to the acknowledgement.
    """
    record_size, batch_size = _sizes(size, batch)

    async def work(client: Client) -> Measured:
        from moldau.cli.load import encode_load, produce_load

        data, count = encode_load(record_size, batch_size, compression.compression)
        async with _topic(client, topic, partitions) as info:
            with progress("producing", records) as bar:
                return await produce_load(
                    client,
                    info,
                    records=records,
                    batch=data,
                    batch_records=count,
                    in_flight=in_flight,
                    acks=acks.number,
                    advance=bar.advance,
                )

    _print(with_client(bootstrap, work, timeout=timeout), json)


@app.command("fetch")
def bench_fetch(
    topic: Topic = None,
    records: Annotated[
        int | None, typer.Option("--records", "-n", min=1, help="How many; default: all there are.")
    ] = None,
    max_bytes: Annotated[str, typer.Option(help="Most bytes that one fetch asks for.")] = "1MB",
    size: Size = "100",
    batch: Batch = "16k",
    partitions: Partitions = 1,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Read a topic as fast as the server gives it.

    Without --topic a new one is filled first (with 1,000,000 records, or --records of --size), read
    and deleted. Batches are counted, not decoded. Latency is per fetch.
    """
    from moldau.cli.parsing import parse_size

    record_size, batch_size = _sizes(size, batch)
    try:
        fetch_size = parse_size(max_bytes)
    except ValueError as error:
        raise UsageError(str(error)) from None

    async def work(client: Client) -> Measured:
        from moldau.cli.load import encode_load, fetch_load, produce_load
        from moldau.records.compression import Compression

        async with _topic(client, topic, partitions) as info:
            if topic is None:
                data, count = encode_load(record_size, batch_size, Compression.NONE)
                total = records or 1_000_000
                with progress("filling", total) as bar:
                    await produce_load(
                        client,
                        info,
                        records=total,
                        batch=data,
                        batch_records=count,
                        in_flight=5,
                        acks=-1,
                        advance=bar.advance,
                    )
            with progress("fetching", records) as bar:
                return await fetch_load(
                    client, info, records=records, max_bytes=fetch_size, advance=bar.advance
                )

    _print(with_client(bootstrap, work, timeout=timeout), json)


def _sizes(size: str, batch: str) -> tuple[int, int]:
    from moldau.cli.parsing import parse_size

    try:
        return parse_size(size), parse_size(batch)
    except ValueError as error:
        raise UsageError(str(error)) from None


@asynccontextmanager
async def _topic(client: Client, name: str | None, partitions: int) -> AsyncIterator[TopicInfo]:
    """An existing topic, or one that lives as long as the run."""
    from moldau.cli.session import existing_topic
    from moldau.client.admin import NewTopic, raise_first_error

    if name is not None:
        yield await existing_topic(client, name)
        return
    import uuid

    own = f"moldau-bench-{uuid.uuid4().hex[:8]}"
    raise_first_error(await client.admin.create_topics([NewTopic(own, partitions)]))
    try:
        yield await client.cluster.wait_for_leaders(own, partitions)
    finally:
        await client.admin.delete_topics([own])


def _print(measured: Measured, json: bool) -> None:
    document = measured.as_dict()
    if json:
        print_json(document)
        return
    print_table(
        ["MEASURED", ""], [(name.replace("_", " "), value) for name, value in document.items()]
    )
