"""The network as an interface: transports, and where they come from.

A *transport* moves bytes (a socket of our own, an asyncio stream, the memory of a simulation); a
*receiver* (the broker's connection, a client's channel) makes frames of them. The receiver has the
shape of ``asyncio.BufferedProtocol``: it lends the memory to read into, so that a request is never
copied on its way in. Answers go out as *parts*: bytes, or slices of a file that the transport may
hand to the kernel untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from moldau.machine.disk import Buffer, FileSlice

if TYPE_CHECKING:
    from ssl import SSLContext

Part: TypeAlias = Buffer | FileSlice


class Transport(Protocol):
    """A duplex byte stream to one peer. Every method is safe at any time, also after the end."""

    @property
    def peer(self) -> str:
        """``host:port`` of the other side, for log lines."""
        ...

    @property
    def peer_host(self) -> str: ...

    @property
    def is_closing(self) -> bool: ...

    def write(self, parts: Sequence[Part]) -> None:
        """Send now what can be sent, queue the rest. The parts must not change any more."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """Stop reading, send what is queued, then close."""
        ...

    def abort(self) -> None:
        """Close at once; what is queued is dropped."""
        ...

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Run ``callback`` from the event loop, after whatever else is ready now."""
        ...


class Receiver(Protocol):
    """What a transport drives."""

    def connection_made(self, transport: Transport) -> None: ...

    def get_buffer(self, sizehint: int) -> memoryview:
        """Memory to read into. It is filled, and ``buffer_updated`` called, before anything else
        runs.
        """
        ...

    def buffer_updated(self, nbytes: int) -> None: ...

    def eof_received(self) -> bool:
        """The peer will send no more. True keeps the transport open for answers."""
        ...

    def pause_writing(self) -> None:
        """More is queued than the peer takes: produce no more answers."""
        ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, error: Exception | None) -> None:
        """The last call. ``error`` is None after an orderly end."""
        ...


class Incoming(Protocol):
    """A connection that waits to be let in."""

    @property
    def peer(self) -> str:
        """``host:port`` of the other side."""
        ...

    @property
    def peer_host(self) -> str: ...

    def open(self, receiver: Receiver) -> Transport:
        """Let it in; OSError if the peer has gone meanwhile."""
        ...

    def refuse(self) -> None: ...


class Acceptor(Protocol):
    """An address that this process has reserved."""

    @property
    def port(self) -> int:
        """The real one where 0 was asked for."""
        ...

    def listen(self, backlog: int, on_waiting: Callable[[], object]) -> None:
        """Let peers come. ``on_waiting`` is called from the event loop as long as some wait, unless
        it is paused. Raises OSError when somebody else listens on the same address.
        """
        ...

    def accept(self) -> Incoming | None:
        """Returns the next connection, None if none waits. An OSError of lacking resources is
        about this process, any other about one peer that has gone already.
        """
        ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


class Network(Protocol):
    """Where connections come from."""

    def bind(
        self, host: str, port: int, *, receive_buffer_bytes: int = -1, send_buffer_bytes: int = -1
    ) -> Acceptor:
        """Reserve an address, every one of the machine if ``host`` is empty; OSError, with a
        sentence, when that fails. Buffer sizes of -1 are left to the system.
        """
        ...

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
        """Connect to a peer; ConnectionError or TimeoutError, with a sentence, when that fails,
        ``TlsHandshakeError`` when there is no TLS on it.
        """
        ...

    def host_name(self) -> str:
        """Returns what this machine calls itself."""
        ...

    async def reachable_host(self) -> str:
        """Returns a host under which clients reach this machine."""
        ...
