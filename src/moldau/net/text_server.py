"""A few pages of text over HTTP, for programs that come by now and then, such as Prometheus.

As little of HTTP as that takes: one GET per connection. Whoever sends something else, too much or
nothing at all is told so or dropped, and can neither hold up the event loop nor pile up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from moldau.net.sockets import bind_socket, cannot_listen

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 10.0
"""For a request to arrive and for its answer to be taken."""
MAX_HEADER_BYTES: Final = 16_384
MAX_CONNECTIONS: Final = 16


class Page(NamedTuple):
    content_type: str
    render: Callable[[], str]


class TextServer:
    """Serves ``pages`` by their paths."""

    def __init__(
        self, host: str, port: int, pages: Mapping[str, Page], patience_s: float = PATIENCE_S
    ) -> None:
        self._patience_s = patience_s
        self.host = host
        self.port = port
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        """Bind and let clients in; ``port`` is the real one then. Raises OSError."""
        sock = bind_socket(self.host, self.port)
        self.port = sock.getsockname()[1]
        try:
            self._server = await asyncio.start_server(
                self._serve, sock=sock, limit=MAX_HEADER_BYTES
            )
        except OSError as error:  # somebody bound the same port, and listens first
            sock.close()
            raise cannot_listen(self.host, self.port, error) from error

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in self._open:
                writer.transport.abort()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._open.add(writer)
        try:
            async with asyncio.timeout(self._patience_s):
                header = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(header))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    def _answer(self, header: bytes) -> bytes:
        words = header.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _response("400 Bad Request", "not an HTTP/1 request\n")
        method, target, _ = words
        page = self._pages.get(target.partition("?")[0])
        if page is None:
            return _response("404 Not Found", f"try {', '.join(self._pages)}\n")
        if method not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", "GET is served\n", extra="Allow: GET, HEAD")
        try:
            body = page.render()
        except Exception:
            logger.exception("%s failed", target)
            return _response("500 Internal Server Error", "the log of the broker says why\n")
        return _response("200 OK", body, page.content_type, with_body=method == "GET")


def _response(
    status: str,
    body: str,
    content_type: str = "text/plain; charset=utf-8",
    *,
    with_body: bool = True,
    extra: str = "",
) -> bytes:
    data = body.encode()
    head = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(data)}",
        "Connection: close",
    ]
    if extra:
        head.append(extra)
    return "\r\n".join([*head, "", ""]).encode() + (data if with_body else b"")
