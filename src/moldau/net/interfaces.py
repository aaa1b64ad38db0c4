"""What the pieces of this package see of each other.

A *transport* moves bytes (a socket of our own, an asyncio stream, the memory of a simulation); a
*receiver* (the broker's connection, a client's channel) makes frames of them. The receiver has the
shape of ``asyncio.BufferedProtocol``: it lends the memory to read into, so that a request is never
copied on its way in. Answers go out as *parts*: bytes, or slices of a file that the transport may
hand to the kernel untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias


class ReadableFile(Protocol):
    """The part of a log file that is needed to send a slice of it."""

    def fileno(self) -> int | None:
        """The descriptor for ``sendfile``, or None when the file is not one of the operating
        system's.
        """
        ...

    def pread(self, size: int, position: int) -> bytes: ...


class FileSlice(Protocol):
    """``size`` bytes of ``file`` from ``position`` on. Holding it keeps the file readable."""

    @property
    def file(self) -> ReadableFile: ...
    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...


Buffer: TypeAlias = bytes | bytearray | memoryview
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
