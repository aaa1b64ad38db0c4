"""The two brokers side by side: how each is started, and what the system says it used."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Protocol

from tests.support.apache_kafka import ApacheKafka

from bench import loads
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
TICKS = os.sysconf("SC_CLK_TCK")


class Target(Protocol):
    name: str

    @property
    def address(self) -> str: ...
    @property
    def pid(self) -> int: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


class Moldau:
    name = "Moldau"

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self._process = MoldauProcess(directory, overrides=settings)

    @property
    def address(self) -> str:
        return self._process.bootstrap_servers

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        self._process.start()

    def stop(self) -> None:
        self._process.terminate()


class Kafka:
    name = "Apache Kafka"

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self._process = ApacheKafka(directory, settings, flags=KAFKA_FLAGS)

    @property
    def address(self) -> str:
        return self._process.bootstrap

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        self._process.start()

    def stop(self) -> None:
        self._process.stop()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no resident memory")


def time_to_first_record(target: Target) -> float:
    """Seconds from the start of the process to the first acknowledged record."""
    batch = loads.batch_of(100)
    started = time.monotonic()
    target.start()
    loads.first_acknowledged_record(target.address, "first", batch, started + START_LIMIT_S)
    return time.monotonic() - started
