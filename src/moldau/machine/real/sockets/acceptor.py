"""A listening socket, and the connections that wait in it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from moldau.machine.network import Receiver
from moldau.machine.real.sockets.making import bind_socket, cannot_listen, set_buffer_sizes
from moldau.machine.real.sockets.transport import SocketTransport, format_address


class AcceptedSocket:
    """A connection that was accepted and belongs to nobody yet."""

    __slots__ = ("_address", "_sock", "peer", "peer_host")

    def __init__(self, sock: socket.socket, address: object) -> None:
        self._sock = sock
        self._address = address
        self.peer_host, self.peer = format_address(address)

    def open(self, receiver: Receiver) -> SocketTransport:
        sock = self._sock
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return SocketTransport(asyncio.get_running_loop(), sock, receiver, self._address)
        except OSError:  # reset by the peer in the meantime
            sock.close()
            raise

    def refuse(self) -> None:
        self._sock.close()


class SocketAcceptor:
    """A bound TCP socket; ``listen`` lets peers come."""

    def __init__(self, host: str, port: int, receive_bytes: int, send_bytes: int) -> None:
        sock = self._sock = bind_socket(host, port)
        # Set here, accepted sockets inherit them; TCP fixes its window scale with the handshake.
        set_buffer_sizes(sock, receive_bytes, send_bytes)
        self._host = host
        self.port: int = sock.getsockname()[1]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_waiting: Callable[[], object]
        self._watching = False

    def listen(self, backlog: int, on_waiting: Callable[[], object]) -> None:
        try:
            self._sock.listen(backlog)
        except OSError as error:  # somebody bound the same port, and listens first
            raise cannot_listen(self._host, self.port, error) from error
        self._loop = asyncio.get_running_loop()
        self._on_waiting = on_waiting
        self.resume()

    def accept(self) -> AcceptedSocket | None:
        try:
            return AcceptedSocket(*self._sock.accept())
        except (BlockingIOError, InterruptedError):
            return None

    def pause(self) -> None:
        if self._watching and self._loop is not None:
            self._watching = False
            self._loop.remove_reader(self._sock.fileno())

    def resume(self) -> None:
        if self._loop is not None and not self._watching:
            self._watching = True
            self._loop.add_reader(self._sock.fileno(), self._on_waiting)

    def close(self) -> None:
        self.pause()
        self._loop = None
        self._sock.close()
