"""``moldau up`` and ``moldau broker`` as typer sees them: help, completion, unusual spellings.

The usual command lines do not get here: see ``serve_quickly``. The options are declared in both
places; a test compares them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moldau.cli import serve
from moldau.cli.options import command_app

up_app = command_app()
broker_app = command_app()

Overrides = Annotated[
    list[str],
    typer.Option("--override", "-o", metavar="NAME=VALUE", help="A broker setting; repeatable."),
]
LogLevel = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]


@up_app.command()
def up(
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="0 takes a free one.")
    ] = 9092,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    data_dir: Annotated[
        Path, typer.Option("--data-dir", "-d", file_okay=False, help="Where the logs live.")
    ] = Path("moldau-data"),
    override: Overrides = [],  # noqa: B006 - typer copies it
    log_level: LogLevel = "warning",
    brokers: Annotated[
        int, typer.Option("--brokers", min=1, max=20, help="More than one make a cluster.")
    ] = 1,
) -> int:
    """Start a broker for development, or a cluster: no configuration, ready at once.

    It runs until Ctrl-C. Data stays in the data directory and is there again at the next start.
    With --brokers 3, brokers listen on three ports from --port on, and the store that they share
    on the one before; whichever of these processes dies is started again.
    """
    return serve.up(port, host, data_dir, override, log_level, brokers)


@broker_app.command()
def broker(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", dir_okay=False, help="A server.properties file."),
    ] = None,
    override: Overrides = [],  # noqa: B006
    log_level: LogLevel = "info",
) -> int:
    """Run a broker with a server.properties file, as Kafka's own script does.

    It prints one line when it is ready, with its addresses, and shuts down cleanly on SIGTERM.
    """
    return serve.broker(config, override, log_level)
