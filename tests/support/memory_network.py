"""Connections without a socket: the test, or a client of its own making, plays the peer."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from moldau.machine.disk import FileSlice
from moldau.machine.network import Part, Receiver, Transport


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def frames_of(data: bytes) -> list[bytes]:
    """The bodies of the frames in ``data``, which must end with a whole one."""
    bodies = []
    position = 0
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        bodies.append(data[position + 4 : position + 4 + size])
        assert len(bodies[-1]) == size
        position += 4 + size
    return bodies


@dataclass
class MemoryTransport:
    """A transport without a socket: the test plays the peer and the event loop."""

    receiver: Receiver
    peer: str = "10.0.0.7:5123"
    peer_host: str = "10.0.0.7"
    writes: list[list[Part]] = field(default_factory=list)
    reading: bool = True
    is_closing: bool = False
    aborted: bool = False
    scheduled: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.receiver.connection_made(self)

    def write(self, parts: Sequence[Part]) -> None:
        self.writes.append(list(parts))

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = not self.is_closing

    def close(self) -> None:
        self.is_closing = True
        self.reading = False

    def abort(self) -> None:
        self.aborted = True
        self.close()

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.scheduled.append(callback)

    # What the test does

    def receive(self, data: bytes) -> None:
        """Bytes come from the peer, all of which the receiver must take."""
        while data:
            assert self.reading
            view = self.receiver.get_buffer(-1)
            nbytes = min(len(view), len(data))
            view[:nbytes] = data[:nbytes]
            self.receiver.buffer_updated(nbytes)
            data = data[nbytes:]

    def run_soon(self) -> None:
        """One iteration of the loop."""
        scheduled, self.scheduled = self.scheduled, []
        for callback in scheduled:
            callback()

    def run(self) -> None:
        while self.scheduled:
            self.run_soon()

    @property
    def sent(self) -> bytes:
        return b"".join(as_bytes(part) for parts in self.writes for part in parts)

    @property
    def answers(self) -> list[bytes]:
        return frames_of(self.sent)


def as_bytes(part: Part) -> bytes:
    return part.read() if isinstance(part, FileSlice) else bytes(part)


class LoopTransport(MemoryTransport):
    """The same on an event loop: answers go to a stream, and what is put off runs in a later turn.

    The test's end of the connection writes with ``receive``, which is buffered here while the
    receiver wants no more.
    """

    def __post_init__(self) -> None:
        self.stream = asyncio.StreamReader()
        self._unread = bytearray()
        self._ended = False
        super().__post_init__()

    def write(self, parts: Sequence[Part]) -> None:
        for part in parts:
            self.stream.feed_data(as_bytes(part))

    def call_soon(self, callback: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_soon(callback)

    def receive(self, data: bytes) -> None:
        self._unread += data
        while self._unread and self.reading:
            data = bytes(self._unread)
            self._unread.clear()
            view = self.receiver.get_buffer(-1)
            nbytes = min(len(view), len(data))
            view[:nbytes] = data[:nbytes]
            self._unread += data[nbytes:]
            self.receiver.buffer_updated(nbytes)

    def resume_reading(self) -> None:
        if not self.reading and not self.is_closing:
            self.reading = True
            self.call_soon(lambda: self.receive(b""))

    def close(self) -> None:
        super().close()
        if not self._ended:
            self._ended = True
            self.stream.feed_eof()
            self.call_soon(lambda: self.receiver.connection_lost(None))


@dataclass
class MemoryIncoming:
    """A peer that waits to be let in."""

    peer: str = "10.0.0.7:5123"
    peer_host: str = "10.0.0.7"
    transport: LoopTransport | None = None

    def open(self, receiver: Receiver) -> Transport:
        self.transport = LoopTransport(receiver, self.peer, self.peer_host)
        return self.transport

    def refuse(self) -> None:
        self.transport = None


class MemoryAcceptor:
    def __init__(self, port: int) -> None:
        self.port = port
        self._waiting: deque[MemoryIncoming] = deque()
        self._on_waiting: Callable[[], object] | None = None

    def listen(self, backlog: int, on_waiting: Callable[[], object]) -> None:
        self._on_waiting = on_waiting

    def accept(self) -> MemoryIncoming | None:
        return self._waiting.popleft() if self._waiting else None

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None:
        self._on_waiting = None

    def connect(self) -> LoopTransport:
        """What a peer does; ConnectionRefusedError if it is not let in."""
        incoming = MemoryIncoming()
        if self._on_waiting is not None:
            self._waiting.append(incoming)
            self._on_waiting()
        if incoming.transport is None:
            raise ConnectionRefusedError
        return incoming.transport


class MemoryNetwork:
    """One machine's ports, by number; nothing is dialled."""

    def __init__(self) -> None:
        self.acceptors: dict[int, MemoryAcceptor] = {}

    def bind(self, host: str, port: int, **_buffers: int) -> MemoryAcceptor:
        acceptor = self.acceptors[port] = MemoryAcceptor(port)
        return acceptor

    async def connect(self, host: str, port: int, receiver: Receiver, **_how: object) -> Transport:
        raise ConnectionRefusedError(f"{host}:{port}")

    def host_name(self) -> str:
        return "memory"

    async def reachable_host(self) -> str:
        return "memory"
