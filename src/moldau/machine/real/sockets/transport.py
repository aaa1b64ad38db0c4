"""A transport of our own over a non-blocking socket.

asyncio's and uvloop's stream transports cannot mix bytes and ``sendfile`` (uvloop has no
``loop.sendfile`` at all), and a broker's answers are just that: a header, then a piece of a log
file. With ``add_reader`` and ``add_writer`` a small request costs the same CPU as on uvloop's own
stream, and a large answer never enters the process. docs/adr/0001 has the figures.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from typing import Final

from moldau.machine.disk import FileSlice
from moldau.machine.errors import TruncatedFileError
from moldau.machine.network import Part, Receiver
from moldau.machine.outgoing import (
    BUFFER_TYPES,
    JOIN_LIMIT,
    MAX_BUFFERS,
    Outgoing,
    OutgoingSlice,
    in_memory,
    read_exactly,
    size_of,
)

# More than this queued stops reading from the peer, until what is queued is down to the second
# figure.
HIGH_WATER: Final = 1024 * 1024
LOW_WATER: Final = 256 * 1024
# One wake-up reads or writes at most about this much before other connections get their turn.
TURN_BYTES: Final = 4 * 1024 * 1024
# Up to this total (64 KB of records, and what stands around them) slices are read, and everything
# goes out with one system call; sendfile pays above it (figures in docs/adr/0019).
READ_LIMIT: Final = 68 * 1024
# How much of a slice is read at a time where sendfile cannot be used.
READ_CHUNK: Final = 256 * 1024

_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)


def format_address(address: object) -> tuple[str, str]:
    """``(host, host:port)`` of what ``getpeername`` and ``accept`` return."""
    if isinstance(address, tuple) and len(address) >= 2:
        host = str(address[0]).removeprefix("::ffff:")
        return host, f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
    return str(address), str(address)


def _close_quietly(sock: socket.socket) -> None:
    try:
        sock.close()
    except OSError:
        return


class SocketTransport:
    """Moves the bytes of one connected socket. It owns the socket from here on."""

    __slots__ = (
        "_buffer_updated",
        "_closing",
        "_fd",
        "_get_buffer",
        "_loop",
        "_lost",
        "_outgoing",
        "_reader_on",
        "_reading_paused",
        "_receiver",
        "_recv_into",
        "_send",
        "_sendmsg",
        "_sock",
        "_writer_on",
        "_writing_paused",
        "_written",
        "peer",
        "peer_host",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        receiver: Receiver,
        address: object = None,
    ) -> None:
        self.peer_host, self.peer = format_address(address or sock.getpeername())
        self._loop = loop
        self._sock = sock
        self._fd = sock.fileno()
        # Bound once: these are called for every request.
        self._recv_into = sock.recv_into
        self._send = sock.send
        self._sendmsg = sock.sendmsg
        self._receiver = receiver
        self._get_buffer = receiver.get_buffer
        self._buffer_updated = receiver.buffer_updated
        self._outgoing = Outgoing()
        self._closing = False
        self._lost = False
        self._reading_paused = False
        self._writing_paused = False
        self._reader_on = False
        self._writer_on = False
        self._written = False
        receiver.connection_made(self)
        if not self._closing:
            self._reader_on = True
            loop.add_reader(self._fd, self._on_readable)

    @property
    def is_closing(self) -> bool:
        return self._closing

    @property
    def queued_bytes(self) -> int:
        return self._outgoing.size

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon(callback)

    # Reading

    def pause_reading(self) -> None:
        # The selector is told only if bytes really come meanwhile: most peers wait for their
        # answer.
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        if not self._reader_on and not self._closing:
            self._reader_on = True
            self._loop.add_reader(self._fd, self._on_readable)

    def _stop_reader(self) -> None:
        if self._reader_on:
            self._reader_on = False
            self._loop.remove_reader(self._fd)

    def _on_readable(self) -> None:
        turn = TURN_BYTES
        self._written = False
        while not self._reading_paused:
            buffer = self._get_buffer(-1)
            try:
                nbytes = self._recv_into(buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._fail(error)
                return
            if nbytes == 0:
                self._on_eof()
                return
            self._buffer_updated(nbytes)
            # A buffer that was not filled means that the socket is empty for now.
            turn -= nbytes
            if nbytes < len(buffer) or turn <= 0:
                if not self._written:
                    self._check_reset()
                return
        self._stop_reader()

    def _check_reset(self) -> None:
        """Notice a reset that came right behind the bytes just read.

        uvloop calls back only once for a socket in error, and that call got bytes. A write finds
        the error as well, so this is for when there was none.
        """
        error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._fail(OSError(error, os.strerror(error)))

    def _on_eof(self) -> None:
        self._stop_reader()
        self._reading_paused = True
        if not self._receiver.eof_received():
            self.close()

    # Writing

    def write(self, parts: Sequence[Part]) -> None:
        if self._lost:
            return
        self._written = True
        if self._outgoing.size:
            self._enqueue(parts)
            return
        sent = 0
        try:
            first = parts[0] if len(parts) == 1 else None
            if isinstance(first, bytes):
                size = len(first)
                sent = self._send(first)
            else:
                size = size_of(parts)
                if size > READ_LIMIT:
                    self._write_much(parts)
                    return
                buffers = in_memory(parts)
                if size <= JOIN_LIMIT or len(buffers) > MAX_BUFFERS:
                    sent = self._send(b"".join(buffers))
                else:
                    sent = self._sendmsg(buffers)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._fail(error)
            return
        if sent < size:
            self._queue_rest(parts, sent)

    def _write_much(self, parts: Sequence[Part]) -> None:
        slice_ = parts[1] if len(parts) == 2 else b""
        if isinstance(slice_, BUFFER_TYPES):
            self._enqueue(parts)
        else:
            self._write_slice(parts, slice_)

    def _queue_rest(self, parts: Sequence[Part], sent: int) -> None:
        """What the socket did not take waits: of a file only its place, not what was read."""
        try:
            self._outgoing.extend(parts)
        except OSError as error:
            self._fail(error)
            return
        self._outgoing.consume(sent)
        self._after_flush()

    def _write_slice(self, parts: Sequence[Part], slice_: FileSlice) -> None:
        """A header and a slice, most fetch answers: no queue as long as the socket takes it all."""
        header = parts[0]
        fileno = slice_.file.fileno()
        if fileno is None or not isinstance(header, bytes):
            self._enqueue(parts)
            return
        sent = 0
        try:
            sent = self._send(header, _MSG_MORE)
            if sent == len(header):
                sent += os.sendfile(self._fd, fileno, slice_.position, slice_.size)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._fail(error)
            return
        if sent < len(header) + slice_.size:
            self._queue_rest(parts, sent)

    def _enqueue(self, parts: Sequence[Part]) -> None:
        try:
            self._outgoing.extend(parts)
        except OSError as error:
            self._fail(error)
            return
        if self._writer_on:
            self._pause_writing_if_high()
        else:
            self._flush()

    def _flush(self) -> None:
        """Send until the queue is empty, the socket is full, or the turn is over."""
        outgoing = self._outgoing
        turn = TURN_BYTES
        try:
            while outgoing.size and turn > 0:
                head = outgoing.head()
                sent = self._send_buffers() if head is None else self._send_slice(head)
                outgoing.consume(sent)
                turn -= sent
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._fail(error)
            return
        self._after_flush()

    def _send_buffers(self) -> int:
        buffers, more = self._outgoing.buffers()
        flags = _MSG_MORE if more else 0
        if len(buffers) == 1:
            return self._send(buffers[0], flags)
        if sum(map(len, buffers)) <= JOIN_LIMIT:
            return self._send(b"".join(buffers), flags)
        return self._sendmsg(buffers, (), flags)

    def _send_slice(self, head: OutgoingSlice) -> int:
        fileno = head.file.fileno()
        if fileno is None:
            size = min(head.remaining, READ_CHUNK)
            return self._send(read_exactly(head.file, size, head.position))
        sent = os.sendfile(self._fd, fileno, head.position, head.remaining)
        if sent == 0:
            raise TruncatedFileError(
                f"{head.remaining} bytes at {head.position} were to be sent, "
                "but the file ends before them"
            )
        return sent

    def _after_flush(self) -> None:
        queued = self._outgoing.size
        if queued:
            if not self._writer_on:
                self._writer_on = True
                self._loop.add_writer(self._fd, self._flush)
            self._pause_writing_if_high()
        else:
            self._stop_writer()
            if self._closing:
                self._lose(None)
                return
        # Last, because the receiver answers with more writes.
        if self._writing_paused and queued <= LOW_WATER:
            self._writing_paused = False
            self._receiver.resume_writing()

    def _pause_writing_if_high(self) -> None:
        if self._outgoing.size > HIGH_WATER and not self._writing_paused:
            self._writing_paused = True
            self._receiver.pause_writing()

    def _stop_writer(self) -> None:
        if self._writer_on:
            self._writer_on = False
            self._loop.remove_writer(self._fd)

    # The end

    def close(self) -> None:
        if self._closing:
            return
        self._closing = self._reading_paused = True
        self._stop_reader()
        if not self._outgoing.size:
            self._lose(None)

    def abort(self) -> None:
        self._lose(None)

    def _fail(self, error: OSError) -> None:
        self._lose(error)

    def _lose(self, error: OSError | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = self._reading_paused = True
        self._stop_reader()
        self._stop_writer()
        self._outgoing.clear()
        # From the loop, so that whoever is writing just now is not called back in the middle of it.
        self._loop.call_soon(self._finish, error)

    def _finish(self, error: OSError | None) -> None:
        _close_quietly(self._sock)
        self._receiver.connection_lost(error)
