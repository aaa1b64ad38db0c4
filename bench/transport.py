"""What moving bytes costs: our transport and sendfile beside the alternatives.

    python -m bench.transport [--rounds 9] [--megabytes 100] [--requests 8000] [--only large]
    MOLDAU_PURE_PYTHON=1 python -m bench.transport --only threshold

The server runs in this process and its CPU time is measured; the client is a process of its own
that only sends and discards. Both are pinned, once to one core and once to two, because that alone
changes the cost by a factor of two to three and would otherwise be left to the scheduler. Variants
take turns; medians are shown, and the lower quartile, because neighbours only ever add.

Large answers and requests: CPU seconds per gigabyte. Small ones: CPU microseconds each, with a
handler that does nothing, so this is what the transport, the framing and the event loop cost.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import mmap
import multiprocessing
import os
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import uvloop

from moldau.machine.disk import FileSlice
from moldau.machine.network import Part
from moldau.machine.real.clock import SystemClock
from moldau.machine.real.sockets import transport
from moldau.machine.real.sockets.network import SocketNetwork
from moldau.machine.real.sockets.stream import StreamTransport
from moldau.net.connection import ConnectionLimits, ServerConnection
from moldau.net.frames import BufferPool
from moldau.net.listener import Listener, ListenerSettings
from moldau.net.log_limiter import LogLimiter
from moldau.source import VARIABLE as PLAIN_PYTHON

FILE_SIZE = 256 * 1024 * 1024  # far more than the caches of the processor
KAFKA_BUFFER = 102_400
UNALIGNED = 717
HEADER = 60
REQUEST = struct.pack(">i", 146) + bytes(146)
RESPONSE = struct.pack(">i", 56) + bytes(56)

LIMITER = LogLimiter(logging.getLogger(__name__), time.monotonic)

CORES = sorted(os.sched_getaffinity(0))

Handler = Callable[[ServerConnection, memoryview], Sequence[Part] | None]


# The client, in its own process


def exchange(
    port: int, request: bytes, answer_size: int, count: int, depth: int, core: int
) -> None:
    """Send ``count`` requests with ``depth`` of them in flight, read the answers."""
    os.sched_setaffinity(0, {core})
    sock = socket.socket()
    sock.connect(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    memory = memoryview(bytearray(1024 * 1024))
    sock.sendall(request * depth)
    sent, received, done = depth, 0, 0
    while done < count:
        received += sock.recv_into(memory)
        answered, received = divmod(received, answer_size)
        done += answered
        more = min(answered, count - sent)
        if more > 0:
            sock.sendall(request * more)
            sent += more
    sock.close()


@dataclass
class Load:
    request: bytes
    answer_size: int
    count: int
    depth: int


# The servers


@dataclass
class File:
    path: str
    descriptor: int

    def fileno(self) -> int:
        return self.descriptor

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self.descriptor, size, position)


def answer_header(size: int) -> bytes:
    return struct.pack(">i", HEADER - 4 + size) + bytes(HEADER - 4)


def from_file(how: str, file: File, size: int) -> Handler:
    """A handler that answers with the next ``size`` bytes of a file."""
    header = answer_header(size)
    mapped = memoryview(mmap.mmap(file.descriptor, FILE_SIZE, prot=mmap.PROT_READ))
    position = 0

    def handler(_connection: ServerConnection, _request: memoryview) -> Sequence[Part]:
        nonlocal position
        # Batches lie anywhere; from the beginning of a page sendfile would cost half as much.
        position = (position + size + UNALIGNED) % (FILE_SIZE - size)
        if how == "sendfile":
            return [header, FileSlice(file, position, size)]
        if how == "mmap":
            return [header, mapped[position : position + size]]
        return [header, os.pread(file.descriptor, size, position)]

    return handler


def small(_connection: ServerConnection, _request: memoryview) -> Sequence[Part]:
    return (RESPONSE,)


async def own_transport(handler: Handler, buffer: int) -> tuple[int, Callable[[], Awaitable[None]]]:
    settings = ListenerSettings(receive_buffer_bytes=buffer, send_buffer_bytes=buffer)
    clock = SystemClock()
    listener = Listener(
        "BENCH", "127.0.0.1", 0, handler, network=SocketNetwork(), clock=clock, settings=settings
    )
    listener.start()
    return listener.port, listener.close


class PlainStream(asyncio.BufferedProtocol):
    """The least that a stream needs: no parked answers, no limits, small requests only."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.memory = memoryview(bytearray(65536))
        self.end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self.memory[self.end :]

    def buffer_updated(self, nbytes: int) -> None:
        self.end += nbytes
        memory = self.memory
        start = 0
        answers: list[Part] = []
        while self.end - start >= 4:
            stop = start + 4 + int.from_bytes(memory[start : start + 4], "big")
            if stop > self.end:
                break
            answers += self.handler(None, memory[start + 4 : stop])  # type: ignore[arg-type]
            start = stop
        rest = self.end - start
        if rest and start:
            memory[:rest] = memory[start : self.end]
        self.end = rest
        if len(answers) == 1:
            self.transport.write(answers[0])  # type: ignore[attr-defined]
        else:
            self.transport.writelines(answers)  # type: ignore[attr-defined]


