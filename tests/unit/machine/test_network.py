"""One contract for everybody who has a network: sockets on both loops, and the simulated one."""

from __future__ import annotations

import asyncio
import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import uvloop

from moldau.machine import Acceptor, File, FileSlice, Incoming, Network, Part, Transport
from moldau.machine.errors import TruncatedFileError
from moldau.machine.outgoing import SMALL_SLICE
from moldau.machine.real.disk import OsDisk
from moldau.machine.real.sockets.network import SocketNetwork
from moldau.testing.disk import MemoryDisk
from moldau.testing.simulation.simulation import Simulation

MIB = 1024 * 1024
DATA = os.urandom(2 * MIB)


class World(ABC):
    """Two networks that reach each other."""

    server: Network
    client: Network
    host: str
    """Of the server."""

    def __init__(self) -> None:
        self.talkers: list[Talker] = []
        self.acceptors: list[Acceptor] = []

    @abstractmethod
    def run(self, scenario: Coroutine[Any, Any, None]) -> None: ...

    @abstractmethod
    def file(self, data: bytes) -> File: ...

    @abstractmethod
    async def settle(self) -> None:
        """Returns when whatever was going to happen by itself has."""

    def bind(self, port: int = 0) -> Acceptor:
        acceptor = self.server.bind(self.host, port)
        self.acceptors.append(acceptor)
        return acceptor

    async def connect(self, port: int, talker: Talker, *, within: float = 10) -> None:
        await self.client.connect(self.host, port, talker, within=within)

    async def pair(self, server: Talker, client: Talker) -> None:
        """Connect two talkers."""
        acceptor = self.listen(server)
        await self.connect(acceptor.port, client)
        await server.has("made")

    def listen(self, *talkers: Talker, backlog: int = 10) -> Acceptor:
        """Let everybody in who comes, one talker after the other."""
        acceptor = self.bind()
        remaining = iter(talkers)

        def let_in() -> None:
            incoming = acceptor.accept()
            if incoming is not None:
                incoming.open(next(remaining))

        acceptor.listen(backlog, let_in)
        return acceptor

    async def close(self) -> None:
        for acceptor in self.acceptors:
            acceptor.close()
        for talker in self.talkers:
            if "made" in talker.calls:
                talker.transport.abort()
                await talker.has("lost")


class RealWorld(World):
    host = "127.0.0.1"

    def __init__(self, new_loop: Callable[[], asyncio.AbstractEventLoop], directory: Path) -> None:
        super().__init__()
        self.server = self.client = SocketNetwork()
        self._new_loop = new_loop
        self._directory = directory

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        loop = self._new_loop()
        try:
            loop.run_until_complete(scenario)
        finally:
            loop.close()

    def file(self, data: bytes) -> File:
        (self._directory / "file").write_bytes(data)
        return OsDisk().open(str(self._directory / "file"))

    async def settle(self) -> None:
        for _ in range(100):
            await asyncio.sleep(0)


class SimulatedWorld(World):
    host = "server"

    def __init__(self) -> None:
        super().__init__()
        self._simulation = Simulation(1)
        self.server = self._simulation.node("server").boot().network
        self.client = self._simulation.node("client").boot().network
        self._disk = MemoryDisk()

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        with self._simulation:
            self._simulation.run(scenario)

    def file(self, data: bytes) -> File:
        self._disk.write("file", data)
        return self._disk.open("file")

    async def settle(self) -> None:
        await asyncio.sleep(1)


