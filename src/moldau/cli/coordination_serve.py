"""Running a coordination store in the foreground, for ``moldau coordination serve``.

As in ``moldau.cli.serve``, nothing here may import typer, the client or rich.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from moldau.cli.exit_codes import CommandError, UsageError
from moldau.cli.output import print_line, warn
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
_OURS: Final = "coordination."
_OTHERS: Final = {
    "a broker": {"meta.properties", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"},
    "an Apache ZooKeeper": {"version-2", "myid", "zookeeper_server.pid"},
    "a cluster": {"cluster.secret"},
}
"""Who has files of these names."""
_IN_ANY: Final = {"lost+found"}


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
    refuse_foreign(data_dir)
    if not _is_of_this_machine(host):
        warn(
            f"--listen {listen}: other machines can reach the store, and whoever reaches it may "
            "read and change everything in it, the brokers' secret included."
        )
    from moldau.coordination.errors import CoordinationError
    from moldau.coordination.server.process import serve
    from moldau.machine.real.loop import run
    from moldau.machine.real.machine import real_machine

    def ready(real_port: int) -> None:
        shown = f"[{host}]" if ":" in host else host or "*"
        print_line(f"moldau ready: coordination listening on {shown}:{real_port}", flush=True)

    end_with_parent()
    try:
        run(serve(real_machine(), host, port, str(data_dir), ready))
    except CoordinationError as error:
        raise CommandError(str(error)) from error
    return 0


def refuse_foreign(data_dir: Path) -> None:
    """Raises UsageError for a directory that something else lives in."""
    if not data_dir.is_dir():
        return
    names = {path.name for path in data_dir.iterdir()}
    for what, marks in _OTHERS.items():
        if found := sorted(names & marks):
            raise UsageError(
                f"--data-dir {data_dir} is the directory of {what} ({found[0]} is in it): give the "
                "coordination store one of its own"
            )
    is_ours = any(name.startswith(_OURS) for name in names)
    if not is_ours and names - _IN_ANY:
        raise UsageError(
            f"--data-dir {data_dir} is not empty, and not a coordination store: give it a "
            "directory of its own"
        )


def _is_of_this_machine(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen: {listen!r} is not of the form HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)
