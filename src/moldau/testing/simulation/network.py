"""The network of a world: hosts that find each other by name, and everything that goes wrong."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Final
from zlib import crc32

from moldau.machine import Receiver, Transport
from moldau.testing.simulation.acceptor import SimulatedAcceptor
from moldau.testing.simulation.connection import Segment, SimulatedEnd
from moldau.testing.simulation.host import Host
from moldau.testing.simulation.links import Quality
from moldau.testing.simulation.loop import SimulatedLoop
from moldau.testing.simulation.process import Process
from moldau.testing.simulation.recorder import Recorder

if TYPE_CHECKING:
    from ssl import SSLContext

_FIRST_RETRY: Final = 1.0
"""A handshake that gets no answer is begun again after so many seconds, then after twice as many,
and so on."""
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
        self._hosts: dict[str, Host] = {}
        self._ports = count(_FIRST_FREE_PORT)

    def network_of(self, host: str, process: Process) -> HostNetwork:
        """Returns the network as a process on a host sees it."""
        return HostNetwork(self, self._hosts[host], process)

    # Hosts ---------------------------------------------------------------------------------------

    def add_host(self, name: str) -> None:
        self._hosts[name] = Host(name)

    def power_on(self, name: str) -> None:
        """What is sent to the host arrives again."""
        self._switch(self._hosts[name], up=True)

    def power_off(self, name: str) -> None:
        """The connections of a host are gone without a word."""
        host = self._hosts[name]
        self._switch(host, up=False)
        for end in host.ends():
            end.lose_power()

    def _switch(self, host: Host, *, up: bool) -> None:
        if host.is_up != up:
            host.is_up = up
            for other in self._hosts.values():
                other.way_to(host).look_again()

    # Trouble -------------------------------------------------------------------------------------

    def cut(self, source: str, target: str, *, both_ways: bool = True) -> None:
        """Nothing gets from one host to the other any more."""
        first, second = self._hosts[source], self._hosts[target]
        first.way_to(second).cut()
        if both_ways:
            second.way_to(first).cut()
        self.recorder.record(source, "cut off", "from" if both_ways else "on the way to", target)

    def slow(self, source: str, target: str, seconds: float) -> None:
        """What one host sends to the other takes so much longer, until all is healed."""
        self._hosts[source].way_to(self._hosts[target]).detour = seconds
        self.recorder.record(source, "slow", "on the way to", target, f"by {seconds:.3f} s")

    def heal(self) -> None:
        """Everybody reaches everybody; what was lost on the way is sent again."""
        self.recorder.record("network", "healed")
        for host in self._hosts.values():
            for way in host.ways:
                way.heal()

    def reset_connections(self, first: str, second: str) -> None:
        """Break every connection between two hosts."""
        self.recorder.record(first, "reset", "connections with", second)
        for end in self._hosts[first].ends():
            if end.peer_host == second:
                end.reset()
                end.other.reset()

    def is_heard(self, host: str) -> bool:
        """Returns whether something may still come from a host."""
        return bool(self._hosts[host].ends())

    def delivered(self, end: SimulatedEnd, segment: Segment) -> None:
        """Something has got through."""
        record = self.recorder.record
        if isinstance(segment, bytes):
            record(end.host.name, "→", end.peer_host, len(segment), crc32(segment))
            if self.recorder.keeps:
                for words in end.conversation.hear(segment, from_client=end.is_client):
                    self.recorder.tell(end.host.name, "says", f"to {end.peer}:", words)
        else:
            record(end.host.name, "→", end.peer_host, segment.name)

    # Connecting ----------------------------------------------------------------------------------

    def bind(self, host: Host, port: int, process: Process) -> SimulatedAcceptor:
        return SimulatedAcceptor(self.loop, host, port or next(self._ports), process)

    async def connect(
        self, source: Host, process: Process, host: str, port: int, receiver: Receiver
    ) -> Transport:
        """Try until the peer answers one way or the other."""
        target = self._hosts.get(host)
        if target is None:
            raise ConnectionError(f"cannot find the address of {host}")
        there, back = source.way_to(target), target.way_to(source)
        retry = _FIRST_RETRY
        while True:
            await asyncio.sleep(2 * self.quality.delay(self.random))
            if there.leads and back.leads:
                acceptor = target.listening.get(port)
                if acceptor is None:
                    raise ConnectionError(f"cannot connect to {host}:{port}: Connection refused")
                if acceptor.takes_more:
                    break
            await asyncio.sleep(retry)
            retry *= 2
        ours = SimulatedEnd(self, source, process, target, f"{host}:{port}")
        peer = f"{source.name}:{next(self._ports)}"
        theirs = SimulatedEnd(self, target, acceptor.process, source, peer)
        ours.other, theirs.other = theirs, ours
        theirs.conversation = ours.conversation
        theirs.is_client = False
        self.recorder.record(source.name, "connected", "to", f"{host}:{port}")
        ours.attach(receiver)
        acceptor.came(theirs)
        return ours


class HostNetwork:
    """The ``Network`` of one process."""

    def __init__(self, network: SimulatedNetwork, host: Host, process: Process) -> None:
        self._network = network
        self._host = host
        self._process = process

    def bind(
        self, host: str, port: int, *, receive_buffer_bytes: int = -1, send_buffer_bytes: int = -1
    ) -> SimulatedAcceptor:
        del host, receive_buffer_bytes, send_buffer_bytes  # every host has one address
        self._process.check_alive()
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
        return self._host.name

    async def reachable_host(self) -> str:
        return self._host.name
