"""Making sockets: names to addresses, Kafka's buffer settings."""

from __future__ import annotations

import asyncio
import os
import socket


def set_buffer_sizes(sock: socket.socket, receive: int, send: int) -> None:
    """Set ``SO_RCVBUF`` and ``SO_SNDBUF``; -1 leaves them to the system, which adapts them."""
    if receive != -1:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    if send != -1:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send)


def bind_socket(host: str, port: int) -> socket.socket:
    """Returns a bound, non-blocking TCP socket. An empty host means every address, IPv6
    included.
    """
    try:
        family, address = _address_to_bind(host, port)
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise cannot_listen(host, port, error) from error
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not host and family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise cannot_listen(host, port, error) from error
    return sock


def _address_to_bind(host: str, port: int) -> tuple[int, tuple[object, ...]]:
    if not host:
        if socket.has_dualstack_ipv6():
            return socket.AF_INET6, ("::", port)
        return socket.AF_INET, ("0.0.0.0", port)  # noqa: S104  # every address is what was asked for
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # IPv4 first, as Java does: it is what most clients mean by "localhost".
    found.sort(key=lambda info: info[0] != socket.AF_INET)
    return found[0][0], found[0][4]


def cannot_listen(host: str, port: int, error: OSError) -> OSError:
    """Returns the same error as a sentence that names the address."""
    return OSError(error.errno, f"cannot listen on {host or '*'}:{port}: {error.strerror}")


async def connect_socket(
    host: str, port: int, *, within: float, receive: int, send: int
) -> socket.socket:
    """Returns a connected, non-blocking TCP socket; the addresses of ``host`` are tried in turn."""
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    try:
        async with asyncio.timeout(within):
            for family, kind, proto, _, address in await loop.getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            ):
                sock = socket.socket(family, kind, proto)
                try:
                    sock.setblocking(False)
                    set_buffer_sizes(sock, receive, send)
                    await loop.sock_connect(sock, address)
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                except OSError as error:
                    sock.close()
                    failure = _in_words_of_the_system(error)
                except BaseException:
                    sock.close()
                    raise
                else:
                    return sock
    except TimeoutError:
        raise TimeoutError(f"no connection to {host}:{port} within {within:g} s") from None
    except socket.gaierror as error:
        raise ConnectionError(f"cannot find the address of {host}: {error.strerror}") from None
    raise ConnectionError(f"cannot connect to {host}:{port}: {failure}") from failure


def _in_words_of_the_system(error: OSError) -> OSError:
    """Event loops have words of their own for a connection that fails, each others."""
    return OSError(error.errno, os.strerror(error.errno)) if error.errno else error
