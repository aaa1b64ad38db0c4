"""``moldau up`` and ``moldau broker``: run a broker in the foreground.

Nothing here may import the client or rich: starting is measured in tenths of a second.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.exit_codes import CommandError, UsageError
from moldau.cli.options import command_app
from moldau.cli.parsing import parse_pairs

if TYPE_CHECKING:
    from moldau.config import BrokerConfig

up_app = command_app()
broker_app = command_app()

Overrides = Annotated[
    list[str],
    typer.Option("--override", "-o", metavar="NAME=VALUE", help="A broker setting; repeatable."),
]
LogLevel = Annotated[str, typer.Option(help="debug, info, warning or error.")]


@up_app.command()
def up(
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="0 takes a free one.")
    ] = 9092,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    data_dir: Annotated[
        Path, typer.Option("--data-dir", "-d", file_okay=False, help="Where the logs live.")
    ] = Path("moldau-data"),
    override: Overrides = [],  # noqa: B006 - typer copies it
    log_level: LogLevel = "warning",
) -> int:
    """Start a broker for development: no configuration, ready at once.

    It runs until Ctrl-C. Data stays in the data directory and is there again at the next start.
    """
    shown_host = f"[{host}]" if ":" in host else host
    settings = {
        "node.id": "1",
        "listeners": f"PLAINTEXT://{shown_host}:{port}",
        "log.dirs": str(data_dir.absolute()),
    }

    def on_ready(config: BrokerConfig, addresses: list[str]) -> None:
        print(_banner(addresses, config.log_dirs), file=sys.stderr, flush=True)

    return _serve(settings, _parse(override), log_level, on_ready)


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
    if config is not None and not config.exists():
        raise CommandError(f"There is no file {config}.")
    return _serve(config, _parse(override), log_level, lambda _config, _addresses: None)


def _serve(
    source: Path | Mapping[str, str] | None,
    overrides: dict[str, str],
    log_level: str,
    on_ready: Callable[[BrokerConfig, list[str]], None],
) -> int:
    import logging

    _configure_logging(log_level)
    from moldau.config import BrokerConfig

    settings = BrokerConfig.load(source, overrides)
    for warning in settings.warnings:
        logging.getLogger("moldau.config").warning("%s", warning)
    from moldau.broker.app import run

    def ready(addresses: list[str]) -> None:
        on_ready(settings, addresses)
        where = ",".join(addresses)
        print(f"moldau ready: node {settings.node_id} listening on {where}", flush=True)

    _end_with_parent()
    return run(settings, ready)


def _parse(override: list[str]) -> dict[str, str]:
    try:
        return parse_pairs(override)
    except ValueError as error:
        raise UsageError(f"--override: {error}") from None


def _configure_logging(level: str) -> None:
    import logging

    known = {"debug", "info", "warning", "error"}
    if level.lower() not in known:
        raise UsageError(f"--log-level is {level!r}: use {', '.join(sorted(known))}")
    logging.basicConfig(
        level=level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
    )


def _banner(addresses: list[str], log_dirs: tuple[str, ...]) -> str:
    from moldau import __version__
    from moldau.cli.options import DEFAULT_BOOTSTRAP

    option = "" if addresses[0] == DEFAULT_BOOTSTRAP else f" -b {addresses[0]}"
    return "\n".join(
        (
            f"Moldau {__version__} is up.",
            "",
            f"  listens on  {', '.join(addresses)}",
            f"  data in     {', '.join(log_dirs)}",
            "",
            "Try it from another terminal:",
            "",
            f"  moldau topic create greetings{option}",
            f"  echo hello | moldau produce greetings{option}",
            f"  moldau consume greetings{option}",
            "",
            "Ctrl-C stops it.",
        )
    )


def _end_with_parent() -> None:
    """End when the process that started this one dies, if it asked for that.

    ``moldau.testing`` gives us the reading end of a pipe: when its end closes, for whatever reason,
    a read returns, and the broker shuts down instead of staying behind for ever.
    """
    descriptor = os.environ.get("MOLDAU_LIFELINE_FD")
    if descriptor is None:
        return
    import signal
    import threading

    def watch() -> None:
        os.read(int(descriptor), 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
