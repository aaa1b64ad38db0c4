"""Peers, files and servers for tests of connections."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.memory_network import frame

from moldau.machine import Clock, Machine
from moldau.machine.real import real_machine
from moldau.machine.real.clock import SystemClock
from moldau.machine.real.sockets.network import SocketNetwork
from moldau.machine.real.sockets.stream import StreamTransport
from moldau.net.connection import ConnectionLimits, Handler, ServerConnection
from moldau.net.frames import BufferPool
from moldau.net.listener import Listener, ListenerSettings
from moldau.net.log_limiter import LogLimiter
from moldau.net.memory_pool import MemoryPool


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until something is so."""
    while not condition():  # noqa: ASYNC110  # the code under test knows no event to wait for
        await asyncio.sleep(0)  # the code under test knows no event to wait for


def no_log() -> LogLimiter:
    """For connections whose log lines no test reads."""
    return LogLimiter(logging.getLogger("moldau.net.connection"), SystemClock().monotonic)


def machine(clock: Clock | None = None) -> Machine:
    """The real machine, but for the clock."""
    return replace(real_machine(), clock=clock or SystemClock())


def echo(_connection: ServerConnection, request: memoryview) -> list[bytes]:
    return [frame(bytes(request))]


class OsFile:
    """A file of the operating system, as the log's."""

    def __init__(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        self.path = str(path)
        self._fd = os.open(path, os.O_RDWR)

    def fileno(self) -> int:
        return self._fd

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self._fd, size, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd != -1:
            os.close(fd)


class MemoryFile:
    """A file that is none of the operating system's, as a simulated disk's."""

    def __init__(self, data: bytes) -> None:
        self.path = "memory"
        self.data = data
        self.largest_read = 0

    def fileno(self) -> None:
        return None

    def pread(self, size: int, position: int) -> bytes:
        self.largest_read = max(self.largest_read, size)
        return self.data[position : position + size]


class Peer:
    """A client that sends whatever the test wants."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def connect(cls, port: int, *, receive_buffer: int = -1) -> Peer:
        sock = socket.socket()
        sock.setblocking(False)
        if receive_buffer != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except OSError:
            sock.close()
            raise
        return cls(sock)

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.sock, data)

    async def read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = await self._loop.sock_recv(self.sock, min(size - len(data), 1 << 20))
            if not piece:
                break
            data += piece
        return bytes(data)

    async def read_frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self.read(4))
        return await self.read(size)

    async def ask(self, body: bytes) -> bytes:
        await self.send(frame(body))
        return await self.read_frame()

    async def is_closed(self) -> bool:
        """The broker closes the connection (waits for it)."""
        try:
            return await self._loop.sock_recv(self.sock, 1) == b""
        except ConnectionResetError:
            return True

    def end_of_requests(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self) -> None:
        self.sock.close()


@dataclass
class Server:
    port: int
    pool: BufferPool
    opened: list[ServerConnection] = field(default_factory=list)
    closed: asyncio.Queue[ServerConnection] = field(default_factory=asyncio.Queue)


@asynccontextmanager
async def serving(
    kind: str,
    handler: Handler,
    limits: ConnectionLimits | None = None,
    memory: MemoryPool | None = None,
) -> AsyncIterator[Server]:
    """A server over our own transport (``socket``) or over an asyncio stream (``stream``)."""
    loop = asyncio.get_running_loop()
    server = Server(0, BufferPool(memory=memory))
    limits = limits or ConnectionLimits()
    if kind == "socket":
        listener = Listener(
            "PLAINTEXT", "127.0.0.1", 0, handler,
            network=SocketNetwork(), clock=SystemClock(),
            settings=ListenerSettings(limits=limits), pool=server.pool,
            on_open=server.opened.append, on_close=server.closed.put_nowait,
        )  # fmt: skip
        server.port = listener.bind()
        listener.start()
        try:
            yield server
        finally:
            await listener.close(drain_timeout=0)
        return

    def new_connection() -> StreamTransport:
        connection = ServerConnection(
            handler,
            pool=server.pool,
            log_limiter=no_log(),
            limits=limits,
            on_close=server.closed.put_nowait,
        )
        server.opened.append(connection)
        return StreamTransport(loop, connection)

    streams = await loop.create_server(new_connection, "127.0.0.1", 0)
    server.port = streams.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        streams.close()
        for connection in server.opened:
            connection.abort()
        await until(lambda: all(connection.closed for connection in server.opened))
        await streams.wait_closed()