@pytest.fixture(params=["asyncio", "uvloop", "simulation"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    if request.param == "simulation":
        return SimulatedWorld()
    loops = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return RealWorld(loops[request.param], tmp_path)


def contract(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that runs in every world, on its loop."""

    @wraps(test)
    def run(world: World, **arguments: Any) -> None:
        async def scenario() -> None:
            try:
                await test(world, **arguments)
            finally:
                await world.close()

        world.run(scenario())

    return run


class Talker:
    """A receiver that notes what it is told."""

    def __init__(
        self, world: World, *, buffer: int = 65_536, reads: bool = True, keeps_open: bool = False
    ) -> None:
        world.talkers.append(self)
        self.calls: list[str] = []
        """Without those about bytes."""
        self.data = bytearray()
        self.updates: list[int] = []
        self.error: Exception | None = None
        self.transport: Transport
        self.on_data: Callable[[], object] = lambda: None
        self.on_connected: Callable[[], object] = lambda: None
        self._reads = reads
        self._keeps_open = keeps_open
        self._buffer = memoryview(bytearray(buffer))
        self._news = asyncio.Event()

    def connection_made(self, transport: Transport) -> None:
        self.transport = transport
        if not self._reads:
            transport.pause_reading()
        self._note("made")
        self.on_connected()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        assert "lost" not in self.calls
        self.data += self._buffer[:nbytes]
        self.updates.append(nbytes)
        self._news.set()
        self.on_data()

    def eof_received(self) -> bool:
        self._note("eof")
        return self._keeps_open

    def pause_writing(self) -> None:
        self._note("pause")

    def resume_writing(self) -> None:
        self._note("resume")

    def connection_lost(self, error: Exception | None) -> None:
        self.error = error
        self._note("lost")

    def _note(self, call: str) -> None:
        assert "lost" not in self.calls
        self.calls.append(call)
        self._news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Returns when the condition holds; it may change with what the receiver is told."""
        async with asyncio.timeout(60):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def has(self, call: str) -> None:
        await self.until(lambda: call in self.calls)

    async def got(self, size: int) -> bytes:
        await self.until(lambda: len(self.data) >= size)
        return bytes(self.data)


# Bytes -------------------------------------------------------------------------------------------


@contract
async def test_bytes_arrive_in_order_both_ways(world: World) -> None:
    server, client = Talker(world), Talker(world)
    await world.pair(server, client)
    for start in range(0, len(DATA), 100_000):
        client.transport.write(
            [DATA[start : start + 70_000], DATA[start + 70_000 : start + 100_000]]
        )
        server.transport.write([DATA[start : start + 100_000]])
    assert await server.got(len(DATA)) == DATA
    assert await client.got(len(DATA)) == DATA


@pytest.mark.parametrize("buffer", [1, 7, 1000])
@contract
async def test_a_receiver_lends_as_much_memory_as_it_likes(world: World, buffer: int) -> None:
    server, client = Talker(world, buffer=buffer), Talker(world)
    await world.pair(server, client)
    client.transport.write([DATA[:5000]])
    assert await server.got(5000) == DATA[:5000]
    assert max(server.updates) <= buffer


@contract
async def test_what_has_come_is_read_at_once(world: World) -> None:
    server, client = Talker(world, reads=False), Talker(world)
    await world.pair(server, client)
    for number in range(10):
        client.transport.write([b"%d" % number])
    await world.settle()
    server.transport.resume_reading()
    assert await server.got(10) == b"0123456789"
    assert server.updates == [10]


@contract
async def test_all_kinds_of_parts_in_any_order(world: World) -> None:
    server, client = Talker(world), Talker(world)
    await world.pair(server, client)
    file = world.file(DATA)
    parts: list[Part] = [
        b"",
        b"bytes",
        bytearray(b"array"),
        memoryview(b"a view")[2:],
        FileSlice(file, 10, SMALL_SLICE),
        FileSlice(file, 0, 0),
        b"between",
        FileSlice(file, 1, MIB),
        b"end",
    ]
    expected = (
        b"bytesarrayview" + DATA[10 : 10 + SMALL_SLICE] + b"between" + DATA[1 : 1 + MIB] + b"end"
    )
    client.transport.write(parts)
    client.transport.write([FileSlice(file, 0, 100_000)])
    client.transport.write([b"header", FileSlice(file, 0, 100_000)])
    client.transport.write([b"header", FileSlice(file, 0, 100)])
    client.transport.write([])
    expected += DATA[:100_000] + b"header" + DATA[:100_000] + b"header" + DATA[:100]
    assert await server.got(len(expected)) == expected


@pytest.mark.parametrize("size", [100, SMALL_SLICE, MIB])
@contract
async def test_a_file_that_is_shorter_than_its_slice_loses_the_connection(
    world: World, size: int
) -> None:
    server, client = Talker(world), Talker(world)
    await world.pair(server, client)
    file = world.file(DATA[:size])
    file.truncate(size - 50)
    client.transport.write([b"before"])
    client.transport.write([FileSlice(file, 0, size), b"never"])
    await client.has("lost")
    assert isinstance(client.error, TruncatedFileError)
    await server.has("lost")
    assert bytes(server.data) == (b"before" + DATA)[: len(server.data)]
    assert 6 <= len(server.data) <= 6 + size - 50


# Back-pressure -----------------------------------------------------------------------------------


@contract
async def test_a_peer_that_does_not_read_stops_the_writer(world: World) -> None:
    server, client = Talker(world, reads=False), Talker(world)
    await world.pair(server, client)
    sent = 0
    while "pause" not in client.calls:
        client.transport.write([DATA])
        sent += len(DATA)
        await asyncio.sleep(0)
    await world.settle()
    assert client.calls == ["made", "pause"]
    server.transport.resume_reading()
    await client.has("resume")
    received = await server.got(sent)
    assert received == DATA * (sent // len(DATA))
    assert client.calls == ["made", "pause", "resume"]


@contract
async def test_a_writer_that_is_told_to_go_on_may_write_at_once(world: World) -> None:
    server, client = Talker(world, reads=False), Talker(world)
    await world.pair(server, client)
    while client.calls.count("pause") < 1:
        client.transport.write([DATA])
        await asyncio.sleep(0)
    server.transport.resume_reading()
    await client.until(lambda: client.calls.count("resume") == 1)
    client.transport.write([DATA * 4])
    await client.until(lambda: client.calls.count("resume") == 2)
    assert client.calls == ["made", "pause", "resume", "pause", "resume"]


@contract
async def test_nothing_is_read_while_reading_is_paused(world: World) -> None:
    server, client = Talker(world), Talker(world)
    await world.pair(server, client)
    client.transport.write([b"one"])
    await server.got(3)
    server.transport.pause_reading()
    client.transport.write([b"two"])
    await world.settle()
    assert server.data == b"one"
    server.transport.resume_reading()
    server.transport.resume_reading()
    assert await server.got(6) == b"onetwo"


@contract
async def test_a_receiver_may_pause_in_the_middle(world: World) -> None:
    server, client = Talker(world, buffer=10), Talker(world)
    await world.pair(server, client)
    server.on_data = lambda: server.transport.pause_reading()
    client.transport.write([DATA[:100]])
    await server.got(1)
    for reads in range(1, 10):
        await world.settle()
        assert len(server.updates) == reads
        server.transport.resume_reading()
        await server.until(lambda before=reads: len(server.updates) > before)  # type: ignore[misc]


# Ends --------------------------------------------------------------------------------------------


@contract
async def test_close_sends_what_is_queued(world: World) -> None:
    server, client = Talker(world, reads=False), Talker(world)
    await world.pair(server, client)
    file = world.file(DATA)
    client.transport.write([DATA * 4, FileSlice(file, 0, len(DATA)), DATA])
    client.transport.close()
    assert client.transport.is_closing
    await world.settle()
    assert client.calls == ["made", "pause"]
    server.transport.resume_reading()
    await server.has("eof")
    assert bytes(server.data) == DATA * 6
    await client.has("lost")
    await server.has("lost")
    assert client.error is None
    assert server.error is None


@contract
async def test_what_is_written_while_closing_goes_out_too(world: World) -> None:
    server, client = Talker(world, reads=False), Talker(world)
    await world.pair(server, client)
    client.transport.write([DATA * 8])
    client.transport.close()
    client.transport.write([b"last"])
    server.transport.resume_reading()
    await server.has("lost")
    assert bytes(server.data) == DATA * 8 + b"last"
    await client.has("lost")


@contract
async def test_abort_drops_what_is_queued(world: World) -> None:
    server, client = Talker(world, reads=False), Talker(world)
    await world.pair(server, client)
    client.transport.write([DATA * 10])
    client.transport.abort()
    await client.has("lost")
    assert client.error is None
    server.transport.resume_reading()
    await server.has("lost")
    assert server.calls == ["made", "eof", "lost"]
    assert 0 < len(server.data) < 10 * len(DATA)
    assert bytes(server.data) == (DATA * 10)[: len(server.data)]


@pytest.mark.parametrize("how", ["close", "abort"])
@contract
async def test_the_end_is_told_from_the_loop_and_once(world: World, how: str) -> None:
    server, client = Talker(world), Talker(world)
    await world.pair(server, client)
    getattr(client.transport, how)()
    assert client.calls == ["made"]
    assert client.transport.is_closing
    await client.has("lost")
    await server.has("lost")
    for transport in (client.transport, server.transport):
        transport.write([b"x", FileSlice(world.file(b"x" * 100_000), 0, 100_000)])
        transport.pause_reading()
        transport.resume_reading()
        transport.close()
        transport.abort()
        assert transport.is_closing
    await world.settle()
    assert client.calls == ["made", "lost"]
    assert server.calls == ["made", "eof", "lost"]


@contract
async def test_a_peer_that_stays_open_may_answer_after_the_end(world: World) -> None:
    server, client = Talker(world, keeps_open=True), Talker(world)
    await world.pair(server, client)
    client.transport.write([b"request"])
    client.transport.close()
    await server.has("eof")
    assert server.data == b"request"
    await world.settle()
    assert server.calls == ["made", "eof"]
    assert not server.transport.is_closing
    server.transport.close()
    await server.has("lost")
    assert server.error is None


@contract
async def test_who_answers_a_peer_that_is_gone_finds_out(world: World) -> None:
    server, client = Talker(world, keeps_open=True), Talker(world)
    await world.pair(server, client)
    client.transport.close()
    await server.has("eof")
    for _ in range(3):
        server.transport.write([b"answer"])
        await world.settle()
    await server.has("lost")
    assert isinstance(server.error, BrokenPipeError | ConnectionResetError)


@pytest.mark.parametrize("how", ["close", "abort"])
@contract
async def test_who_ends_without_reading_resets_the_connection(world: World, how: str) -> None:
    server, client = Talker(world, reads=False), Talker(world)
    await world.pair(server, client)
    client.transport.write([b"nobody reads this"])
    await world.settle()
    server.transport.write([b"last words"])
    getattr(server.transport, how)()
    await client.has("lost")
    assert client.data == b"last words"
    assert client.calls == ["made", "lost"]
    assert isinstance(client.error, ConnectionResetError)
    await server.has("lost")
    assert server.error is None


async def reset_by_server(world: World, client: Talker) -> None:
    server = Talker(world, reads=False)
    await world.pair(server, client)
    client.transport.write([b"x"])
    await world.settle()
    server.transport.write([b"last words"])
    server.transport.abort()
    await world.settle()


@contract
async def test_who_does_not_read_does_not_hear_of_a_reset(world: World) -> None:
    client = Talker(world, reads=False)
    await reset_by_server(world, client)
    assert client.calls == ["made"]
    client.transport.resume_reading()
    await client.has("lost")
    assert client.data == b"last words"
    assert isinstance(client.error, ConnectionResetError)


@contract
async def test_who_writes_hears_of_a_reset_without_reading(world: World) -> None:
    client = Talker(world, reads=False)
    await reset_by_server(world, client)
    client.transport.write([b"y"])
    await client.has("lost")
    assert client.data == b""
    assert isinstance(client.error, ConnectionResetError)


@contract
async def test_who_waits_to_write_hears_of_a_reset(world: World) -> None:
    server, client = Talker(world, reads=False), Talker(world, reads=False)
    await world.pair(server, client)
    client.transport.write([DATA * 8])
    await client.has("pause")
    server.transport.abort()
    await client.has("lost")
    assert isinstance(client.error, ConnectionResetError | BrokenPipeError)


@contract
async def test_a_receiver_may_close_as_soon_as_it_is_connected(world: World) -> None:
    server, client = Talker(world), Talker(world)
    server.on_connected = lambda: server.transport.close()
    await world.pair(server, client)
    await server.has("lost")
    assert server.calls == ["made", "lost"]
    await client.has("lost")
    assert client.calls == ["made", "eof", "lost"]


@contract
async def test_a_receiver_that_closes_while_it_reads_reads_no_more(world: World) -> None:
    server, client = Talker(world, buffer=10), Talker(world)
    server.on_data = lambda: server.transport.close()
    await world.pair(server, client)
    client.transport.write([DATA[:100]])
    await server.has("lost")
    assert len(server.updates) == 1
    await client.has("lost")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@contract
async def test_a_receiver_that_fails_is_called_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server, client = Talker(world, buffer=5), Talker(world)
    await world.pair(server, client)

    def fail() -> None:
        server.on_data = lambda: None
        raise ValueError("the first bytes are not liked")

    server.on_data = fail
    client.transport.write([b"first"])
    await server.got(5)
    client.transport.write([b"second"])
    assert await server.got(11) == b"firstsecond"
    assert "the first bytes are not liked" in caplog.text


@contract
async def test_a_call_from_the_loop_comes_after_what_is_ready(world: World) -> None:
    server, client = Talker(world), Talker(world)
    await world.pair(server, client)
    order: list[str] = []
    asyncio.get_running_loop().call_soon(order.append, "ready")
    client.transport.call_soon(lambda: order.append("called"))
    assert order == []
    await world.settle()
    assert order == ["ready", "called"]


# Connecting --------------------------------------------------------------------------------------


@contract
async def test_both_sides_know_each_other(world: World) -> None:
    server, client = Talker(world), Talker(world)
    acceptor = world.bind()
    came: list[Incoming] = []
    acceptor.listen(5, lambda: came.extend(filter(None, [acceptor.accept()])))
    await world.connect(acceptor.port, client)
    while not came:
        await world.settle()
    transport = came[0].open(server)
    assert client.transport.peer == f"{world.host}:{acceptor.port}"
    assert client.transport.peer_host == world.host
    assert transport is server.transport
    assert transport.peer == came[0].peer
    assert transport.peer.startswith(f"{came[0].peer_host}:")
    assert transport.peer_host == came[0].peer_host


@contract
async def test_nobody_connects_where_nobody_listens(world: World) -> None:
    async def refused(port: int) -> None:
        with pytest.raises(ConnectionError, match=f"cannot connect to {world.host}:{port}"):
            await world.connect(port, Talker(world))

    acceptor = world.bind()
    await refused(acceptor.port)
    acceptor.listen(5, lambda: None)
    acceptor.close()
    await refused(acceptor.port)


@contract
async def test_nobody_connects_to_a_host_without_an_address(world: World) -> None:
    with pytest.raises(ConnectionError, match=r"cannot find the address of nobody\.invalid"):
        await world.client.connect("nobody.invalid", 9092, Talker(world), within=60)


@contract
async def test_who_finds_the_backlog_full_waits_in_vain(world: World) -> None:
    acceptor = world.bind()
    acceptor.listen(0, lambda: None)
    acceptor.pause()
    first = Talker(world)
    await world.connect(acceptor.port, first)
    with pytest.raises(TimeoutError, match=r"no connection to .* within 0\.2 s"):
        await world.client.connect(world.host, acceptor.port, Talker(world), within=0.2)


@contract
async def test_the_system_lets_in_as_many_as_the_backlog_takes(world: World) -> None:
    servers, clients = (
        [Talker(world), Talker(world), Talker(world)],
        [Talker(world), Talker(world), Talker(world)],
    )
    acceptor = world.listen(*servers, backlog=5)
    acceptor.pause()
    for number, client in enumerate(clients):
        await world.connect(acceptor.port, client)
        client.transport.write([b"hello from %d" % number])
    await world.settle()
    assert all(server.calls == [] for server in servers)
    acceptor.resume()
    acceptor.resume()
    for number, server in enumerate(servers):
        assert await server.got(12) == b"hello from %d" % number
    assert acceptor.accept() is None


@contract
async def test_who_waits_is_told_of_again_and_again_until_accepted(world: World) -> None:
    calls = 0
    acceptor = world.bind()

    def on_waiting() -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            incoming = acceptor.accept()
            assert incoming is not None
            incoming.refuse()

    acceptor.listen(5, on_waiting)
    client = Talker(world)
    await world.connect(acceptor.port, client)
    await client.has("lost")
    await world.settle()
    assert client.calls == ["made", "eof", "lost"]
    assert calls == 5


@contract
async def test_a_peer_that_leaves_before_it_is_let_in_is_heard_to_the_end(world: World) -> None:
    server, client = Talker(world), Talker(world)
    acceptor = world.listen(server)
    acceptor.pause()
    await world.connect(acceptor.port, client)
    client.transport.write([b"hello and goodbye"])
    client.transport.close()
    await world.settle()
    acceptor.resume()
    await server.has("lost")
    assert server.data == b"hello and goodbye"
    assert server.calls == ["made", "eof", "lost"]


@contract
async def test_who_waits_when_nobody_listens_any_more_is_reset(world: World) -> None:
    client = Talker(world)
    acceptor = world.bind()
    acceptor.listen(5, lambda: None)
    acceptor.pause()
    await world.connect(acceptor.port, client)
    await world.settle()
    acceptor.close()
    await client.has("lost")
    assert isinstance(client.error, ConnectionResetError)


@contract
async def test_an_acceptor_is_safe_to_use_after_its_end(world: World) -> None:
    acceptor = world.bind()
    acceptor.listen(5, lambda: None)
    acceptor.close()
    acceptor.close()
    acceptor.pause()
    acceptor.resume()
    with pytest.raises(OSError, match="Bad file descriptor"):
        acceptor.accept()


@contract
async def test_an_address_belongs_to_one_listener(world: World) -> None:
    first = world.bind()
    second = world.bind(first.port)
    first.listen(5, lambda: None)
    for attempt in (
        lambda: second.listen(5, lambda: None),
        lambda: world.bind(first.port),
    ):
        with pytest.raises(OSError, match=f"cannot listen on {world.host}:{first.port}") as caught:
            attempt()
        assert caught.value.errno == errno.EADDRINUSE
    second.close()
    client = Talker(world)
    await world.connect(first.port, client)
    first.close()
    await client.has("lost")
    again = world.bind(first.port)
    again.listen(5, lambda: None)
    again.close()


@contract
async def test_port_zero_is_a_port_of_its_own(world: World) -> None:
    acceptors = [world.bind() for _ in range(3)]
    assert len({acceptor.port for acceptor in acceptors}) == 3
    assert min(acceptor.port for acceptor in acceptors) > 1023
    for acceptor in acceptors:
        acceptor.close()


@contract
async def test_a_cancelled_attempt_leaves_nothing_behind(world: World) -> None:
    client, server = Talker(world), Talker(world)
    acceptor = world.listen(server)
    attempt = asyncio.ensure_future(world.connect(acceptor.port, client))
    await asyncio.sleep(0)
    attempt.cancel()
    with suppress(asyncio.CancelledError):
        await attempt
    await world.settle()
    assert client.calls == []


@contract
async def test_a_machine_has_a_name_under_which_it_is_reached(world: World) -> None:
    assert world.server.host_name()
    assert await world.server.reachable_host()
