"""The same seam over an asyncio stream, for where bytes are not a plain socket's: TLS.

File slices are read in chunks as the stream takes them, so a large answer costs little memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, cast

from moldau.machine.network import Part, Receiver
from moldau.machine.outgoing import Outgoing, read_exactly
from moldau.machine.real.sockets.transport import HIGH_WATER, LOW_WATER, READ_CHUNK, format_address

# What the asyncio transport may buffer itself; the rest waits here, file slices unread.
_STREAM_HIGH_WATER: Final = 128 * 1024


class StreamTransport(asyncio.BufferedProtocol):
    """An asyncio protocol on one side, the transport of a receiver on the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receiver: Receiver) -> None:
        self.peer = self.peer_host = "nobody"
        self._loop = loop
        self._receiver = receiver
        self._stream: asyncio.Transport
        self._outgoing = Outgoing()
        self._stream_full = False
        self._writing_paused = False
        self._closing = False
        self._lost = False
        self._is_tls = False
        self._error: OSError | None = None
        # Straight through: the stream reads into the receiver's memory.
        self.get_buffer = receiver.get_buffer  # type: ignore[method-assign]
        self.buffer_updated = receiver.buffer_updated  # type: ignore[method-assign]

    # What the stream calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stream = cast("asyncio.Transport", transport)
        self._stream.set_write_buffer_limits(high=_STREAM_HIGH_WATER)
        self._is_tls = transport.get_extra_info("ssl_object") is not None
        self.peer_host, self.peer = format_address(transport.get_extra_info("peername"))
        self._receiver.connection_made(self)

    def eof_received(self) -> bool:
        if self._receiver.eof_received():
            return True
        # False would close the stream, and with it what waits here. TLS closes it anyway.
        self.close()
        return not self._is_tls

    def pause_writing(self) -> None:
        self._stream_full = True

    def resume_writing(self) -> None:
        self._stream_full = False
        self._pump()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = self._closing = True
        self._outgoing.clear()
        self._receiver.connection_lost(self._error or error)

    # What the receiver calls

    @property
    def is_closing(self) -> bool:
        return self._closing

    @property
    def queued_bytes(self) -> int:
        return self._outgoing.size + self._stream.get_write_buffer_size()

    def write(self, parts: Sequence[Part]) -> None:
        if self._lost:
            return
        try:
            self._outgoing.extend(parts)
        except OSError as error:
            self._fail(error)
            return
        self._pump()

    def pause_reading(self) -> None:
        if not self._stream.is_closing():
            self._stream.pause_reading()

    def resume_reading(self) -> None:
        if not self._closing:
            self._stream.resume_reading()

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self.pause_reading()
        self._pump()

    def abort(self) -> None:
        self._closing = True
        self._outgoing.clear()
        self._stream.abort()

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon(callback)

    # Between the two

    def _pump(self) -> None:
        """Feed the stream until it is full, then see to back-pressure and the end."""
        outgoing = self._outgoing
        try:
            while outgoing.size and not self._stream_full:
                head = outgoing.head()
                if head is None:
                    data = b"".join(outgoing.buffers()[0])
                else:
                    size = min(head.remaining, READ_CHUNK)
                    data = read_exactly(head.file, size, head.position)
                outgoing.consume(len(data))
                self._stream.write(data)
        except OSError as error:
            self._fail(error)
            return
        if not outgoing.size and self._closing:
            self._stream.close()
        elif outgoing.size > HIGH_WATER and not self._writing_paused:
            self._writing_paused = True
            self._receiver.pause_writing()
        elif outgoing.size <= LOW_WATER and self._writing_paused:
            self._writing_paused = False
            self._receiver.resume_writing()

    def _fail(self, error: OSError) -> None:
        """A file could not be read: what was announced cannot be sent, so the peer is lost."""
        self._error = error
        self._lost = True
        self.abort()