async def plain_stream(handler: Handler, buffer: int) -> tuple[int, Callable[[], Awaitable[None]]]:
    return await _stream(lambda: PlainStream(handler), buffer)


async def stream_adapter(
    handler: Handler, buffer: int
) -> tuple[int, Callable[[], Awaitable[None]]]:
    loop = asyncio.get_running_loop()
    pool = BufferPool()
    limits = ConnectionLimits()
    return await _stream(
        lambda: StreamTransport(
            loop, ServerConnection(handler, pool=pool, log_limiter=LIMITER, limits=limits)
        ),
        buffer,
    )


async def _stream(
    factory: Callable[[], asyncio.BufferedProtocol], buffer: int
) -> tuple[int, Callable[[], Awaitable[None]]]:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    if buffer != -1:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
    server = await asyncio.get_running_loop().create_server(factory, sock=sock)

    async def close() -> None:
        server.close()

    return sock.getsockname()[1], close


Start = Callable[[Handler, int], Awaitable[tuple[int, Callable[[], Awaitable[None]]]]]


async def measure(
    start: Start, handler: Handler, buffer: int, load: Load, core: int
) -> tuple[float, float]:
    """CPU and wall seconds of this process while a client runs the load."""
    port, close = await start(handler, buffer)
    client = multiprocessing.get_context("fork").Process(
        target=exchange,
        args=(port, load.request, load.answer_size, load.count, load.depth, core),
    )
    client.start()
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    loop.add_reader(client.sentinel, lambda: None if ended.done() else ended.set_result(None))
    cpu, wall = time.process_time(), time.perf_counter()
    await ended
    figures = time.process_time() - cpu, time.perf_counter() - wall
    loop.remove_reader(client.sentinel)
    client.join()
    await close()
    return figures


def compare(
    title: str,
    unit: str,
    per: float,
    variants: dict[str, tuple[Start, Handler, int, Load]],
    rounds: int,
) -> None:
    print(f"\n{f'{title}, CPU {unit}':52}one core       two cores")
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for core in (CORES[0], CORES[-1]):
            for name, (start, handler, buffer, load) in variants.items():
                cpu, _ = uvloop.run(measure(start, handler, buffer, load, core))
                found.setdefault((name, core), []).append(cpu / per)
    for name in variants:
        line = f"  {name:48}"
        for core in (CORES[0], CORES[-1]):
            figures = sorted(found[name, core])
            line += f"  {statistics.median(figures):6.2f} ({figures[len(figures) // 4]:.2f})"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--requests", type=int, default=8_000)
    parser.add_argument("--only", choices=["large", "small", "requests", "threshold"], default="")
    options = parser.parse_args()
    os.sched_setaffinity(0, {CORES[0]})
    with tempfile.TemporaryFile() as temporary:
        for _ in range(FILE_SIZE >> 20):
            temporary.write(os.urandom(1 << 20))
        temporary.flush()
        file = File("temporary", temporary.fileno())
        if options.only in ("", "large"):
            large_answers(file, options)
        if options.only in ("", "small"):
            small_requests(options)
        if options.only in ("", "requests"):
            large_requests(options)
        if options.only in ("", "threshold"):
            threshold(file, options)


