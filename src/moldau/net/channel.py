"""The client's side of a connection to a broker: requests out, answers back in the same order.

Like the broker's connection it knows no sockets, only a ``Transport``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from moldau.config.options.coordination import CoordinationOptions
from moldau.config.options.network import NetworkOptions
from moldau.machine import Clock, Machine, Part, Timer, Transport
from moldau.net.errors import ChannelClosedError, RequestTimeoutError
from moldau.net.frames import BufferPool, FrameReader
from moldau.wire.errors import ProtocolError

if TYPE_CHECKING:
    from ssl import SSLContext

# A response is as large as the client asked for, so this is only the limit of the size prefix.
CONNECT_TIMEOUT: Final = NetworkOptions.socket_connection_setup_timeout_ms.default / 1000
REQUEST_TIMEOUT: Final = CoordinationOptions.request_timeout_ms.default / 1000
MAX_RESPONSE_BYTES: Final = 2**31 - 1

_read_correlation_id = Struct(">i").unpack_from


class _Request:
    """A request that was sent and waits for its answer."""

    __slots__ = ("correlation_id", "deadline", "future")

    def __init__(
        self, correlation_id: int, deadline: float, future: asyncio.Future[memoryview]
    ) -> None:
        self.correlation_id = correlation_id
        self.deadline = deadline
        self.future = future


class Channel:
    """A connection to one broker. Use it from the event loop it was made on."""

    def __init__(
        self,
        clock: Clock,
        *,
        request_timeout: float = REQUEST_TIMEOUT,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        pool: BufferPool | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._request_timeout = request_timeout
        # Large answers are handed over together with their buffer, so there is nothing to keep,
        # unless whoever has a pool gives them back.
        self._reader = FrameReader(pool or BufferPool(keep_bytes=0), max_response_bytes)
        self._transport: Transport | None = None
        self._sent: deque[_Request] = deque()
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._drained: asyncio.Event = asyncio.Event()
        self._drained.set()
        self._failure: Exception | None = None
        self._closed_by_us = False
        self.closed: asyncio.Future[Exception | None] = self._loop.create_future()
        """Done with the end of the connection; its result is the reason, None after ``close``."""

    @classmethod
    async def connect(
        cls,
        machine: Machine,
        host: str,
        port: int,
        *,
        connect_timeout: float = CONNECT_TIMEOUT,
        request_timeout: float = REQUEST_TIMEOUT,
        receive_buffer_bytes: int = -1,
        send_buffer_bytes: int = -1,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        tls: SSLContext | None = None,
        pool: BufferPool | None = None,
    ) -> Channel:
        """Connect; raises what ``Network.connect`` raises."""
        channel = cls(
            machine.clock,
            request_timeout=request_timeout,
            max_response_bytes=max_response_bytes,
            pool=pool,
        )
        await machine.network.connect(
            host,
            port,
            channel,
            within=connect_timeout,
            receive_buffer_bytes=receive_buffer_bytes,
            send_buffer_bytes=send_buffer_bytes,
            tls=tls,
        )
        return channel

    # Sending

    def send(
        self, parts: Sequence[Part], correlation_id: int, *, timeout: float | None = None
    ) -> asyncio.Future[memoryview]:
        """Send a request frame, size prefix included; the future gets the response without it.

        The response is a view that stays valid. When ``timeout`` (or the channel's) passes without
        it, the channel is closed, since answers come in order, and all requests fail.
        """
        future: asyncio.Future[memoryview] = self._loop.create_future()
        if self._transport is None or self._failure is not None:
            future.set_exception(self._failure or ChannelClosedError("not connected"))
            return future
        wait = self._request_timeout if timeout is None else timeout
        deadline = self._clock.monotonic() + wait
        self._sent.append(_Request(correlation_id, deadline, future))
        if self._timer is None or deadline < self._timer_at:
            self._arm(deadline, wait)
        self._transport.write(parts)
        return future

    def send_oneway(self, parts: Sequence[Part]) -> None:
        """Send a request that the broker does not answer (Produce with ``acks=0``)."""
        if self._transport is None or self._failure is not None:
            raise self._failure or ChannelClosedError("not connected")
        self._transport.write(parts)

    async def drain(self) -> None:
        """Wait while more is queued than the broker takes."""
        await self._drained.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def is_congested(self) -> bool:
        """Whether more is queued than the broker takes; ``drain`` waits for the end of that."""
        return not self._drained.is_set()

    @property
    def in_flight(self) -> int:
        """Requests without an answer yet."""
        return len(self._sent)

    @property
    def patience(self) -> float:
        """Seconds until the last request without an answer has run out of time."""
        now = self._clock.monotonic()
        return max((request.deadline - now for request in self._sent), default=0.0)

    @property
    def is_closed(self) -> bool:
        return self._failure is not None

    @property
    def peer(self) -> str:
        return "nobody" if self._transport is None else self._transport.peer

    def close(self) -> None:
        """Close; what waits for an answer fails. ``await channel.closed`` waits for the end."""
        if self._failure is not None:
            return  # closed or lost before, for the reason that is known
        self._closed_by_us = True
        self._fail(ChannelClosedError(f"the connection to {self.peer} was closed"))

    # What the transport calls

    def connection_made(self, transport: Transport) -> None:
        self._transport = transport

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        reader = self._reader
        reader.received(nbytes)
        try:
            while (frame := reader.next_frame()) is not None:
                self._answered(reader.keep_frame(frame))
        except ProtocolError as error:
            reader.park()
            self._fail(error)

    def eof_received(self) -> bool:
        self._fail(ChannelClosedError(f"{self.peer} closed the connection"))
        return False

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def connection_lost(self, error: Exception | None) -> None:
        if self._failure is None:
            failure = ChannelClosedError(f"the connection to {self.peer} was lost: {error}")
            failure.__cause__ = error
            self._fail(failure)
        if not self.closed.done():
            self.closed.set_result(None if self._closed_by_us else self._failure)

    # Answers

    def _answered(self, frame: memoryview) -> None:
        if len(frame) < 4 or not self._sent:
            raise ProtocolError(f"{self.peer} sent an answer that belongs to no request")
        correlation_id: int = _read_correlation_id(frame)[0]
        request = self._sent[0]
        if correlation_id != request.correlation_id:
            raise ProtocolError(
                f"{self.peer} answered request {correlation_id}, "
                f"but {request.correlation_id} was next"
            )
        self._sent.popleft()
        if not request.future.done():  # whoever waited may have given up
            request.future.set_result(frame)

    def _fail(self, error: Exception) -> None:
        """The channel is of no more use: everybody who waits gets to know."""
        if self._failure is not None:
            return
        self._failure = error
        if self._timer is not None:
            self._timer.cancel()
        self._drained.set()
        sent, self._sent = self._sent, deque()
        for request in sent:
            if not request.future.done():
                request.future.set_exception(error)
        if self._transport is None:
            self.closed.set_result(None)
        elif self._closed_by_us:
            self._transport.close()
        else:
            self._transport.abort()

    # Timeouts: one timer, for the earliest deadline

    def _arm(self, deadline: float, delay: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._clock.call_later(delay, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        if not self._sent:
            return
        now = self._clock.monotonic()
        request = min(self._sent, key=lambda request: request.deadline)
        if request.deadline > now:
            self._arm(request.deadline, request.deadline - now)
        else:
            self._fail(RequestTimeoutError(f"{self.peer} did not answer in time"))
