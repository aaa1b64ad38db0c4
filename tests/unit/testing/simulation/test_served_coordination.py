"""The coordination server, unmodified, in virtual time: network, clock and disk are handed in."""

from __future__ import annotations

import asyncio
import struct

from tests.unit.coordination.server.zk_client import create_body, path_and_watch

from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.server import jute
from moldau.coordination.server.protocol import Code, Op
from moldau.coordination.server.server import CoordinationServer
from moldau.coordination.storage import DiskStorage
from moldau.machine import Machine, Transport
from moldau.testing.simulation.node import Node
from moldau.testing.simulation.simulation import Simulation

PORT = 2181


class Client:
    """A ``Receiver`` that collects frames."""

    def __init__(self) -> None:
        self.transport: Transport
        self.frames: asyncio.Queue[bytes] = asyncio.Queue()
        self._memory = memoryview(bytearray(65_536))
        self._received = b""

    def connection_made(self, transport: Transport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._memory

    def buffer_updated(self, nbytes: int) -> None:
        self._received += bytes(self._memory[:nbytes])
        while len(self._received) >= 4:
            end = 4 + int(jute.INT.unpack_from(self._received)[0])
            if len(self._received) < end:
                return
            self.frames.put_nowait(self._received[4:end])
            self._received = self._received[end:]

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, error: Exception | None) -> None: ...

    def send(self, frame: bytes) -> None:
        self.transport.write([jute.buffer(frame)])

    async def ask(self, op: int, body: bytes) -> int:
        """Returns the code of the answer."""
        self.send(jute.integer(1) + jute.integer(op) + body)
        return int(struct.unpack_from(">iqi", await self.frames.get())[2])


async def connect(machine: Machine, session_id: int = 0, password: bytes = b"") -> Client:
    client = Client()
    await machine.network.connect("store", PORT, client, within=5.0)
    client.send(struct.pack(">iqiq", 0, 0, 6000, session_id) + jute.buffer(password) + b"\0")
    return client


async def serve(node: Node) -> None:
    machine = node.boot()

    async def start() -> None:
        store = await EmbeddedStore.open(
            DiskStorage(machine.disk, "/data"),
            machine.threads.run,
            machine.clock.now_ms,
            keeps_sessions=True,
        )
        CoordinationServer(machine, store, "store", PORT).start()

    await node.run(start())


def test_a_session_and_its_node_outlive_a_power_cut_and_end_with_their_client() -> None:
    async def scenario() -> None:
        store, home = simulation.node("store"), simulation.node("home")
        await serve(store)
        machine = home.boot()

        async def story() -> None:
            client = await connect(machine)
            _, timeout_ms, session_id = struct.unpack_from(">iiq", await client.frames.get())
            assert timeout_ms == 6000
            assert await client.ask(Op.CREATE, create_body("/e", flags=1)) == Code.OK
            store.power_cut()
            await asyncio.sleep(60)
            await serve(store)
            # Nobody knows its password; it is there for its timeout, and then it is not.
            other = await connect(machine)
            await other.frames.get()
            assert await other.ask(Op.EXISTS, path_and_watch("/e")) == Code.OK
            await asyncio.sleep(4)
            assert await other.ask(Op.EXISTS, path_and_watch("/e")) == Code.OK
            await asyncio.sleep(3)
            assert await other.ask(Op.EXISTS, path_and_watch("/e")) == Code.NO_NODE
            refused = await connect(machine, session_id, bytes(16))
            assert struct.unpack_from(">iiq", await refused.frames.get()) == (0, 0, 0)

        await home.run(story())

    with Simulation(1) as simulation:
        simulation.run(scenario())
