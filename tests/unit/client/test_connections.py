"""The connections of a client: who has which key, and that none is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.net.test_broker_connection import serving, versions

from moldau.client.cluster import Cluster
from moldau.client.connections import Connections
from moldau.client.errors import ClosedError, NoBrokersError
from moldau.client.settings import CommonSettings
from moldau.machine.real import this_machine
from moldau.model import Node
from moldau.net.broker_connection import BrokerConnection
from moldau.wire.api import ApiKey
from moldau.wire.headers import read_request_header

BOOTSTRAP, NODE = (-1, "main"), (1, "main")


class Server:
    """Says its versions to each connection once it is let."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: asyncio.Queue[asyncio.Event] = asyncio.Queue()
        """By each connection; it is answered when the event is set."""
        self.ended: asyncio.Queue[None] = asyncio.Queue()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            self.port = server.sockets[0].getsockname()[1]
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4))
        header, _ = read_request_header(memoryview(await reader.readexactly(size)))
        may_answer = asyncio.Event()
        self.asked.put_nowait(may_answer)
        await may_answer.wait()
        ranges = {ApiKey.METADATA: (0, 12)}
        writer.write(versions(header.api_version, header.correlation_id, ranges))
        assert await reader.read() == b""  # the other side hangs up
        self.ended.put_nowait(None)
        writer.close()


async def connected(server: Server) -> tuple[Connections, BrokerConnection]:
    connections = Connections(
        CommonSettings(bootstrap_servers=f"127.0.0.1:{server.port}"), this_machine()
    )
    opening = asyncio.create_task(connections.get(BOOTSTRAP, "127.0.0.1", server.port))
    (await server.asked.get()).set()
    return connections, await opening


async def test_a_connection_takes_no_key_for_which_another_is_being_opened() -> None:
    async with Server().running() as server:
        connections, bootstrap = await connected(server)
        second = asyncio.create_task(connections.get(NODE, "127.0.0.1", server.port))
        may_answer = await server.asked.get()
        node = Node(1, "127.0.0.1", server.port)
        assert not connections.rename(BOOTSTRAP, NODE, node)
        may_answer.set()
        assert await second is not bootstrap
        assert connections.open_one(BOOTSTRAP) is bootstrap
        await connections.close()
        async with asyncio.timeout(60):
            await server.ended.get()
            await server.ended.get()


async def test_a_connection_takes_a_free_key() -> None:
    async with Server().running() as server:
        connections, bootstrap = await connected(server)
        assert not connections.rename(BOOTSTRAP, NODE, Node(1, "127.0.0.1", server.port + 1))
        assert connections.rename(BOOTSTRAP, NODE, Node(1, "127.0.0.1", server.port))
        assert connections.open_one(BOOTSTRAP) is None
        assert await connections.get(NODE, "127.0.0.1", server.port) is bootstrap
        await connections.drop_all()
        assert bootstrap.ended.result() is None, "it was not lost"
        await bootstrap.close()
        assert connections.open_one(NODE) is None
        await connections.close()


async def test_every_bootstrap_server_that_fails_is_named() -> None:
    async with serving(lambda *_: None) as port:
        cluster = Cluster(CommonSettings(bootstrap_servers=f"127.0.0.1:1,127.0.0.1:{port}"))
        with pytest.raises(NoBrokersError, match=rf"127\.0\.0\.1:1: Connection refused; .*{port}"):
            await cluster.start()
        await cluster.close()


async def test_a_closed_cluster_opens_nothing() -> None:
    cluster = Cluster(CommonSettings(bootstrap_servers="127.0.0.1:1"))
    await cluster.close()
    with pytest.raises(ClosedError, match="client is closed"):
        await cluster.start()
