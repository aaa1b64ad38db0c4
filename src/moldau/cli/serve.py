"""Running a broker in the foreground, for ``moldau up`` and ``moldau broker``.

Nothing here may import typer, the client or rich: starting is measured in tenths of a second, and
what is imported stays in the broker's memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moldau.cli.exit_codes import CommandError, UsageError
from moldau.cli.output import print_line, tell

if TYPE_CHECKING:
    from moldau.config.values.broker import BrokerConfig

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"

_COMMON: Final = {"--override": "override", "-o": "override", "--log-level": "log_level"}
FLAGS: Final[dict[str, dict[str, str]]] = {
    "up": {
        **_COMMON,
        "--port": "port",
        "-p": "port",
        "--host": "host",
        "--data-dir": "data_dir",
        "-d": "data_dir",
        "--brokers": "brokers",
    },
    "broker": {**_COMMON, "--config": "config", "-c": "config"},
}
"""The options of both commands, all of which take a value, by parameter of the functions below."""


def serve_quickly(command: str, arguments: list[str]) -> int | None:
    """Run the command if it consists of plain options, the usual case; None leaves it to typer."""
    given = plain_options(FLAGS[command], arguments)
    if given is None:
        return None
    override = given.pop("override", [])
    single = {name: values[-1] for name, values in given.items()}
    log_level = single.get("log_level")
    if command == "broker":
        config = single.get("config")
        return broker(Path(config) if config else None, override, log_level or "info")
    port = single.get("port", "9092")
    brokers = single.get("brokers", "1")
    if not port.isdecimal() or int(port) > 65535 or not brokers.isdecimal():
        return None
    return up(
        int(port),
        single.get("host", "127.0.0.1"),
        Path(single.get("data_dir", "moldau-data")),
        override,
        log_level or "warning",
        int(brokers),
    )


def plain_options(flags: Mapping[str, str], arguments: list[str]) -> dict[str, list[str]] | None:
    """``--flag value`` and ``--flag=value``, and nothing else."""
    found: dict[str, list[str]] = {}
    left = iter(arguments)
    for argument in left:
        flag, equals, value = argument.partition("=")
        if flag not in flags or (equals and not flag.startswith("--")):
            return None
        given = value if equals else next(left, None)
        if given is None or given.startswith("-"):
            return None
        found.setdefault(flags[flag], []).append(given)
    return found


def up(
    port: int, host: str, data_dir: Path, override: list[str], log_level: str, brokers: int = 1
) -> int:
    """A broker without configuration, with a banner; or several, with what they need."""
    if brokers != 1:
        from moldau.cli.up_cluster import up_cluster

        parse_overrides(override)
        return up_cluster(port, host, data_dir, override, log_level, brokers)
    _refuse_cluster(data_dir)
    shown_host = f"[{host}]" if ":" in host else host
    settings = {
        "node.id": "1",
        "listeners": f"PLAINTEXT://{shown_host}:{port}",
        "log.dirs": str(data_dir.absolute()),
        # As in the server.properties that Kafka ships: the first consumer of a group need not
        # wait three seconds for others, of whom there are none here.
        "group.initial.rebalance.delay.ms": "0",
    }

    def on_ready(config: BrokerConfig, addresses: list[str]) -> None:
        tell(_banner(addresses, config.log_directories))

    return _serve(settings, override, log_level, on_ready)


def _refuse_cluster(data_dir: Path) -> None:
    if (data_dir / "coordination").is_dir():
        from moldau.cli.local_cluster import refuse_cluster

        refuse_cluster(data_dir)


def broker(config: Path | None, override: list[str], log_level: str) -> int:
    """A broker with a ``server.properties`` file, overrides, or both."""
    if config is not None and not config.exists():
        raise CommandError(f"There is no file {config}.")
    return _serve(config, override, log_level, lambda _config, _addresses: None)


def _serve(
    source: Path | Mapping[str, str] | None,
    override: list[str],
    log_level: str,
    on_ready: Callable[[BrokerConfig, list[str]], None],
) -> int:
    overrides = parse_overrides(override)
    configure_logging(log_level)
    from moldau.config.values.broker import BrokerConfig

    settings = BrokerConfig.load(source, overrides)
    from moldau.broker.app import run

    def ready(addresses: list[str]) -> None:
        on_ready(settings, addresses)
        where = ",".join(addresses)
        print_line(f"moldau ready: node {settings.node_id} listening on {where}", flush=True)

    end_with_parent()
    return run(settings, ready)


def parse_overrides(override: list[str]) -> dict[str, str]:
    pairs = {}
    for text in override:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--override: {text!r} is not of the form name=value")
        pairs[name.strip()] = value
    return pairs


def configure_logging(level: str) -> None:
    from moldau.printable import log_to_stderr

    known = ("debug", "info", "warning", "error")
    if level.lower() not in known:
        raise UsageError(f"--log-level is {level!r}: use {', '.join(known)}")
    log_to_stderr(level.upper())


def _banner(addresses: list[str], log_dirs: tuple[str, ...]) -> str:
    from moldau import __version__

    return "\n".join(
        (
            f"Moldau {__version__} is up.",
            "",
            f"  listens on  {', '.join(addresses)}",
            f"  data in     {', '.join(log_dirs)}",
            "",
            *what_to_try(addresses[0]),
        )
    )


def what_to_try(address: str) -> tuple[str, ...]:
    """Lines to copy into another terminal."""
    option = "" if address == DEFAULT_BOOTSTRAP else f" -b {address}"
    called = _program()
    return (
        "Try it from another terminal:",
        "",
        f"  {called} topic create greetings{option}",
        f"  echo hello | {called} produce greetings{option}",
        f"  {called} consume greetings{option}",
        "",
        "Ctrl-C stops it.",
    )


def _program() -> str:
    """How this program is called here: lines to copy must work as they stand."""
    from shutil import which

    started_as = sys.argv[0]
    if Path(started_as).name != "moldau" or which("moldau") == started_as:
        return "moldau"
    return started_as


def end_with_parent() -> None:
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
