"""A way to a server that can be cut: for tests of what survives a broken connection."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self


class CuttableWay:
    """Passes bytes on between those who connect here and a server, as long as it is whole."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._whole = True
        self._cuts = 0
        self._silences = 0

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    def cut(self) -> None:
        """End all connections, and let nobody through until ``mend``."""
        self._whole = False
        self._cuts += 1
        for writer in self._writers:
            writer.transport.abort()

    def mend(self, *, silences: int = 0) -> None:
        """The next ``silences`` connections are taken and led nowhere."""
        self._whole = True
        self._silences = silences

    async def close(self) -> None:
        assert self._server is not None
        self.cut()
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._whole:
            writer.transport.abort()
            return
        if self._silences:
            self._silences -= 1
            self._writers.add(writer)
            return
        cuts = self._cuts
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        if self._cuts != cuts:  # meanwhile
            writer.transport.abort()
            far_writer.transport.abort()
            return
        for source, target in ((reader, far_writer), (far_reader, writer)):
            self._writers.add(target)
            task = asyncio.ensure_future(self._pass(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                target.write(data)
        target.transport.abort()
        self._writers.discard(target)
