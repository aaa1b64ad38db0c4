"""A Moldau cluster as child processes, for tests: brokers, and the process that coordinates them.

with MoldauCluster(tmp_path) as cluster:
    cluster.create_topic("orders", partitions=3)
    client = connect(cluster.bootstrap_servers)
    cluster.brokers[1].kill()
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from moldau.config.replicated import replication_settings
from moldau.testing.broker import MoldauProcess, create_topic
from moldau.testing.child import MoldauChild


class CoordinationProcess(MoldauChild):
    """``moldau coordination serve``: what the brokers of a cluster agree on."""

    title = "Moldau coordination"

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        env: Mapping[str, str] | None = None,
        start_timeout: float = 120.0,
    ) -> None:
        super().__init__(
            directory,
            log_name="coordination.log",
            host=host,
            port=port,
            env=env,
            start_timeout=start_timeout,
        )

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    def _command(self) -> list[str]:
        serve = [self.python, "-m", "moldau.cli", "coordination", "serve"]
        return [*serve, "--listen", self.address, "--data-dir", str(self.data_dir)]


class MoldauCluster:
    """Brokers with ids from 1 on, each under a directory of its own; topics have three replicas
    where there are three brokers, and a write with ``acks=all`` is safe on two.

    ``zookeeper_connect`` names an ensemble to use instead of a coordination process.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        brokers: int = 3,
        overrides: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        zookeeper_connect: str | None = None,
    ) -> None:
        self.directory = Path(directory)
        self.coordination = CoordinationProcess(self.directory / "coordination", env=env)
        self._zookeeper_connect = zookeeper_connect
        settings = {**replication_settings(brokers), **(overrides or {})}
        self.brokers = {
            node: MoldauProcess(
                self.directory / f"broker-{node}", overrides={"node.id": node, **settings}, env=env
            )
            for node in range(1, brokers + 1)
        }

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, those that are down, too."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def start(self) -> Self:
        """Start coordination and all brokers that do not run, and wait until they are ready.

        A broker whose overrides name another way to coordination takes that.
        """
        connect = self._zookeeper_connect
        if connect is None:
            if not self.coordination.alive:
                self.coordination.start()
            connect = self.coordination.address
        for broker in self.brokers.values():
            broker.overrides.setdefault("zookeeper.connect", connect)
            if not broker.alive:
                broker.start()
        return self

    def stop(self) -> None:
        """End all of it, brokers first; those that do not listen are killed."""
        for broker in self.brokers.values():
            if broker.alive:
                os.kill(broker.pid, signal.SIGTERM)  # all at once: nobody takes over for good
        with ExitStack() as stack:
            for child in (self.coordination, *self.brokers.values()):
                stack.callback(child.__exit__, None, None, None)

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> str:
        """As that of a broker."""
        return create_topic(self.bootstrap_servers, name, partitions, **configs)

    def logs(self) -> str:
        """The last lines of everybody's log."""
        children = {"coordination": self.coordination} | {
            f"broker {node}": broker for node, broker in self.brokers.items()
        }
        return "\n".join(f"--- {name}\n{child.logs()}" for name, child in children.items())

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
