"""The brokers side by side: how each is started, and what it runs."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Protocol

from tests.support.apache_kafka import ApacheKafka

from bench import requests
from moldau.source import VARIABLE as PLAIN_PYTHON
from moldau.testing.broker import MoldauProcess

# The heap and collector of Kafka's own start script; anything smaller would be an unfair opponent.
KAFKA_FLAGS = (
    "-Xms1g",
    "-Xmx1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
START_LIMIT_S = 90
LIBRARY = "/moldau__mypyc."

SETTINGS = {
    # A round's topic is gone from the disk before the next round begins.
    "log.initial.task.delay.ms": "0",
    "log.segment.delete.delay.ms": "0",
    # Records have old times.
    "log.retention.ms": "-1",
}


class Target(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def pids(self) -> Sequence[int]:
        """Of all of its processes, where it has several."""
        ...

    @property
    def replicas(self) -> Sequence[int]:
        """Where partitions of a round have theirs, the leader first; none: on the only broker."""
        ...

    @property
    def data_dir(self) -> Path: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


class OneProcess(ABC):
    """What a broker alone is not asked twice for."""

    replicas: ClassVar[Sequence[int]] = ()

    @property
    @abstractmethod
    def pid(self) -> int: ...

    @property
    def pids(self) -> Sequence[int]:
        return (self.pid,)


class Moldau(OneProcess):
    name = "Moldau"
    environment: ClassVar[Mapping[str, str]] = {}

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        overrides = {**SETTINGS, **(settings or {})}
        self._process = MoldauProcess(directory, overrides=overrides, env=self.environment)

    @property
    def address(self) -> str:
        return self._process.bootstrap_servers

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def data_dir(self) -> Path:
        return self._process.data_dir

    def start(self) -> None:
        self._process.start()

    def stop(self) -> None:
        if self._process.alive:
            self._process.terminate()


class PlainMoldau(Moldau):
    """The same sources without machine code of their own."""

    name = "Moldau, plain"
    environment: ClassVar = {PLAIN_PYTHON: "1"}

    def start(self) -> None:
        super().start()
        if has_machine_code(self.pid):
            raise RuntimeError(f"{self.name} runs machine code")


class Kafka(OneProcess):
    name = "Apache Kafka"

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self._process = ApacheKafka(directory, {**SETTINGS, **(settings or {})}, flags=KAFKA_FLAGS)

    @property
    def address(self) -> str:
        return self._process.bootstrap

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def data_dir(self) -> Path:
        return self._process.data_dir

    def start(self) -> None:
        self._process.start()

    def stop(self) -> None:
        self._process.stop()


Kind = type[Moldau] | type[Kafka]

KINDS: dict[str, Kind] = {"moldau": Moldau, "plain": PlainMoldau, "kafka": Kafka}


@contextmanager
def brokers(
    kinds: Sequence[Kind], settings: Mapping[str, str] | None = None
) -> Iterator[list[Target]]:
    """One broker of each kind, not started yet; stopped, and their data deleted, at the end."""
    with TemporaryDirectory(prefix="moldau-bench-") as directory, ExitStack() as stack:
        targets: list[Target] = []
        for number, kind in enumerate(kinds):
            target = kind(Path(directory, str(number)), settings)
            stack.callback(target.stop)
            targets.append(target)
        yield targets


def in_turns(targets: Sequence[Target], round_number: int) -> list[Target]:
    """Nobody is always the first, or always after the same one."""
    shift = round_number % len(targets)
    turned = [*targets[shift:], *targets[:shift]]
    return turned if round_number // len(targets) % 2 == 0 else turned[::-1]


def has_machine_code(pid: int) -> bool:
    """Whether a process has Moldau's compiled modules, which are in one library."""
    return LIBRARY in Path(f"/proc/{pid}/maps").read_text()


def time_to_first_record(target: Target) -> float:
    """Seconds from the start of the process to the first acknowledged record."""
    started = time.monotonic()
    target.start()
    requests.first_acknowledged_record(target.address, "first", started + START_LIMIT_S)
    return time.monotonic() - started
