"""Moldau as a process of its own, started the way a user starts it."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.process import NO_RETENTION, START_TIMEOUT_S, ServerProcess

from moldau.testing.broker import READY_PREFIX, MoldauProcess
from moldau.testing.cluster import MoldauCluster


class Moldau:
    """A broker on a directory that outlives it; every start may get another port."""

    name = "Moldau"
    node_ids = frozenset({1})

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self._process = MoldauProcess(
            directory,
            overrides={**NO_RETENTION, **(settings or {})},
            start_timeout=START_TIMEOUT_S,
        )
        self.data_dir = self._process.data_dir

    @property
    def bootstrap(self) -> str:
        return self._process.bootstrap_servers

    def start(self) -> None:
        self._process.start()

    def stop(self) -> None:
        """Clean shutdown; anything but exit code 0 is a failure."""
        if self._process.alive:
            code = self._process.terminate()
            if code != 0:
                raise RuntimeError(f"moldau ended with {code}:\n{self._process.logs()}")

    def kill(self) -> None:
        if self._process.alive:
            self._process.kill()


class ThreeMoldau:
    """Three brokers on directories that outlive them; topics have three replicas. ``data_dir`` is
    that of the first.
    """

    name = "Moldau, three brokers"
    node_ids = frozenset({1, 2, 3})

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        single = {name for name in (settings or {}) if name.endswith("replication.factor")}
        kept = {name: value for name, value in (settings or {}).items() if name not in single}
        self._cluster = MoldauCluster(directory, overrides={**NO_RETENTION, **kept})
        self.data_dir = self._cluster.brokers[1].data_dir

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap_servers

    def start(self) -> None:
        self._cluster.start()

    def stop(self) -> None:
        self._cluster.stop()

    def kill(self) -> None:
        for broker in self._cluster.brokers.values():
            if broker.alive:
                broker.kill()
        if self._cluster.coordination.alive:
            self._cluster.coordination.kill()


class MoldauOnConfig:
    """``moldau broker --config`` with a file that somebody else wrote."""

    name = "Moldau"
    node_ids = frozenset({1})

    def __init__(self, config: Path, data_dir: Path) -> None:
        self.config = config
        self.data_dir = data_dir
        self.bootstrap = ""
        self._process: ServerProcess | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        command = [sys.executable, "-m", "moldau.cli", "broker", "--config", str(self.config)]
        self._process = ServerProcess(command, self.config.with_suffix(".moldau.log"))
        line = self._process.wait_for(READY_PREFIX.strip())
        self.bootstrap = re.findall(r"[\w.]+:\d+", line.removeprefix(READY_PREFIX))[0]

    def stop(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            code = process.stop()
            if code != 0:
                raise RuntimeError(f"moldau ended with {code}:\n{process.text()[-4000:]}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None
