"""A whole broker in memory: no socket, no file, no thread, and time that a test moves.

    async with MemoryBroker() as broker:
        client = await broker.connect()
        await client.create_topic("t")

It is wired by ``BrokerServer`` as in production, on a machine of memory; requests go through the
listener and the router. What handlers ask of the controller goes through an encoder and back, as it
would to another broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, ParamSpec, Self, TypeVar, get_type_hints

import msgspec
from tests.support.broker_parts import BrokerParts
from tests.support.machines import LoopThreads
from tests.support.memory_network import LoopTransport, MemoryNetwork
from tests.support.process import NO_RETENTION
from tests.support.wire import WireClient

from moldau.broker.app import BrokerServer
from moldau.broker.controller_port import ControllerClient
from moldau.broker.ports import Ports
from moldau.broker.router import Router
from moldau.broker.routes import Route
from moldau.config.values.broker import BrokerConfig
from moldau.machine import Machine
from moldau.machine.processes import ChildProcess
from moldau.testing.clock import ManualClock, ManualTimer
from moldau.testing.disk import MemoryDisk
from moldau.wire.api import ApiKey

PORT = 9092

P = ParamSpec("P")
T = TypeVar("T")


class LoopClock(ManualClock):
    """What is due at once runs in the next turn of the loop; the rest waits to be moved to."""

    def call_later(self, delay: float, callback: Callable[[], object]) -> ManualTimer:
        timer = super().call_later(delay, callback)
        if delay <= 0:
            asyncio.get_running_loop().call_soon(self.run_due)
        return timer


class NoProcesses:
    async def start(self, module: str) -> ChildProcess:
        raise OSError(f"{module} cannot run in memory")


class NoSignals:
    def on_stop(self, callback: Callable[[], object]) -> None: ...


class NoLimits:
    def raise_open_files(self) -> int:
        return 1024

    def memory(self) -> int:
        return 4 << 30


class OverAWire:
    """A controller at the other end of a wire: what is asked and what it answers are bytes in
    between.
    """

    def __init__(self, controller: ControllerClient) -> None:
        self._controller = controller

    def within(self, _seconds: float) -> OverAWire:
        return self

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name)

    async def _call(self, name: str, *args: Any, **named: Any) -> Any:
        method = getattr(ControllerClient, name)
        hints = get_type_hints(method)
        returned = hints.pop("return")
        asked = dict(zip(hints, args, strict=False)) | named
        sent = {key: _through_a_wire(value, hints[key]) for key, value in asked.items()}
        answer = await getattr(self._controller, name)(**sent)
        return _through_a_wire(answer, returned)


def _through_a_wire(value: Any, kind: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=kind)


class MemoryWriter:
    """The writing half of a client's connection."""

    def __init__(self, transport: LoopTransport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        self._transport.receive(data)

    def close(self) -> None:
        self._transport.abort()

    async def wait_closed(self) -> None: ...


class MemoryBroker(BrokerParts):
    def __init__(
        self, settings: Mapping[str, str] | None = None, *, disk: MemoryDisk | None = None
    ) -> None:
        self.settings = {
            "node.id": "1",
            "listeners": f"PLAINTEXT://memory:{PORT}",
            "log.dirs": "/data",
            **NO_RETENTION,
            **(settings or {}),
        }
        self.clock = LoopClock()
        self.disk = disk or MemoryDisk()
        self.network = MemoryNetwork()
        self.server: BrokerServer

    async def start(self) -> Self:
        machine = Machine(
            clock=self.clock,
            random=Random(1),
            secrets=Random(2),
            threads=LoopThreads(),
            disk=self.disk,
            processes=NoProcesses(),
            network=self.network,
            signals=NoSignals(),
            limits=NoLimits(),
        )
        self.server = BrokerServer(BrokerConfig.load(self.settings), Ports(machine))
        await self.server.start()
        self.parts.controller = OverAWire(self.parts.controller)
        return self

    async def stop(self) -> None:
        await self.server.stop()

    async def connect(self, *, broker_id: int = -1) -> WireClient:
        """``broker_id``: of the broker that the peer has shown to be."""
        transport = self.network.acceptors[PORT].connect()
        connection: Any = transport.receiver
        connection.broker_id = broker_id
        writer: Any = MemoryWriter(transport)
        return WireClient(transport.stream, writer)

    async def settle(self) -> None:
        """Let everything that can go on go on."""
        for _ in range(50):
            self.clock.run_due()
            await asyncio.sleep(0)


def replace_handler(router: Router, key: ApiKey, handle: Callable[..., Any]) -> Callable[..., Any]:
    """Another handler for an API; returns the one it had."""
    route = router._routes[key] = Route(key)
    before, route.handle = route.handle, handle
    return before
