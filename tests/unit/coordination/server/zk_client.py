"""A client that sends frames as they are: what is tested is what stands on the wire."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from typing import NamedTuple, Self

from moldau.coordination.server import jute
from moldau.coordination.server.jute import Reader
from moldau.coordination.server.protocol import Op

TIMEOUT_S = 60.0
OPEN_ACL = jute.integer(1) + jute.integer(31) + jute.string("world") + jute.string("anyone")


class Answer(NamedTuple):
    xid: int
    zxid: int
    code: int
    body: Reader


def path_and_watch(path: str, *, watch: bool = False) -> bytes:
    return jute.string(path) + (b"\1" if watch else b"\0")


def create_body(path: str, data: bytes = b"", flags: int = 0, acl: bytes = OPEN_ACL) -> bytes:
    return jute.string(path) + jute.buffer(data) + acl + jute.integer(flags)


_made: list[WireClient] = []


async def hang_up_all() -> None:
    """End all connections that a test has made."""
    while _made:
        writer = _made.pop()._writer
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


class WireClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._xid = 0
        self.session_id = 0
        self.password = bytes(16)
        self.timeout_ms = 0
        _made.append(self)

    @classmethod
    async def dial(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    @classmethod
    async def connect(
        cls,
        port: int,
        *,
        timeout_ms: int = 30_000,
        session_id: int = 0,
        password: bytes = bytes(16),
        seen: int = 0,
    ) -> Self:
        client = await cls.dial(port)
        head = struct.pack(">iqiq", 0, seen, timeout_ms, session_id)
        client.send_frame(head + jute.buffer(password) + b"\0")
        frame = await client.frame()
        body = Reader(frame)
        assert body.integer() == 0
        client.timeout_ms, client.session_id = body.integer(), body.long()
        client.password = body.buffer()
        return client

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    def send_frame(self, frame: bytes) -> None:
        self.send_bytes(jute.buffer(frame))

    def send(self, op: int, body: bytes = b"", xid: int | None = None) -> int:
        if xid is None:
            self._xid += 1
            xid = self._xid
        self.send_frame(jute.integer(xid) + jute.integer(op) + body)
        return xid

    async def frame(self) -> bytes:
        async with asyncio.timeout(TIMEOUT_S):
            (length,) = struct.unpack(">i", await self._reader.readexactly(4))
            return await self._reader.readexactly(length)

    async def answer(self) -> Answer:
        body = Reader(await self.frame())
        return Answer(body.integer(), body.long(), body.integer(), body)

    async def ask(self, op: int, body: bytes = b"") -> Answer:
        """One request; nothing else may come before its answer."""
        xid = self.send(op, body)
        answer = await self.answer()
        assert answer.xid == xid
        return answer

    async def create(self, path: str, data: bytes = b"") -> None:
        assert (await self.ask(Op.CREATE, create_body(path, data))).code == 0

    async def rest(self) -> bytes:
        """All that comes until the server hangs up."""
        async with asyncio.timeout(TIMEOUT_S):
            try:
                return await self._reader.read()
            except ConnectionResetError:
                return b""

    def close(self) -> None:
        self._writer.transport.abort()
