"""A whole broker on the test's own event loop: ports, files, controller, everything but a process.

It starts in milliseconds, so each test has its own; and a test can wait for what it is about
(a request is parked, a log is flushed) instead of sleeping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from tests.support.broker_parts import BrokerParts
from tests.support.process import NO_RETENTION
from tests.support.wire import WireClient

from moldau.broker.app import BrokerServer
from moldau.broker.ports import Ports
from moldau.config.values.broker import BrokerConfig
from moldau.machine import Disk, Machine
from moldau.machine.real import real_machine

TIMEOUT_S = 120.0


class InProcessBroker(BrokerParts):
    """``async with InProcessBroker(tmp_path, {...}) as broker``"""

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, disk: Disk | None = None
    ) -> None:
        self.data_dir = directory / "data"
        self.settings = {
            "node.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(self.data_dir),
            **NO_RETENTION,
            **(settings or {}),
        }
        self._disk = disk
        self._clients: list[WireClient] = []
        self.server: BrokerServer

    @property
    def address(self) -> str:
        return self.server.addresses[0]

    @property
    def connections(self) -> int:
        return sum(listener.connections for listener in self.parts.listeners)

    async def start(self) -> Self:
        config = BrokerConfig.load(self.settings)
        self.server = BrokerServer(config, Ports(self._machine()))
        await self.server.start()
        return self

    def _machine(self) -> Machine:
        machine = real_machine()
        return machine if self._disk is None else replace(machine, disk=self._disk)

    async def stop(self) -> None:
        for client in self._clients:
            if not client.closed:
                await client.close()
        self._clients.clear()
        await self.server.stop()

    async def connect(self) -> WireClient:
        """A client that is closed with the broker at the latest."""
        client = await WireClient.connect(self.address)
        self._clients.append(client)
        return client


async def eventually(condition: Callable[[], object], what: str = "it") -> None:
    """Wait until the condition holds, turn by turn of the loop."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():  # noqa: ASYNC110 - no event tells of every condition
                await asyncio.sleep(0.001)
    except TimeoutError:
        raise AssertionError(f"{what} did not happen within {TIMEOUT_S:g} s") from None
