"""Two programs that talk over a simulated network, and note what they are told and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from moldau.machine import Acceptor, Network, Transport
from moldau.testing.simulation.node import Node
from moldau.testing.simulation.process import PROCESS, Process
from moldau.testing.simulation.simulation import Simulation


class Talker:
    """A receiver with a memory."""

    def __init__(self, *, reads: bool = True) -> None:
        self.data = bytearray()
        self.arrivals: list[tuple[float, int]] = []
        """When bytes came, and how many."""
        self.ended_at = -1.0
        self.lost_at = -1.0
        self.error: Exception | None = None
        self.processes: set[Process | None] = set()
        """In which it was called."""
        self.transport: Transport
        self._reads = reads
        self._buffer = memoryview(bytearray(1 << 20))

    def connection_made(self, transport: Transport) -> None:
        self.transport = transport
        if not self._reads:
            transport.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.processes.add(PROCESS.get())
        self.data += self._buffer[:nbytes]
        self.arrivals.append((asyncio.get_running_loop().time(), nbytes))

    def eof_received(self) -> bool:
        self.ended_at = asyncio.get_running_loop().time()
        return False

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, error: Exception | None) -> None:
        self.processes.add(PROCESS.get())
        self.lost_at = asyncio.get_running_loop().time()
        self.error = error


class Pair:
    """A connection from node ``client`` to node ``server``."""

    PORT = 9092

    def __init__(self, simulation: Simulation, *, server_reads: bool = True) -> None:
        self.simulation = simulation
        self.server_node: Node = simulation.node("server")
        self.client_node: Node = simulation.node("client")
        self.server = Talker(reads=server_reads)
        self.client = Talker()
        self.acceptor: Acceptor
        self._client_network: Network

    async def connect(self, *, accepts: bool = True) -> None:
        server, client = self.server_node.boot(), self.client_node.boot()

        async def serve() -> None:
            self.acceptor = server.network.bind("", self.PORT)
            self.acceptor.listen(10, let_in)
            if not accepts:
                self.acceptor.pause()

        def let_in() -> None:
            while (incoming := self.acceptor.accept()) is not None:
                incoming.open(self.server)

        self._client_network = client.network
        await self.server_node.run(serve())
        await self.call(self.client)
        await asyncio.sleep(0.1)

    async def call(self, talker: Talker, *, within: float = 10) -> None:
        """The client connects once more."""
        network = self._client_network
        await self.client_node.run(network.connect("server", self.PORT, talker, within=within))

    def send(self, data: bytes) -> None:
        """The client writes."""
        self._write(self.client_node, self.client, data)

    def answer(self, data: bytes) -> None:
        """The server writes."""
        self._write(self.server_node, self.server, data)

    def _write(self, node: Node, talker: Talker, data: bytes) -> None:
        assert node.process is not None
        node.process.context.copy().run(talker.transport.write, [data])

    def in_client(self, call: Callable[[], object]) -> None:
        assert self.client_node.process is not None
        self.client_node.process.context.copy().run(call)
