"""HTTP connections that are not held open by clients who send their requests drop by drop."""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS: Final = 200
"""More are closed at once: the process needs its file descriptors for the broker and the mails."""
HEADERS_WITHIN: Final = 30.0


class TimedProtocol(H11Protocol):
    """uvicorn has a limit for idle connections between requests only."""

    _look: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look = self.loop.call_later(HEADERS_WITHIN, self._close_if_no_request)
        if len(self.connections) > CONNECTIONS:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._look.cancel()
        super().connection_lost(exc)

    def _close_if_no_request(self) -> None:
        busy = bool(self.cycle) and not self.cycle.response_complete
        if not busy:
            self.transport.close()
        else:
            self._look = self.loop.call_later(HEADERS_WITHIN, self._close_if_no_request)
