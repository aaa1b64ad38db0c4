"""A few pages of text over HTTP, for programs that come by now and then, such as Prometheus.

As little of HTTP as that takes: one GET per connection. Whoever sends something else, too much or
nothing at all is told so or dropped, and can neither hold up the event loop nor pile up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from moldau.machine import Acceptor, Machine, Timer, Transport
from moldau.net.listener import ACCEPT_PAUSE, OUT_OF_RESOURCES

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 10.0
"""For a request to arrive and for its answer to be taken."""
MAX_HEADER_BYTES: Final = 16_384
MAX_CONNECTIONS: Final = 16
_BACKLOG: Final = 100
_END_OF_HEADER: Final = b"\r\n\r\n"


class Page(NamedTuple):
    content_type: str
    render: Callable[[], str]


class TextServer:
    """Serves ``pages`` by their paths."""

    def __init__(
        self,
        machine: Machine,
        host: str,
        port: int,
        pages: Mapping[str, Page],
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._network = machine.network
        self._clock = machine.clock
        self._patience_s = patience_s
        self.host = host
        self.port = port
        self._pages = pages
        self._acceptor: Acceptor | None = None
        self._visits: dict[_Visit, None] = {}

    def start(self) -> None:
        """Bind and let clients in; ``port`` is the real one then. Raises OSError."""
        acceptor = self._network.bind(self.host, self.port)
        self.port = acceptor.port
        try:
            acceptor.listen(_BACKLOG, self._accept)
        except OSError:
            acceptor.close()
            raise
        self._acceptor = acceptor

    def close(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None
        for visit in list(self._visits):
            visit.transport.abort()

    def _accept(self) -> None:
        try:
            incoming = self._acceptor.accept() if self._acceptor is not None else None
            if incoming is None:
                return
            if len(self._visits) >= MAX_CONNECTIONS:
                incoming.refuse()
                return
            visit = _Visit(self._answer, self._visits)
            incoming.open(visit)
        except OSError as error:
            # Whoever came has gone; or waits on, and the loop would come back here at once.
            if error.errno in OUT_OF_RESOURCES and self._acceptor is not None:
                self._acceptor.pause()
                self._clock.call_later(ACCEPT_PAUSE, self._resume)
            return
        visit.timer = self._clock.call_later(self._patience_s, visit.transport.abort)

    def _resume(self) -> None:
        if self._acceptor is not None:
            self._acceptor.resume()

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


class _Visit:
    """One connection: reads a header, writes what is asked for, and is closed."""

    def __init__(self, answer: Callable[[bytes], bytes], visits: dict[_Visit, None]) -> None:
        self.transport: Transport
        self.timer: Timer | None = None
        self._answer = answer
        self._visits = visits
        self._header = memoryview(bytearray(MAX_HEADER_BYTES))
        self._size = 0
        self._answered = False

    def connection_made(self, transport: Transport) -> None:
        self.transport = transport
        self._visits[self] = None

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._header[self._size :]

    def buffer_updated(self, nbytes: int) -> None:
        self._size += nbytes
        header, end, _ = bytes(self._header[: self._size]).partition(_END_OF_HEADER)
        if end:
            self._answered = True
            self.transport.write([self._answer(header)])
            self.transport.close()
        elif self._size == MAX_HEADER_BYTES:
            self.transport.abort()

    def eof_received(self) -> bool:
        return self._answered

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, _error: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self._visits.pop(self, None)


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
