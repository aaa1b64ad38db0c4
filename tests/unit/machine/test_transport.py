"""The transports over real sockets: ours and the adapter of an asyncio stream behave the same."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.support.connections import (
    MemoryFile,
    OsFile,
    Peer,
    echo,
    serving,
    until,
)
from tests.support.logs import records_of
from tests.support.memory_network import frame, frames_of

from moldau.machine.disk import FileSlice
from moldau.machine.network import Part
from moldau.machine.outgoing import SMALL_SLICE
from moldau.machine.real.sockets.transport import HIGH_WATER, format_address
from moldau.net.connection import Blocked, Pending, ServerConnection
from moldau.net.frames import KIB, MIB
from moldau.net.memory_pool import MemoryPool
from moldau.testing.clock import ManualClock

pytestmark = pytest.mark.parametrize("kind", ["socket", "stream"])

DATA = os.urandom(2 * MIB)


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[OsFile]:
    file = OsFile(tmp_path / "00000000000000000000.log", DATA)
    yield file
    file.close()


def slice_frame(file: OsFile | MemoryFile, position: int, size: int) -> list[Part]:
    """An answer whose body is a slice of a file between two pieces of bytes."""
    return [struct.pack(">i", 4 + size + 3) + b"head", FileSlice(file, position, size), b"end"]


async def test_small_requests(kind: str) -> None:
    async with serving(kind, echo) as server:
        peer = await Peer.connect(server.port)
        for number in range(10):
            assert await peer.ask(b"request %d" % number) == b"request %d" % number
        peer.close()
        await server.closed.get()


async def test_pipelined_requests_of_all_sizes(kind: str) -> None:
    bodies = [os.urandom(size) for size in (1, 70_000, 10, 3 * MIB, 0, 65_532, 65_533, 200, 200)]
    async with serving(kind, echo) as server:
        peer = await Peer.connect(server.port)
        sending = asyncio.create_task(peer.send(b"".join(map(frame, bodies))))
        assert [await peer.read_frame() for _ in bodies] == bodies
        await sending
        peer.close()
        await server.closed.get()
        assert 0 < server.pool.kept_bytes <= 4 * MIB


async def test_a_request_byte_by_byte(kind: str) -> None:
    async with serving(kind, echo) as server:
        peer = await Peer.connect(server.port)
        for byte in frame(b"slow but sure"):
            await peer.send(bytes([byte]))
            await asyncio.sleep(0)
        assert await peer.read_frame() == b"slow but sure"
        peer.close()


@pytest.mark.parametrize("size", [1, SMALL_SLICE, SMALL_SLICE + 1, 64 * KIB, 2 * MIB - 7])
async def test_slices_of_a_file_arrive_between_the_bytes_around_them(
    kind: str, size: int, log_file: OsFile
) -> None:
    answer = slice_frame(log_file, 7, size)
    async with serving(kind, lambda _connection, _request: answer) as server:
        peer = await Peer.connect(server.port)
        for _ in range(2):
            assert await peer.ask(b"fetch") == b"head" + DATA[7 : 7 + size] + b"end"
        await peer.send(frame(b"fetch") * 3)
        for _ in range(3):
            assert await peer.read_frame() == b"head" + DATA[7 : 7 + size] + b"end"
        peer.close()


async def test_an_empty_slice_and_empty_bytes_send_nothing(kind: str, log_file: OsFile) -> None:
    answer: list[Part] = [b"", FileSlice(log_file, 0, 0), frame(b"all"), b""]
    async with serving(kind, lambda _connection, _request: answer) as server:
        peer = await Peer.connect(server.port)
        assert await peer.ask(b"fetch") == b"all"
        peer.close()


async def test_very_many_parts_are_one_answer(kind: str, log_file: OsFile) -> None:
    count, size = 3000, 20
    parts: list[Part] = [struct.pack(">i", count * (size + 1))]
    for number in range(count):
        parts += [b"-", FileSlice(log_file, number * size, size)]
    async with serving(kind, lambda _connection, _request: parts) as server:
        peer = await Peer.connect(server.port)
        found = await peer.ask(b"fetch")
        assert found == b"".join(b"-" + DATA[at : at + size] for at in range(0, count * size, size))
        peer.close()


async def test_a_slice_may_stand_alone(kind: str, tmp_path: Path) -> None:
    file = OsFile(tmp_path / "frames", frame(b"x" * 100_000))
    answer: list[Part] = [FileSlice(file, 0, 100_004)]
    async with serving(kind, lambda _connection, _request: answer) as server:
        peer = await Peer.connect(server.port)
        assert await peer.ask(b"fetch") == b"x" * 100_000
        peer.close()
    file.close()


async def test_a_file_without_a_descriptor_is_read_in_pieces(kind: str) -> None:
    file = MemoryFile(DATA)
    answer = slice_frame(file, 0, len(DATA))
    async with serving(kind, lambda _connection, _request: answer) as server:
        peer = await Peer.connect(server.port)
        assert await peer.ask(b"fetch") == b"head" + DATA + b"end"
        assert file.largest_read < MIB
        peer.close()


@pytest.mark.parametrize("left", [0, 1 * MIB])
async def test_a_file_truncated_while_it_is_sent_closes_the_connection(
    kind: str, left: int, log_file: OsFile, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "moldau")
    answer = slice_frame(log_file, 0, len(DATA))
    log_file.truncate(left)
    async with serving(kind, lambda _connection, _request: answer) as server:
        peer = await Peer.connect(server.port)
        await peer.send(frame(b"fetch"))
        received = await peer.read(len(DATA) + 11)
        assert len(received) <= 8 + left
        await server.closed.get()
        (line,) = [record.getMessage() for record in records_of(caplog, "moldau.net")]
        assert "were to be sent, but the file ends" in line
        peer.close()


async def test_a_file_closed_while_it_is_sent_is_never_mistaken_for_another(
    kind: str, log_file: OsFile, tmp_path: Path
) -> None:
    answer = slice_frame(log_file, 0, len(DATA)) * 8
    async with serving(kind, lambda _connection, _request: answer) as server:
        peer = await Peer.connect(server.port, receive_buffer=4096)
        await peer.send(frame(b"fetch"))
        await until(lambda: bool(server.opened and server.opened[0].blocked))
        descriptor = log_file.fileno()
        log_file.close()
        others = [OsFile(tmp_path / "other", bytes(len(DATA)))]
        while others[-1].fileno() != descriptor:  # the first may get one that became free meanwhile
            others.append(OsFile(tmp_path / "other", bytes(len(DATA))))
        received = await peer.read(8 * (len(DATA) + 11))
        assert len(received) < 8 * (len(DATA) + 11)
        whole = struct.pack(">i", len(DATA) + 7) + b"head" + DATA + b"end"
        assert received == (whole * 8)[: len(received)]
        for other in others:
            other.close()
        peer.close()


async def test_a_small_slice_of_a_truncated_file_closes_the_connection(
    kind: str, log_file: OsFile
) -> None:
    log_file.truncate(0)
    answer = slice_frame(log_file, 0, 100)
    async with serving(kind, lambda _connection, _request: answer) as server:
        peer = await Peer.connect(server.port)
        await peer.send(frame(b"fetch"))
        assert await peer.is_closed()
        peer.close()


class Flood:
    """Answers every request with 100 kB and counts them."""

    answer = (frame(bytes(100_000)),)

    def __init__(self) -> None:
        self.executed = 0

    def __call__(self, _connection: ServerConnection, _request: memoryview) -> Sequence[Part]:
        self.executed += 1
        return self.answer


async def stable(handler: Flood) -> int:
    """How many requests were executed when nothing moves any more."""
    before = -1
    while before != handler.executed:
        before = handler.executed
        for _ in range(20):
            await asyncio.sleep(0)
    return before


async def test_a_peer_that_never_reads_is_not_read_from(kind: str) -> None:
    handler = Flood()
    async with serving(kind, handler) as server:
        peer = await Peer.connect(server.port, receive_buffer=4096)
        await peer.send(frame(b"r") * 300)
        await until(lambda: bool(server.opened and server.opened[0].blocked & Blocked.WRITING))
        executed = await stable(handler)
        (connection,) = server.opened
        assert not connection._transport.is_closing
        queued = connection._transport.queued_bytes  # type: ignore[attr-defined]
        assert 0 < queued < HIGH_WATER + 40 * 100_004
        assert executed < 200
        # Others are served meanwhile, and the lazy one gets everything once it reads.
        other = await Peer.connect(server.port)
        assert await other.ask(b"r") == bytes(100_000)
        for _ in range(300):
            assert await peer.read(100_004) == Flood.answer[0]
        assert handler.executed == 301
        peer.close()
        other.close()


async def test_answers_one_by_one_to_a_peer_that_never_reads_are_bounded_too(kind: str) -> None:
    handler = Flood()
    async with serving(kind, handler) as server:
        peer = await Peer.connect(server.port, receive_buffer=4096)
        while not server.opened or not server.opened[0].blocked:
            executed = handler.executed
            await peer.send(frame(b"r"))
            await until(lambda before=executed: handler.executed > before)  # type: ignore[misc]
        assert handler.executed < 200
        queued = server.opened[0]._transport.queued_bytes  # type: ignore[attr-defined]
        assert queued <= HIGH_WATER + 400_000
        peer.close()


async def test_slices_of_files_are_held_back_too(kind: str, log_file: OsFile) -> None:
    executed = 0

    def handler(_connection: ServerConnection, _request: memoryview) -> list[Part]:
        nonlocal executed
        executed += 1
        # Far more than the operating system buffers.
        return slice_frame(log_file, 0, len(DATA)) * 8

    async with serving(kind, handler) as server:
        peer = await Peer.connect(server.port, receive_buffer=4096)
        await peer.send(frame(b"r"))
        await until(lambda: bool(server.opened and server.opened[0].blocked))
        await peer.send(frame(b"r") * 50)
        for _ in range(200):
            await asyncio.sleep(0)
        assert executed == 1
        for _ in range(9):
            assert await peer.read_frame() == b"head" + DATA + b"end"
        assert executed >= 2
        peer.close()


async def test_a_peer_that_disappears_while_it_is_written_to_is_just_lost(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    pending: list[Pending] = []

    def handler(_connection: ServerConnection, _request: memoryview) -> Pending:
        pending.append(Pending(follower=int.from_bytes(b"pr", "big")))
        return pending[-1]

    async with serving(kind, handler) as server:
        peer = await Peer.connect(server.port)
        await peer.send(frame(b"produce 1") + frame(b"produce 2"))
        await until(lambda: len(pending) == 2)
        peer.reset()
        assert (await server.closed.get()).closed
        for one in pending:
            one.complete([bytes(5 * MIB)])
        assert records_of(caplog, "moldau.net") == []
        assert "socket.send() raised" not in caplog.text  # asyncio's own complaint


async def test_a_peer_that_resets_while_answers_are_queued_is_just_lost(
    kind: str, log_file: OsFile
) -> None:
    answer = slice_frame(log_file, 0, len(DATA))
    async with serving(kind, lambda _connection, _request: answer) as server:
        peer = await Peer.connect(server.port, receive_buffer=4096)
        await peer.send(frame(b"fetch") * 5)
        await until(lambda: bool(server.opened and server.opened[0].blocked))
        peer.reset()
        assert (await server.closed.get()).closed


@pytest.mark.parametrize("request_bytes", [frame(b"half a request")[:9], frame(b"park")])
async def test_a_reset_right_behind_the_last_bytes_is_noticed(
    kind: str, request_bytes: bytes
) -> None:
    async with serving(kind, lambda _connection, _request: Pending()) as server:
        peer = await Peer.connect(server.port)
        await until(lambda: bool(server.opened))
        # Without giving the loop a chance in between.
        peer.sock.send(request_bytes)
        peer.reset()
        assert (await server.closed.get()).closed


async def test_a_peer_that_ends_its_requests_gets_its_answers_and_the_end(kind: str) -> None:
    parked: list[Pending] = []

    def handler(connection: ServerConnection, request: memoryview) -> Sequence[Part] | Pending:
        if bytes(request) == b"park":
            parked.append(Pending())
            return parked[-1]
        return echo(connection, request)

    async with serving(kind, handler) as server:
        peer = await Peer.connect(server.port)
        await peer.send(frame(b"a") + frame(b"park") + frame(b"b"))
        peer.end_of_requests()
        assert await peer.read_frame() == b"a"
        await until(lambda: bool(parked))
        for _ in range(20):
            await asyncio.sleep(0)
        parked[0].complete([frame(b"c" * MIB)])
        assert frames_of(await peer.read(10 * MIB)) == [b"c" * MIB, b"b"]
        peer.close()
        await server.closed.get()


async def test_who_waits_for_memory_is_read_on_when_it_is_there(kind: str) -> None:
    clock = ManualClock()
    async with serving(kind, echo, memory=MemoryPool(MIB, clock)) as server:
        memory = server.pool.memory
        first, *others = [await Peer.connect(server.port) for _ in range(20)]
        body = os.urandom(MIB)
        await first.send(frame(body)[:-1])
        await until(lambda: memory.used > MIB)
        answers = [asyncio.ensure_future(peer.ask(body)) for peer in others]
        await until(lambda: memory.waiting == len(others))
        await first.send(body[-1:])
        assert await first.read_frame() == body
        assert await asyncio.gather(*answers) == [body] * len(others)
        assert memory.used == 0
        assert clock.pending == 0
        for peer in (first, *others):
            peer.close()


async def test_garbage_is_answered_with_the_end_of_the_connection(kind: str) -> None:
    async with serving(kind, echo) as server:
        for garbage in (b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x00\xc8\x01", b"\xff" * 100_000):
            peer = await Peer.connect(server.port)
            with contextlib.suppress(ConnectionError):
                await peer.send(garbage)
            assert await peer.is_closed()
            peer.close()
            await server.closed.get()
        peer = await Peer.connect(server.port)
        assert await peer.ask(b"still alive") == b"still alive"
        peer.close()


async def test_a_busy_connection_leaves_turns_to_the_others(kind: str) -> None:
    order: list[bytes] = []

    def handler(_connection: ServerConnection, request: memoryview) -> list[bytes]:
        order.append(bytes(request))
        return [frame(b"")]

    async with serving(kind, handler) as server:
        busy = await Peer.connect(server.port)
        other = await Peer.connect(server.port)
        await busy.ask(b"first")
        await other.ask(b"first")
        # Both are in the sockets before the loop of the server looks at either.
        busy.sock.send(frame(b"busy") * 2000)
        other.sock.send(frame(b"other"))
        await other.read_frame()
        assert order.index(b"other") < 500
        assert await busy.read(4 * 2000) == frame(b"") * 2000
        busy.close()
        other.close()


async def test_idle_connections_and_liars_hold_no_buffers(kind: str) -> None:
    async with serving(kind, echo) as server:
        peers = [await Peer.connect(server.port) for _ in range(100)]
        for peer in peers:
            assert await peer.ask(b"hello") == b"hello"
            await peer.send(struct.pack(">i", 100 * MIB))
        await until(lambda: all(one._reader.buffered == 4 for one in server.opened))
        held = {id(connection._reader._view.obj): connection._reader._view.nbytes
                for connection in server.opened}  # fmt: skip
        assert sum(held.values()) == 4 * len(peers)
        for peer in peers:
            peer.close()


def test_addresses_are_shown_as_an_operator_writes_them(kind: str) -> None:
    assert format_address(("10.0.0.1", 9092)) == ("10.0.0.1", "10.0.0.1:9092")
    assert format_address(("::1", 9092, 0, 0)) == ("::1", "[::1]:9092")
    assert format_address(("::ffff:10.0.0.1", 9092, 0, 0)) == ("10.0.0.1", "10.0.0.1:9092")
    assert format_address("/tmp/socket") == ("/tmp/socket", "/tmp/socket")
