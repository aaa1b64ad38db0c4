"""``moldau log dirs`` and ``moldau log move``: where replicas lie on the brokers' disks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.exit_codes import CommandError, ExitCode, UsageError
from moldau.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Timeout
from moldau.cli.output import on_terminal, print_json, print_table
from moldau.cli.session import DEFAULT_TIMEOUT, with_client
from moldau.model import TopicPartition

if TYPE_CHECKING:
    from moldau.client.admin import LogDir, Replica
    from moldau.client.client import Client

_LOOK_AGAIN_S = 0.2


def dirs(
    broker: Annotated[
        list[int] | None, typer.Option("--broker", metavar="ID", help="Only of these brokers.")
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the brokers' log directories: how full they are, what is in them, what moves in."""
    found = with_client(
        bootstrap, lambda client: client.admin.describe_log_dirs(broker), timeout=timeout
    )
    if json:
        print_json([_document(log_dir) for log_dir in found])
        return
    print_table(
        [
            "BROKER",
            "DIRECTORY",
            "PARTITIONS",
            "MOVING IN",
            "SIZE",
            "FREE",
            "OF",
            "ERROR",
            "CORDONED",
        ],
        [
            (
                log_dir.node_id,
                log_dir.path,
                len(log_dir.sizes),
                len(log_dir.future),
                _size(sum(log_dir.sizes.values())),
                _size(log_dir.usable_bytes),
                _size(log_dir.total_bytes),
                log_dir.error.code.name if log_dir.error else "-",
                "yes" if log_dir.cordoned else "no",
            )
            for log_dir in found
        ],
    )


def move(
    partitions: Annotated[
        list[str], typer.Argument(metavar="TOPIC:PARTITION...", help="What to move.")
    ],
    directory: Annotated[
        str, typer.Option("--to", metavar="DIR", help="A path as the broker's log.dirs has it.")
    ],
    broker: Annotated[
        int | None,
        typer.Option("--broker", metavar="ID", help="Whose replica; by default the only one's."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when they are there, not when they are off.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Move replicas to another log directory of their broker, while they are used.

    Moving one back to where it is cancels a move that is under way.

    \b
    moldau log move orders:0 orders:1 --to /disk1/kafka --wait
    """
    wanted = [_parse(text) for text in partitions]

    async def work(client: Client) -> None:
        import asyncio

        from moldau.client.admin import Replica

        node = await _only_broker(client) if broker is None else broker
        replicas = [Replica(topic, number, node) for topic, number in wanted]
        outcomes = await client.admin.alter_replica_log_dirs(dict.fromkeys(replicas, directory))
        for outcome in outcomes:
            outcome.get()
        # The protocol has no way to be told: everybody asks again.
        while wait and not await _are_there(client, replicas, directory):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_AGAIN_S)

    with_client(bootstrap, work, timeout=timeout)


async def _only_broker(client: Client) -> int:
    nodes = (await client.admin.describe_cluster()).nodes
    if len(nodes) != 1:
        ids = ", ".join(str(node.id) for node in nodes)
        raise UsageError(f"There are several brokers ({ids}): say which with --broker.")
    return nodes[0].id


async def _are_there(client: Client, replicas: list[Replica], directory: str) -> bool:
    node_id = replicas[0].node_id
    for log_dir in await client.admin.describe_log_dirs([node_id]):
        if log_dir.path == directory:
            if log_dir.error is not None:
                raise CommandError(f"{directory} has failed while replicas moved into it.")
            return all((one.topic, one.partition) in log_dir.sizes for one in replicas)
    raise CommandError(f"{directory} is no log directory of broker {node_id}.", ExitCode.NOT_FOUND)


def _parse(text: str) -> TopicPartition:
    topic, _, number = text.rpartition(":")
    if not topic or not number.isdecimal():
        raise UsageError(f"{text!r} is not a partition: write it as orders:0.")
    return TopicPartition(topic, int(number))


def _size(size: int) -> str | int:
    from moldau.cli.parsing import format_size

    return format_size(size) if on_terminal() and size >= 0 else size


def _document(log_dir: LogDir) -> dict[str, Any]:
    return {
        "broker": log_dir.node_id,
        "path": log_dir.path,
        "error": log_dir.error.code.name if log_dir.error else None,
        "cordoned": log_dir.cordoned,
        "total_bytes": log_dir.total_bytes,
        "usable_bytes": log_dir.usable_bytes,
        "partitions": _sizes(log_dir.sizes),
        "moving_in": _sizes(log_dir.future),
    }


def _sizes(sizes: Any) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "partition": number, "size": size}
        for (topic, number), size in sorted(sizes.items())
    ]
