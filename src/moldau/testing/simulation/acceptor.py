"""An address that a simulated process listens on, and the connections that wait there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from errno import EADDRINUSE, EBADF
from os import strerror

from moldau.machine import Receiver, Transport
from moldau.testing.simulation.connection import SimulatedEnd
from moldau.testing.simulation.host import Host
from moldau.testing.simulation.loop import SimulatedLoop
from moldau.testing.simulation.process import Process


class WaitingConnection:
    """A connection that the system has accepted and the process has not."""

    def __init__(self, end: SimulatedEnd) -> None:
        self.peer = end.peer
        self.peer_host = end.peer_host
        self._end = end

    def open(self, receiver: Receiver) -> Transport:
        # A peer that has gone meanwhile is found out by reading, as on Linux.
        self._end.attach(receiver)
        return self._end

    def refuse(self) -> None:
        self._end.abort()


class SimulatedAcceptor:
    def __init__(self, loop: SimulatedLoop, host: Host, port: int, process: Process) -> None:
        check_free(host, port)
        self.port = port
        self.process = process
        self._loop = loop
        self._host = host
        self._backlog = 0
        self._on_waiting: Callable[[], object] | None = None
        self._context: Context
        self._waiting: deque[SimulatedEnd] = deque()
        self._paused = False
        self._calling_soon = False
        self._closed = False
        process.on_end[self.close] = None

    @property
    def takes_more(self) -> bool:
        """Whether the system lets another peer wait; as Linux, one more than the backlog."""
        return len(self._waiting) <= self._backlog

    def listen(self, backlog: int, on_waiting: Callable[[], object]) -> None:
        self.process.check_alive()
        check_free(self._host, self.port)
        self._host.listening[self.port] = self
        self._backlog = backlog
        self._on_waiting = on_waiting
        self._context = copy_context()

    def accept(self) -> WaitingConnection | None:
        self.process.check_alive()
        if self._closed:
            raise OSError(EBADF, strerror(EBADF))
        return WaitingConnection(self._waiting.popleft()) if self._waiting else None

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._call_soon()

    def close(self) -> None:
        if self._host.listening.get(self.port) is self:
            del self._host.listening[self.port]
        self._closed = True
        self._on_waiting = None
        self.process.on_end.pop(self.close, None)
        while self._waiting:
            self._waiting.popleft().refuse()

    def came(self, end: SimulatedEnd) -> None:
        """A peer has connected."""
        self._waiting.append(end)
        self._call_soon()

    def _call_soon(self) -> None:
        if self._waiting and not self._paused and not self._calling_soon:
            self._calling_soon = True
            self._loop.call_soon(self._call, context=self._context)

    def _call(self) -> None:
        self._calling_soon = False
        if self._on_waiting is not None and not self._paused:
            try:
                self._on_waiting()
            finally:
                self._call_soon()


def check_free(host: Host, port: int) -> None:
    """Raises OSError if somebody listens there."""
    if port in host.listening:
        raise OSError(EADDRINUSE, f"cannot listen on {host.name}:{port}: {strerror(EADDRINUSE)}")
