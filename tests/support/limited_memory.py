"""Connections without sockets that share a little memory."""

from __future__ import annotations

import logging

from tests.support.connections import echo
from tests.support.memory_network import MemoryTransport, frame

from moldau.net.connection import Blocked, Handler, ServerConnection
from moldau.net.frames import SCRATCH_SIZE, BufferPool
from moldau.net.log_limiter import LogLimiter
from moldau.net.memory_pool import MemoryPool
from moldau.testing.clock import ManualClock


class Peer(MemoryTransport):
    """A peer and the broker's connection to it."""

    receiver: ServerConnection
    unread: bytes = b""
    """What an eager one sends as soon as it is read."""

    def send(self, data: bytes) -> bytes:
        """Send as much as is read; returns the rest."""
        while data and self.reading:
            view = self.receiver.get_buffer(-1)
            nbytes = min(len(view), len(data))
            assert nbytes, "an empty buffer looks like the end of the stream"
            view[:nbytes] = data[:nbytes]
            data = data[nbytes:]
            self.receiver.buffer_updated(nbytes)
        return data

    @property
    def waits(self) -> bool:
        return bool(self.receiver.blocked & Blocked.MEMORY)

    @property
    def held(self) -> int:
        return self.receiver._reader.held


class EagerPeer(Peer):
    """Its bytes are there at once when it is read again."""

    def resume_reading(self) -> None:
        super().resume_reading()
        self.unread = self.send(self.unread)


class Broker:
    """Connections with one pool of memory, and time that the test moves."""

    def __init__(
        self, size: int, *, handler: Handler = echo, scratch_size: int = SCRATCH_SIZE
    ) -> None:
        self.clock = ManualClock()
        self.memory = MemoryPool(size, self.clock)
        self.pool = BufferPool(memory=self.memory, scratch_size=scratch_size, keep_bytes=0)
        self.peers: list[Peer] = []
        self._handler = handler
        self._log = LogLimiter(logging.getLogger("moldau.net.connection"), self.clock.monotonic)

    def connect(self, kind: type[Peer] = Peer) -> Peer:
        connection = ServerConnection(self._handler, pool=self.pool, log_limiter=self._log)
        self.peers.append(kind(connection, peer=f"10.0.0.7:{len(self.peers)}"))
        return self.peers[-1]

    def run(self) -> None:
        """Let everything that can go on go on."""
        while any(peer.scheduled for peer in self.peers):
            for peer in self.peers:
                peer.run_soon()

    def pass_time(self, seconds: int) -> None:
        """A second at a time, with what it brings about."""
        for _ in range(seconds):
            self.clock.advance(1)
            self.run()

    def filled(self) -> Peer:
        """A peer whose unfinished request takes all the memory, and more."""
        peer = self.connect()
        assert peer.send(frame(bytes(10 * self.memory.size))[: self.memory.size]) == b""
        assert self.memory.used >= self.memory.size
        assert not peer.waits
        return peer
