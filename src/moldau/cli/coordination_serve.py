"""Running a coordination store in the foreground, for ``moldau coordination serve``.

As in ``moldau.cli.serve``, nothing here may import typer, the client or rich.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from moldau.cli.exit_codes import CommandError, UsageError
from moldau.cli.output import print_line
from moldau.cli.serve import configure_logging, end_with_parent, plain_options

LISTEN: Final = "127.0.0.1:2181"
DATA_DIR: Final = "moldau-data/coordination"
LOG_LEVEL: Final = "info"
FLAGS: Final = {
    "--listen": "listen",
    "-l": "listen",
    "--data-dir": "data_dir",
    "-d": "data_dir",
    "--log-level": "log_level",
}


def serve_quickly(arguments: list[str]) -> int | None:
    """Run the command if it consists of plain options; None leaves it to typer."""
    given = plain_options(FLAGS, arguments)
    if given is None:
        return None
    chosen = {name: values[-1] for name, values in given.items()}
    return serve_coordination(
        chosen.get("listen", LISTEN),
        Path(chosen.get("data_dir", DATA_DIR)),
        chosen.get("log_level", LOG_LEVEL),
    )


def serve_coordination(listen: str, data_dir: Path, log_level: str) -> int:
    """Serve until SIGTERM; prints one line when clients may come."""
    host, port = _address(listen)
    configure_logging(log_level)
    from moldau.coordination.errors import CoordinationError
    from moldau.coordination.server.process import serve
    from moldau.machine.real.loop import run
    from moldau.machine.real.machine import real_machine

    def ready(real_port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        print_line(f"moldau ready: coordination listening on {shown}:{real_port}", flush=True)

    end_with_parent()
    try:
        run(serve(real_machine(), host, port, str(data_dir), ready))
    except CoordinationError as error:
        raise CommandError(str(error)) from error
    return 0


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen: {listen!r} is not of the form HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)
