"""A cluster of Moldau processes, for tests: brokers, and the coordination store that they share.

    with MoldauCluster(tmp_path) as cluster:
        cluster.create_topic("orders", partitions=3)
        client = connect(cluster.bootstrap_servers)
        cluster.broker(2).kill()
        cluster.broker(2).start()

All of them end when this process does, for whatever reason, as a single ``MoldauProcess`` does.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from moldau.testing.broker import MoldauProcess


class CoordinationProcess(MoldauProcess):
    """``moldau coordination serve``; the port stays the same over restarts."""

    @property
    def address(self) -> str:
        """What ``zookeeper.connect`` is set to."""
        return self.bootstrap_servers

    @property
    def log_file(self) -> Path:
        return self.directory / "coordination.log"

    def _command(self) -> list[str]:
        command = [self.python, "-m", "moldau.cli", "coordination", "serve"]
        return [*command, "--listen", self.address, "--data-dir", str(self.data_dir)]


class MoldauCluster:
    """Brokers 1, 2, 3, ... under ``directory``; ports stay the same over restarts."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        brokers: int = 3,
        *,
        overrides: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        zookeeper_connect: str | None = None,
        start_timeout: float = 120.0,
    ) -> None:
        """``zookeeper_connect`` names a store that is somebody else's, in the place of an own."""
        self.directory = Path(directory)
        self.coordination: CoordinationProcess | None = None
        if zookeeper_connect is None:
            self.coordination = CoordinationProcess(
                self.directory / "coordination", env=env, start_timeout=start_timeout
            )
        self._connect = zookeeper_connect
        copies, in_sync = min(brokers, 3), 2 if brokers >= 3 else 1
        self.brokers = [
            MoldauProcess(
                self.directory / str(node_id),
                overrides={
                    "node.id": node_id,
                    "default.replication.factor": copies,
                    "min.insync.replicas": in_sync,
                    "offsets.topic.replication.factor": copies,
                    "transaction.state.log.replication.factor": copies,
                    "transaction.state.log.min.isr": in_sync,
                    "group.initial.rebalance.delay.ms": 0,
                    # The last broker to stop has nobody to hand over to: no use in waiting.
                    "controlled.shutdown.retry.backoff.ms": 100,
                    **(overrides or {}),
                },
                env=env,
                start_timeout=start_timeout,
            )
            for node_id in range(1, brokers + 1)
        ]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    @property
    def zookeeper_connect(self) -> str:
        if self._connect is not None:
            return self._connect
        assert self.coordination is not None
        return self.coordination.address

    def broker(self, node_id: int) -> MoldauProcess:
        return self.brokers[node_id - 1]

    def start(self) -> Self:
        """Start what does not run, and wait until all are ready."""
        with _all_or_nothing() as started:
            if self.coordination is not None and not self.coordination.alive:
                started.callback(_end, self.coordination)
                self.coordination.start()
            starting = [broker for broker in self.brokers if not broker.alive]
            for broker in starting:
                broker.overrides["zookeeper.connect"] = self.zookeeper_connect
                started.callback(_end, broker)
                broker.begin()
            # Together: a broker may need others to become ready.
            for broker in starting:
                broker.wait_until_ready()
        return self

    def stop(self) -> None:
        """Stop the brokers cleanly, all at once, then coordination."""
        for broker in self.brokers:
            if broker.alive:
                os.kill(broker.pid, signal.SIGTERM)
        for broker in self.brokers:
            _end(broker)
        if self.coordination is not None:
            _end(self.coordination)

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> str:
        """As ``MoldauProcess.create_topic``, with as many replicas as the cluster's default."""
        living = [broker for broker in self.brokers if broker.alive]
        return living[0].create_topic(name, partitions, **configs)

    def logs(self) -> str:
        """The last lines of everybody's log."""
        parts = [(f"broker {number}", one) for number, one in enumerate(self.brokers, 1)]
        if self.coordination is not None:
            parts.append(("coordination", self.coordination))
        return "\n".join(f"{name}:\n{process.logs()}" for name, process in parts)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<MoldauCluster of {len(self.brokers)} brokers in {self.directory}>"


def _end(process: MoldauProcess) -> None:
    """Cleanly if it can; what is gone already is forgotten."""
    process.__exit__(None, None, None)


@contextmanager
def _all_or_nothing() -> Iterator[ExitStack]:
    with ExitStack() as started:
        yield started
        started.pop_all()
