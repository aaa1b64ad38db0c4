"""Running a coordination store in the foreground, for ``moldau coordination serve``."""

from __future__ import annotations

from pathlib import Path

from moldau.cli.exit_codes import CommandError, UsageError
from moldau.cli.output import print_line
from moldau.cli.serve import configure_logging, end_with_parent


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
