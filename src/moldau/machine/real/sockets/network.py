"""The network of the operating system."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

from moldau.machine.errors import TlsHandshakeError
from moldau.machine.network import Receiver, Transport
from moldau.machine.real.sockets.acceptor import SocketAcceptor
from moldau.machine.real.sockets.addresses import reachable_host
from moldau.machine.real.sockets.making import connect_socket
from moldau.machine.real.sockets.stream import StreamTransport
from moldau.machine.real.sockets.transport import SocketTransport

if TYPE_CHECKING:
    from ssl import SSLContext

# How long the end of a TLS connection may wait for the other side's goodbye.
_TLS_GOODBYE: Final = 1.0


class SocketNetwork:
    """Connections over TCP, with a transport of our own, or with asyncio's where there is TLS."""

    def bind(
        self, host: str, port: int, *, receive_buffer_bytes: int = -1, send_buffer_bytes: int = -1
    ) -> SocketAcceptor:
        return SocketAcceptor(host, port, receive_buffer_bytes, send_buffer_bytes)

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
        sock = await connect_socket(
            host, port, within=within, receive=receive_buffer_bytes, send=send_buffer_bytes
        )
        loop = asyncio.get_running_loop()
        if tls is None:
            try:
                return SocketTransport(loop, sock, receiver)
            except OSError as error:
                sock.close()
                raise ConnectionError(f"cannot connect to {host}:{port}: {error}") from error
        try:
            _, transport = await loop.create_connection(
                lambda: StreamTransport(loop, receiver),
                sock=sock,
                ssl=tls,
                server_hostname=host,
                ssl_handshake_timeout=within,
                ssl_shutdown_timeout=_TLS_GOODBYE,
            )
        except OSError as error:
            raise TlsHandshakeError(f"no TLS with {host}:{port}: {error}") from error
        return transport

    def host_name(self) -> str:
        return socket.gethostname()

    async def reachable_host(self) -> str:
        return await reachable_host()