def large_answers(file: File, options: argparse.Namespace) -> None:
    for size in (1024 * 1024, 64 * 1024):
        count = options.megabytes * 1024 * 1024 // size
        load = Load(REQUEST, HEADER + size, count, 1)
        variants: dict[str, tuple[Start, Handler, int, Load]] = {}
        for buffer in (KAFKA_BUFFER, -1):
            sockets = "Kafka's socket buffers" if buffer != -1 else "the system's"
            for how in ("sendfile", "mmap", "pread"):
                handler = from_file(how, file, size)
                variants[f"own transport, {how}, {sockets}"] = (
                    own_transport,
                    handler,
                    buffer,
                    load,
                )
            for how in ("mmap", "pread"):
                handler = from_file(how, file, size)
                variants[f"uvloop stream, {how}, {sockets}"] = (plain_stream, handler, buffer, load)
        gigabytes = count * size / 1e9
        compare(f"Answers of {size // 1024} KiB", "s/GB", gigabytes, variants, options.rounds)


def threshold(file: File, options: argparse.Namespace) -> None:
    # Every slice by sendfile, to see from where on that pays.
    if not transport.__file__.endswith(".py"):
        print(f"\nthreshold: needs {PLAIN_PYTHON}=1, machine code has the limit built in")
        return
    transport.READ_LIMIT = 0  # type: ignore[misc]
    for size in (8192, 16384, 32768, 65536, 131072, 262144):
        count = options.requests // 2
        load = Load(REQUEST, HEADER + size, count, 1)
        handlers = {how: from_file(how, file, size) for how in ("sendfile", "pread")}
        compare(
            f"Answers of {size // 1024} KiB",
            "µs",
            count / 1e6,
            {
                how: (own_transport, handler, KAFKA_BUFFER, load)
                for how, handler in handlers.items()
            },
            options.rounds,
        )


def small_requests(options: argparse.Namespace) -> None:
    for depth in (1, 16):
        load = Load(REQUEST, len(RESPONSE), options.requests, depth)
        compare(
            f"Small requests, {depth} in flight",
            "µs",
            load.count / 1e6,
            {
                "own transport, connection": (own_transport, small, KAFKA_BUFFER, load),
                "uvloop stream, bare protocol": (plain_stream, small, KAFKA_BUFFER, load),
                "uvloop stream, connection": (stream_adapter, small, KAFKA_BUFFER, load),
            },
            options.rounds,
        )


def large_requests(options: argparse.Namespace) -> None:
    for size in (1024 * 1024, 16 * 1024):
        count = options.megabytes * 1024 * 1024 // size
        load = Load(struct.pack(">i", size) + bytes(size), len(RESPONSE), count, 5)
        compare(
            f"Requests of {size // 1024} KiB, 5 in flight",
            "s/GB",
            count * size / 1e9,
            {
                "own transport, Kafka's socket buffers": (own_transport, small, KAFKA_BUFFER, load),
                "own transport, 1 MiB socket buffers": (own_transport, small, 1 << 20, load),
                "own transport, the system's": (own_transport, small, -1, load),
                "uvloop stream, connection, Kafka's": (stream_adapter, small, KAFKA_BUFFER, load),
            },
            options.rounds,
        )


if __name__ == "__main__":
    main()
