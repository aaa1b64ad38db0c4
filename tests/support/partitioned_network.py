"""A network between processes that a test can cut, in one direction or both.

Whoever listens is given a *way* to it: an address at which connections are taken and led there. The
parties to a connection are known by their names: the one at the end of the way, and the one that
the first request on it says it comes from (brokers have their id in the client id), or that the way
is for. What is cut is what one of them says to the other, on all their connections.

As on a real network, bytes that are lost are sent again: a connection stands still while it is
cut, nobody hears that the other side has closed it, and when it is whole again everything arrives,
late. Or a cut *resets*: connections end, and new ones are refused.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, NamedTuple, Self, TypeVar

T = TypeVar("T")
Address = Callable[[], str]
"""Asked when somebody connects, so that it may be known late."""

_BROKER = re.compile(rb"broker-(\d+)-")
_CLIENT_ID_AT = 14
"""In a frame: size, API key, version, correlation id, and the length of the client id."""


class Way(NamedTuple):
    """A way to ``target``; only ``source`` uses it, or anybody who says its name."""

    target: str
    address: Address
    source: str | None


class _Direction:
    """What one party says to another."""

    def __init__(self) -> None:
        self.is_whole = asyncio.Event()
        self.is_whole.set()
        self.resets = False


class Network:
    """Runs in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network")
        self._directions: defaultdict[tuple[str, str], _Direction] = defaultdict(_Direction)
        self._connections: dict[asyncio.Task[None], tuple[str, str]] = {}
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def way(self, target: str, address: Address, source: str | None = None) -> str:
        """Returns the address of a new way to ``target``, whose own is ``address``."""
        return self._run(self._listen(Way(target, address, source)))

    def cut(self, source: str, target: str, *, resets: bool = False) -> None:
        """Let nothing that ``source`` says come to ``target``."""
        self._run(self._cut(source, target, resets))

    def separate(self, one: str, other: str, *, resets: bool = False) -> None:
        """Cut both directions."""
        self.cut(one, other, resets=resets)
        self.cut(other, one, resets=resets)

    def heal(self) -> None:
        self._run(self._heal())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(60)

    # On the loop ---------------------------------------------------------------------------------

    async def _listen(self, way: Way) -> str:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            try:
                await self._lead(way, task, reader, writer)
            except (OSError, EOFError, asyncio.CancelledError):
                pass  # whoever is connected gets to know by the end of the connection
            finally:
                self._connections.pop(task, None)
                writer.transport.abort()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _cut(self, source: str, target: str, resets: bool) -> None:
        direction = self._directions[source, target]
        direction.resets = resets
        direction.is_whole.clear()
        if resets:
            for task, parties in self._connections.items():
                if {*parties} == {source, target}:
                    task.cancel()

    async def _heal(self) -> None:
        for direction in self._directions.values():
            direction.resets = False
            direction.is_whole.set()

    async def _close(self) -> None:
        # A server that is closed while it accepts somebody forgets to close that connection.
        for server in self._servers:
            for listening in server.sockets:
                self._loop.remove_reader(listening.fileno())
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in self._connections:
                task.cancel()
            await asyncio.wait(others, timeout=0.05)
        for server in self._servers:
            server.close()
        await asyncio.sleep(0.05)  # transports close their sockets in later turns

    async def _lead(
        self,
        way: Way,
        task: asyncio.Task[None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Pass on what one connection carries until it ends."""
        self._connections[task] = (way.source or "", way.target)
        first = b"" if way.source is not None else await _first_frame(reader)
        source = way.source or _sender_of(first)
        self._connections[task] = (source, way.target)
        there, back = self._directions[source, way.target], self._directions[way.target, source]
        await _until_whole(there, back)
        if reader.at_eof():
            return  # it gave up, and was never connected
        host, port = way.address().rsplit(":", 1)
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        try:
            far_writer.write(first)
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass_on(reader, far_writer, there))
                both.create_task(_pass_on(far_reader, writer, back))
        except* (OSError, EOFError):
            pass
        finally:
            far_writer.transport.abort()


async def _until_whole(*directions: _Direction) -> None:
    """Connecting takes both directions."""
    while not all(each.is_whole.is_set() for each in directions):
        if any(each.resets for each in directions):
            raise ConnectionRefusedError
        for each in directions:
            await each.is_whole.wait()


async def _pass_on(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, direction: _Direction
) -> None:
    while data := await source.read(1 << 16):
        await direction.is_whole.wait()
        target.write(data)
        await target.drain()
    # The end of a connection is told over the same network.
    await direction.is_whole.wait()
    raise EOFError


async def _first_frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big"))


def _sender_of(frame: bytes) -> str:
    """The id of a broker, or what a client calls itself."""
    length = int.from_bytes(frame[_CLIENT_ID_AT - 2 : _CLIENT_ID_AT], "big", signed=True)
    client_id = frame[_CLIENT_ID_AT : _CLIENT_ID_AT + max(length, 0)]
    broker = _BROKER.match(client_id)
    return (broker[1] if broker else client_id).decode(errors="replace")
