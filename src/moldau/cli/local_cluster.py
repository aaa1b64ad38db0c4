"""A cluster on this machine, as ``moldau up --brokers N`` starts it: which programs, with which
settings, in which directories.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moldau.cli.exit_codes import CommandError, UsageError
from moldau.cli.supervisor import Program
from moldau.config.replicated import replication_settings

MOST_BROKERS: Final = 20
COORDINATION: Final = "coordination"
_SECRET: Final = "cluster.secret"  # noqa: S105 - the name of a file
_SECRET_BYTES: Final = 32
_MADE_BY_A_BROKER: Final = "meta.properties"


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """Where everything is."""

    host: str
    coordination_port: int
    ports: tuple[int, ...]
    """Of the brokers 1, 2, ..."""
    directory: Path

    @property
    def bootstrap_servers(self) -> list[str]:
        return [self._address(port) for port in self.ports]

    @property
    def coordination_address(self) -> str:
        return self._address(self.coordination_port)

    def _address(self, port: int) -> str:
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    def coordination(self, log_level: str) -> Program:
        arguments = ["coordination", "serve", "--log-level", log_level]
        arguments += ["--listen", self.coordination_address]
        arguments += ["--data-dir", str(self.directory / COORDINATION)]
        return Program(COORDINATION, _command(arguments))

    def brokers(self, override: list[str], log_level: str) -> list[Program]:
        programs = []
        for node_id, address in enumerate(self.bootstrap_servers, 1):
            settings = {
                "node.id": str(node_id),
                "listeners": f"PLAINTEXT://{address}",
                "log.dirs": str(self.directory / str(node_id)),
                "zookeeper.connect": self.coordination_address,
                "cluster.secret.file": str(self.directory / _SECRET),
                **replication_settings(len(self.ports)),
            }
            arguments = ["broker", "--log-level", log_level]
            for name, value in settings.items():
                arguments += ["--override", f"{name}={value}"]
            for given in override:
                arguments += ["--override", given]
            programs.append(Program(f"broker {node_id}", _command(arguments)))
        return programs


def _command(arguments: list[str]) -> tuple[str, ...]:
    return (sys.executable, "-m", "moldau.cli", *arguments)


def prepare(host: str, port: int, brokers: int, directory: Path) -> LocalCluster:
    """Choose ports, and make the directory and the secret that the brokers share."""
    if not 1 < brokers <= MOST_BROKERS:
        raise UsageError(f"--brokers is {brokers}: use a number from 1 to {MOST_BROKERS}")
    directory = directory.absolute()
    if (directory / _MADE_BY_A_BROKER).exists():
        raise UsageError(
            f"{directory} holds the data of a single broker: run 'moldau up' there, or give the "
            "cluster another --data-dir"
        )
    if (known := _brokers_in(directory)) > brokers:
        raise UsageError(
            f"{directory} holds the data of {known} brokers, and replicas would be missing: run "
            f"'moldau up --brokers {known}' there"
        )
    if port == 0:
        coordination_port, *ports = _free_ports(host, brokers + 1)
    elif port == 1 or port + brokers - 1 > 65535:
        raise UsageError(f"--port is {port}: {brokers} brokers and coordination find no room there")
    else:
        coordination_port, *ports = range(port - 1, port + brokers)
    directory.mkdir(parents=True, exist_ok=True)
    _make_secret(directory / _SECRET)
    return LocalCluster(host, coordination_port, tuple(ports), directory)


def refuse_cluster(directory: Path) -> None:
    """A single broker must not take the directory of a cluster for its own."""
    if (directory / COORDINATION).is_dir() and (directory / "1").is_dir():
        raise UsageError(
            f"{directory} holds the data of a cluster: run 'moldau up --brokers "
            f"{_brokers_in(directory)}' there, or give the broker another --data-dir"
        )


def _brokers_in(directory: Path) -> int:
    """Returns the highest number of a broker with a directory there."""
    if not directory.is_dir():
        return 0
    return max((int(path.name) for path in directory.iterdir() if path.name.isdecimal()), default=0)


def refuse_taken_ports(cluster: LocalCluster) -> None:
    """Say which port is in use before half of the cluster has started."""
    import socket

    family = socket.AF_INET6 if ":" in cluster.host else socket.AF_INET
    for port in (cluster.coordination_port, *cluster.ports):
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((cluster.host, port))
            except OSError as error:
                raise CommandError(
                    f"cannot listen on {cluster.host}:{port}: {error.strerror}. Coordination and "
                    f"{len(cluster.ports)} brokers need the ports {cluster.coordination_port} to "
                    f"{cluster.ports[-1]}; --port moves them"
                ) from error


def _free_ports(host: str, count: int) -> list[int]:
    import socket

    with ExitStack() as probes:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        taken = [probes.enter_context(socket.socket(family)) for _ in range(count)]
        for probe in taken:
            probe.bind((host, 0))
        return [probe.getsockname()[1] for probe in taken]


def _make_secret(path: Path) -> None:
    """Whole or not at all: brokers that read half of it would not know each other."""
    if path.exists():
        return
    import secrets

    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(_SECRET_BYTES) + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
