"""The HTTP server of metrics: what it answers, and whom it drops."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
import pytest_asyncio
from tests.support.memory_network import MemoryAcceptor, MemoryIncoming, MemoryNetwork

from moldau.machine.real import real_machine
from moldau.net.listener import ACCEPT_PAUSE
from moldau.net.text_server import MAX_CONNECTIONS, MAX_HEADER_BYTES, Page, TextServer
from moldau.testing.clock import ManualClock

Start = Callable[..., Awaitable[TextServer]]


def fail() -> str:
    raise RuntimeError("not today")


PAGES = {"/text": Page("text/plain", lambda: "grüße\n"), "/broken": Page("text/plain", fail)}


@pytest_asyncio.fixture
async def start() -> AsyncIterator[Start]:
    servers: list[TextServer] = []

    async def start_one(**options: float) -> TextServer:
        server = TextServer(real_machine(), "127.0.0.1", 0, PAGES, **options)
        server.start()
        servers.append(server)
        return server

    yield start_one
    for server in servers:
        server.close()


async def ask(server: TextServer, request: bytes) -> bytes:
    """Everything that comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def test_a_page_is_served(start: Start) -> None:
    server = await start()
    head, _, body = (await ask(server, b"GET /text?x=1 HTTP/1.1\r\nHost: x\r\n\r\n")).partition(
        b"\r\n\r\n"
    )
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"Content-Type: text/plain",
        b"Content-Length: 8",
        b"Connection: close",
    ]
    assert body.decode() == "grüße\n"
    assert (await ask(server, b"HEAD /text HTTP/1.0\r\n\r\n")).endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /other HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /text HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /broken HTTP/1.1\r\n\r\n", b"500"),
        (b"GET /text\r\n\r\n", b"400"),
        (b"\x00\xff\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
    ],
)
async def test_what_cannot_be_served_is_told(start: Start, request_: bytes, status: bytes) -> None:
    answer = await ask(await start(), request_)
    assert answer.startswith(b"HTTP/1.1 " + status)


async def test_who_sends_too_much_is_dropped(start: Start) -> None:
    server = await start()
    assert await ask(server, b"x" * (4 * MAX_HEADER_BYTES)) == b""
    assert await ask(server, b"GET /text HTTP/1.1\r\n\r\n")


async def test_who_says_nothing_is_dropped(start: Start) -> None:
    assert await ask(await start(patience_s=0.01), b"GET /text") == b""


async def test_only_so_many_are_served_at_a_time_and_a_stop_drops_them(start: Start) -> None:
    server = await start()
    idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(MAX_CONNECTIONS)]
    assert await ask(server, b"") == b""
    server.close()
    for reader, writer in idle:
        with pytest.raises((ConnectionError, EOFError)):
            await asyncio.wait_for(reader.readexactly(1), 60)
        writer.transport.abort()


class ScarceAcceptor(MemoryAcceptor):
    """Of a process that has no descriptor left."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.calls: list[str] = []

    def accept(self) -> MemoryIncoming | None:
        raise OSError(errno.EMFILE, "too many open files")

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")


class ScarceNetwork(MemoryNetwork):
    def bind(self, host: str, port: int, **_buffers: int) -> ScarceAcceptor:
        acceptor = self.acceptors[port] = ScarceAcceptor(port)
        return acceptor


@pytest.mark.parametrize("closed", [False, True])
def test_without_descriptors_it_waits_for_some(closed: bool) -> None:
    clock, network = ManualClock(), ScarceNetwork()
    server = TextServer(replace(real_machine(), network=network, clock=clock), "", 9, PAGES)
    server.start()
    acceptor = network.acceptors[9]
    assert isinstance(acceptor, ScarceAcceptor)
    with pytest.raises(ConnectionRefusedError):
        acceptor.connect()
    assert acceptor.calls == ["pause"]
    if closed:
        server.close()
    clock.advance(ACCEPT_PAUSE)
    assert acceptor.calls == (["pause"] if closed else ["pause", "resume"])
