"""The network of a world: hosts that find each other by name, and everything that goes wrong."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Final

from moldau.machine import Receiver, Transport
from moldau.testing.simulation.acceptor import SimulatedAcceptor
from moldau.testing.simulation.connection import EndState, Segment, SimulatedEnd
from moldau.testing.simulation.links import Links, Quality
from moldau.testing.simulation.loop import SimulatedLoop
from moldau.testing.simulation.process import Process
from moldau.testing.simulation.recorder import Recorder

if TYPE_CHECKING:
    from ssl import SSLContext

_RETRY: Final = 1.0
"""A handshake that gets no answer is begun again after so many seconds."""
_FIRST_FREE_PORT: Final = 32_768


class SimulatedNetwork:
    """Shared by all hosts of a world."""

    def __init__(self, loop: SimulatedLoop, random: Random, recorder: Recorder) -> None:
        self.loop = loop
        self.world = copy_context()
        """In which things happen that no process does."""
        self.random = random
        self.recorder = recorder
        self.quality = Quality()
        self.links = Links()
        self._up: dict[str, bool] = {}
        self._acceptors: dict[tuple[str, int], SimulatedAcceptor] = {}
        self._ends: dict[SimulatedEnd, None] = {}
        self._held: dict[SimulatedEnd, None] = {}
        self._ports = count(_FIRST_FREE_PORT)

    def network_of(self, host: str, process: Process) -> HostNetwork:
        """Returns the network as a process on a host sees it."""
        return HostNetwork(self, host, process)

    # Hosts ---------------------------------------------------------------------------------------

    def host_is(self, host: str, *, up: bool) -> None:
        self._up[host] = up

    def is_up(self, host: str) -> bool:
        return self._up.get(host, False)

    def power_lost(self, host: str) -> None:
        """The connections of a host are gone without a word."""
        self._up[host] = False
        for end in self._ends_of(host):
            end.forget()
            del self._ends[end]

    # Trouble -------------------------------------------------------------------------------------

    def cut(self, source: str, target: str, *, both_ways: bool = True) -> None:
        """Nothing gets from one host to the other any more."""
        self.links.cut(source, target)
        if both_ways:
            self.links.cut(target, source)
        self.recorder.record(source, "cut off", "from" if both_ways else "on the way to", target)

    def heal(self) -> None:
        """Everybody reaches everybody; what was lost on the way is sent again."""
        self.links.heal_all()
        self.recorder.record("network", "healed")
        held, self._held = self._held, {}
        for end in held:
            end.send_again()

    def reset_connections(self, first: str, second: str) -> None:
        """Break every connection between two hosts."""
        self.recorder.record(first, "reset", "connections with", second)
        for end in self._ends_of(first):
            if end.other.host == second:
                end.reset()
                end.other.reset()

    def hold(self, end: SimulatedEnd) -> None:
        """What this end sends does not get through for now."""
        self._held[end] = None

    def delivered(self, end: SimulatedEnd, segment: Segment) -> None:
        """Something has got through."""
        size = len(segment) if isinstance(segment, bytes) else segment.name
        self.recorder.record(end.host, "→", end.other.host, size)
        if self.recorder.keeps and isinstance(segment, bytes):
            for words in end.conversation.hear(segment, from_client=end.is_client):
                self.recorder.tell(end.host, "says", f"to {end.peer}:", words)

    def _ends_of(self, host: str) -> list[SimulatedEnd]:
        self._ends = {
            end: None
            for end in self._ends
            if end.state is not EndState.CLOSED or end.has_segments_under_way
        }
        return [end for end in self._ends if end.host == host]

    # Connecting ----------------------------------------------------------------------------------

    def bind(self, host: str, port: int, process: Process) -> SimulatedAcceptor:
        port = port or next(self._ports)
        if (host, port) in self._acceptors:
            raise OSError(98, f"cannot listen on {host}:{port}: Address already in use")
        acceptor = self._acceptors[host, port] = SimulatedAcceptor(self, host, port, process)
        return acceptor

    def forget_acceptor(self, host: str, port: int) -> None:
        self._acceptors.pop((host, port), None)

    async def connect(
        self, source: str, process: Process, host: str, port: int, receiver: Receiver
    ) -> Transport:
        """Try until the peer answers one way or the other."""
        if host not in self._up:
            raise ConnectionError(f"cannot find the address of {host}")
        while True:
            await asyncio.sleep(2 * self.quality.delay(self.random))
            acceptor = self._acceptors.get((host, port))
            reaches = self.links.leads(source, host) and self.links.leads(host, source)
            if reaches and self.is_up(host):
                if acceptor is None or acceptor.process.has_ended:
                    raise ConnectionRefusedError(
                        111, f"cannot connect to {host}:{port}: Connection refused"
                    )
                if acceptor.takes_more:
                    break
            await asyncio.sleep(_RETRY)
        name = f"{source}:{next(self._ports)}"
        ours = SimulatedEnd(self, source, process, f"{host}:{port}")
        theirs = SimulatedEnd(self, host, acceptor.process, name)
        ours.other, theirs.other = theirs, ours
        theirs.conversation = ours.conversation
        theirs.is_client = False
        self._ends[ours] = self._ends[theirs] = None
        self.recorder.record(source, "connected", "to", f"{host}:{port}")
        ours.attach(receiver)
        acceptor.came(theirs)
        return ours


class HostNetwork:
    """The ``Network`` of one process."""

    def __init__(self, network: SimulatedNetwork, host: str, process: Process) -> None:
        self._network = network
        self._host = host
        self._process = process

    def bind(
        self, host: str, port: int, *, receive_buffer_bytes: int = -1, send_buffer_bytes: int = -1
    ) -> SimulatedAcceptor:
        del host, receive_buffer_bytes, send_buffer_bytes  # every host has one address
        return self._network.bind(self._host, port, self._process)

    async def connect(
        self,
        host: str,
        port: int,
        receiver: Receiver,
        *,
        within: float,
        receive_buffer_bytes: int = -1,
        send_buffer_bytes: int = -1,
        tls: SSLContext | None = None,
    ) -> Transport:
        del receive_buffer_bytes, send_buffer_bytes
        if tls is not None:
            raise ConnectionError("there is no TLS in a simulation")
        try:
            async with asyncio.timeout(within):
                return await self._network.connect(self._host, self._process, host, port, receiver)
        except TimeoutError:
            raise TimeoutError(f"no connection to {host}:{port} within {within:g} s") from None

    def host_name(self) -> str:
        return self._host

    async def reachable_host(self) -> str:
        return self._host
