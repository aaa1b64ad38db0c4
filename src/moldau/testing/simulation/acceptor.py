"""An address that a simulated process listens on, and the connections that wait there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.machine import Receiver, Transport
from moldau.testing.simulation.connection import EndState, SimulatedEnd
from moldau.testing.simulation.process import Process

if TYPE_CHECKING:
    from moldau.testing.simulation.network import SimulatedNetwork


class WaitingConnection:
    """A connection that the system has accepted and the process has not."""

    def __init__(self, end: SimulatedEnd) -> None:
        self.end = end
        self.peer = end.peer
        self.peer_host = end.peer_host

    def open(self, receiver: Receiver) -> Transport:
        if self.end.state is not EndState.OPEN:
            raise ConnectionResetError(104, "Connection reset by peer")
        self.end.attach(receiver)
        return self.end

    def refuse(self) -> None:
        self.end.abort()


class SimulatedAcceptor:
    def __init__(self, network: SimulatedNetwork, host: str, port: int, process: Process) -> None:
        self.port = port
        self.process = process
        self._network = network
        self._host = host
        self._backlog = 0
        self._on_waiting: Callable[[], object] | None = None
        self._waiting: deque[WaitingConnection] = deque()
        self._paused = False
        self._told = False
        process.on_end[self.close] = None

    @property
    def takes_more(self) -> bool:
        return self._on_waiting is not None and len(self._waiting) <= self._backlog

    def listen(self, backlog: int, on_waiting: Callable[[], object]) -> None:
        self._backlog = backlog
        self._on_waiting = on_waiting

    def accept(self) -> WaitingConnection | None:
        return self._waiting.popleft() if self._waiting else None

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._tell()

    def close(self) -> None:
        self._on_waiting = None
        self.process.on_end.pop(self.close, None)
        self._network.forget_acceptor(self._host, self.port)
        while self._waiting:
            self._waiting.popleft().end.process_ended()

    def came(self, end: SimulatedEnd) -> None:
        """A peer has connected."""
        self._waiting.append(WaitingConnection(end))
        self._tell()

    def _tell(self) -> None:
        if self._waiting and not self._paused and not self._told and self._on_waiting is not None:
            self._told = True
            self._network.loop.call_soon(self._call, context=self.process.context)

    def _call(self) -> None:
        self._told = False
        if self._on_waiting is not None and not self._paused:
            self._on_waiting()
            self._tell()
