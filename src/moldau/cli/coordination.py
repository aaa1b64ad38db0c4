"""``moldau coordination``: serve the store of topics and settings, or look at a stopped one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.coordination_serve import DATA_DIR, LISTEN, LOG_LEVEL, serve_coordination
from moldau.cli.exit_codes import CommandError, UsageError
from moldau.cli.options import Json, group_app
from moldau.cli.output import print_json, print_json_line, print_line, tell

app = group_app("Serve a coordination store; check, show and restore that of a stopped broker.")

Directory = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", exists=True, file_okay=False, help="The broker's first log directory."
    ),
]

_FIRST = "It is in the first directory of log.dirs."


@app.command()
def serve(
    listen: Annotated[
        str,
        typer.Option("--listen", "-l", metavar="HOST:PORT", help="Port 0 takes a free one."),
    ] = LISTEN,
    data_dir: Annotated[
        Path, typer.Option("--data-dir", "-d", file_okay=False, help="Where the store lives.")
    ] = Path(DATA_DIR),
    log_level: Annotated[
        str, typer.Option("--log-level", help="debug, info, warning or error.")
    ] = LOG_LEVEL,
) -> int:
    """Serve a coordination store on a port, for several brokers.

    It speaks ZooKeeper's protocol: brokers join by zookeeper.connect=HOST:PORT, and a ZooKeeper
    shell shows the nodes. Sessions go on when it is restarted. It is one process on one machine,
    and whoever reaches the port may change everything.

    \b
    moldau coordination serve --listen 127.0.0.1:2181 --data-dir moldau-data/coordination
    """
    return serve_coordination(listen, data_dir, log_level)


@app.command()
def check(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            exists=True,
            file_okay=False,
            help="All log directories of the broker; the store is in the first.",
        ),
    ],
    json: Json = False,
) -> None:
    """Check the store, compare it with the log directories, say what the next start would do.

    Nothing is changed. Ends with 1 if anything is damaged.

    \b
    moldau coordination check moldau-data
    moldau coordination check /disk0/kafka /disk1/kafka --json
    """
    import dataclasses

    from moldau.broker import store_check

    with _stopped():
        found = store_check.check([str(path) for path in paths])
    if not found.files and not found.at_start:
        raise UsageError(f"There is no coordination store in {paths[0]}. {_FIRST}")
    if json:
        print_json(dataclasses.asdict(found))
    else:
        for problem in found.problems:
            print_line(f"damaged, but nothing is missing: {problem}.")
        for damage in found.damage:
            print_line(f"damaged: {damage}.")
        if found.torn_bytes:
            print_line(f"torn: {found.torn_bytes} bytes at the end of the journal.")
        for sentence in found.at_start:
            print_line(f"at the start: {sentence}.")
        for topic in found.deletion_suspended:
            print_line(f"suspended: topic {topic} keeps everything until its cleanup.policy is set")
        tell(
            f"{found.topics} topics, {found.nodes} nodes, as of transaction {found.transaction}: "
            f"{len(found.damage) + len(found.problems)} damaged"
        )
    if found.damage:
        raise CommandError(
            f"A broker would not start here. 'moldau coordination restore {paths[0]}' keeps what "
            "can be read, and the next start takes up again what is missing from the log "
            "directories. Remove nothing."
        )
    if found.problems:
        raise CommandError("A part of the store is damaged; the next start makes up for it.")


@app.command()
def dump(directory: Directory, json: Json = False) -> None:
    """Show all nodes of the store, as far as they can be read.

    \b
    moldau coordination dump moldau-data
    moldau coordination dump moldau-data --json | jq 'select(.path | startswith("/config"))'
    """
    from moldau.broker import store_check

    with _stopped():
        nodes = store_check.dump(str(directory))
    for node in nodes:
        data = node.data.decode(errors="backslashreplace")
        if json:
            print_json_line(
                {
                    "path": node.path,
                    "data": data,
                    "version": node.version,
                    "czxid": node.czxid,
                    "mzxid": node.mzxid,
                    "ephemeral": node.owner != 0,
                }
            )
        else:
            print_line(f"{node.path} {data}".rstrip())


@app.command()
def restore(directory: Directory, json: Json = False) -> None:
    """Make a damaged store start again, with what can be read of it.

    The damaged files stay beside it, as coordination.*.damaged.1. The next start takes from the log
    directories what is missing of topics, partitions and settings of topics. Settings of brokers,
    groups and quotas that were changed last may be lost. A store that is not damaged is left as it
    is. Make a copy of the files first.

    \b
    moldau coordination restore moldau-data
    """
    from moldau.broker import store_check

    with _stopped():
        found = store_check.restore(str(directory))
    if found.is_new:
        raise UsageError(f"There is no coordination store in {directory}. {_FIRST}")
    topics = len([path for path in found.tree.nodes if path.startswith("/config/topics/")])
    if json:
        print_json(
            {
                "restored": bool(found.damage),
                "damage": found.damage,
                "transaction": found.tree.zxid,
                "topics": topics,
            }
        )
    elif not found.damage:
        tell("The store is not damaged, and was left as it is.")
    else:
        for damage in found.damage:
            print_line(f"damaged: {damage}.")
        tell(f"Restored as of transaction {found.tree.zxid}, with {topics} topics.")


@contextmanager
def _stopped() -> Iterator[None]:
    from moldau.coordination.errors import StoreLockedError

    try:
        yield
    except StoreLockedError as error:
        raise UsageError(f"{error}. Stop the broker first.") from None
