"""A Moldau broker as a child process, for tests: start, kill, restart, read its log.

with MoldauProcess(tmp_path) as broker:
    broker.create_topic("greetings", partitions=3, retention_ms=60_000)
    client = connect(broker.bootstrap_servers)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from moldau.testing.child import READY_PREFIX, BrokerStartError, MoldauChild

__all__ = ["READY_PREFIX", "BrokerStartError", "MoldauProcess", "create_topic"]


class MoldauProcess(MoldauChild):
    """One broker under ``directory``; the port stays the same over restarts."""

    title = "Moldau broker"

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        overrides: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        start_timeout: float = 120.0,
    ) -> None:
        super().__init__(
            directory,
            log_name="broker.log",
            host=host,
            port=port,
            env=env,
            start_timeout=start_timeout,
        )
        self.overrides = {name: str(value) for name, value in (overrides or {}).items()}

    @property
    def bootstrap_servers(self) -> str:
        return self.address

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> str:
        """Create a topic and wait until it can be used; ``retention_ms=1`` sets ``retention.ms``.

        Works in plain and in async tests: the call has a thread and an event loop of its own.
        """
        return create_topic(self.bootstrap_servers, name, partitions, **configs)

    def _command(self) -> list[str]:
        settings = {
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.data_dir),
            **self.overrides,
        }
        command = [self.python, "-m", "moldau.cli", "broker"]
        for name, value in settings.items():
            command += ["--override", f"{name}={value}"]
        return command


def create_topic(bootstrap_servers: str, name: str, partitions: int, **configs: object) -> str:
    """Create a topic on the cluster at ``bootstrap_servers``; returns its name."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from moldau.client.admin import NewTopic, raise_first_error
    from moldau.client.client import Client

    settings = {key.replace("_", "."): _setting(value) for key, value in configs.items()}

    async def create() -> None:
        async with Client(bootstrap_servers) as client:
            topic = NewTopic(name, partitions, configs=settings)
            raise_first_error(await client.admin.create_topics([topic]))
            await client.cluster.wait_for_leaders(name)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(create())).result()
    return name


def _setting(value: object) -> str:
    """Kafka spells booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)
