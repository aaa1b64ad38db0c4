"""A real SMTP server for tests: it can refuse, put off, be slow, go away and come back."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from email import message_from_bytes, policy
from email.message import EmailMessage
from types import TracebackType
from typing import Any, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP


class Inbox:
    """What was accepted, and how the next requests are to be answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.messages: list[EmailMessage] = []
        self.times: list[float] = []
        self.envelopes: list[tuple[str, ...]] = []
        self.on_recipient: Callable[[str], str | None] = lambda _address: None
        """An answer other than 250 for a recipient, e.g. ``"451 come back later"``."""
        self.on_text: Callable[[EmailMessage], str | None] = lambda _message: None

    async def handle_RCPT(  # noqa: N802 - the server's name for it
        self, server: SMTP, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        answer = self.on_recipient(address)
        if answer is not None:
            return answer
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Any) -> str:  # noqa: N802
        message: EmailMessage = message_from_bytes(envelope.content, policy=policy.default)
        answer = self.on_text(message)
        if answer is not None:
            return answer
        with self._lock:
            self.messages.append(message)
            self.times.append(time.monotonic())
            self.envelopes.append(tuple(envelope.rcpt_tos))
        return "250 OK"

    def message_ids(self) -> Counter[str]:
        return Counter(str(message["Message-ID"]) for message in self.messages)

    def alert_count(self) -> int:
        """Alerts in all mails, each mail counted once."""
        return sum(
            int(message["X-Moldau-Alerts"])
            for message in {str(one["Message-ID"]): one for one in self.messages}.values()
        )


class _Controller(Controller):
    """Listens on a port that somebody else keeps for it, and ends without loose ends."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._sessions: list[SMTP] = []

    def factory(self) -> SMTP:
        self._sessions.append(SMTP(self.handler, **self.SMTP_kwargs))
        return self._sessions[-1]

    def _create_server(self) -> Awaitable[asyncio.AbstractServer]:
        return self.loop.create_server(
            self._factory_invoker, self.hostname, self.port, reuse_port=True
        )

    def stop(self, no_assert: bool = False) -> None:
        asyncio.run_coroutine_threadsafe(self._hang_up(), self.loop).result(60)
        super().stop(no_assert)

    async def _hang_up(self) -> None:
        """First on the listener, so that nobody comes any more, then on the sessions. A socket left
        open would be found by the garbage collector, to the harm of whichever test runs then.
        """
        assert self.server is not None
        self.server.close()
        await _turns()
        for session in self._sessions:
            for transport in (session.transport, session._original_transport):
                if isinstance(transport, asyncio.Transport):
                    transport.abort()
        sessions = asyncio.all_tasks() - {asyncio.current_task()}
        for task in sessions:
            task.cancel()
        await asyncio.gather(*sessions, return_exceptions=True)
        await _turns()


async def _turns() -> None:
    """Let the loop do what was put off to its next turns."""
    for _ in range(5):
        await asyncio.sleep(0)


class SmtpServer:
    """``with SmtpServer() as server: ... server.inbox.messages``; the port stays the same.

    It stays ours while the server is stopped: connections are refused, and neither another process
    nor a connection of our own (which would then talk to itself) gets it.
    """

    def __init__(self, **options: Any) -> None:
        self.inbox = Inbox()
        self._options = options
        self._controller: Controller | None = None
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port: int = self._reserved.getsockname()[1]

    def start(self) -> Self:
        controller = _Controller(
            self.inbox,
            hostname="127.0.0.1",
            port=self.port,
            ready_timeout=60.0,
            **self._options,
        )
        controller.start()
        self._controller = controller
        return self

    def stop(self) -> None:
        controller, self._controller = self._controller, None
        if controller is not None:
            controller.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        self._reserved.close()
