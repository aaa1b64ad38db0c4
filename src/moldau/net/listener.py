"""A listener of the broker and the connections that came through it."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

from moldau.config.options.network import NetworkOptions
from moldau.machine import Acceptor, Clock, Incoming, Network, Timer
from moldau.machine.clock import steady_ms
from moldau.net.connection import ConnectionLimits, Handler, ServerConnection
from moldau.net.frames import BufferPool
from moldau.net.log_limiter import LogLimiter
from moldau.net.quotas import ConnectionQuotas, ListenerQuota

logger = logging.getLogger(__name__)

# One wake-up accepts at most this many, so that a storm of connections leaves time for requests.
ACCEPTS_PER_TURN: Final = 64
# Out of descriptors: time for some to be closed before the next attempt.
ACCEPT_PAUSE: Final = 0.5
# Idle connections are looked for this often, but at least ten times per idle time.
SWEEP_INTERVAL: Final = 30.0

OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """Kafka's socket settings.

    The buffers are the exception to Kafka's defaults (100 KB each): left to the operating system,
    which adapts them, large requests and answers cost about half the CPU (docs/adr/0001).
    """

    limits: ConnectionLimits = field(default_factory=ConnectionLimits)

    receive_buffer_bytes: int = -1
    """``socket.receive.buffer.bytes``; -1 leaves it to the operating system."""

    send_buffer_bytes: int = -1
    """``socket.send.buffer.bytes``; -1 leaves it to the operating system."""

    backlog: int = NetworkOptions.socket_listen_backlog_size.default
    """``socket.listen.backlog.size``"""

    max_idle_ms: int = NetworkOptions.connections_max_idle_ms.default
    """``connections.max.idle.ms``; negative: idle connections stay."""


class Listener:
    """Accepts connections on one address and hands their requests to the handler.

    ``bind`` reserves the port (so that the real one can be advertised), ``start`` lets clients in.
    """

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        handler: Handler,
        *,
        network: Network,
        clock: Clock,
        settings: ListenerSettings | None = None,
        quotas: ConnectionQuotas | None = None,
        pool: BufferPool | None = None,
        on_open: Callable[[ServerConnection], object] | None = None,
        on_close: Callable[[ServerConnection], object] | None = None,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self._handler = handler
        self._network = network
        self._clock = clock
        self._settings = settings or ListenerSettings()
        self._quotas = quotas or ConnectionQuotas()
        self._quota = ListenerQuota(self._quotas, name, self._close_excess)
        self._pool = pool or BufferPool()
        self._on_open = on_open
        self._on_close = on_close
        self._log_limiter = LogLimiter(logger, clock.monotonic)
        self._acceptor: Acceptor | None = None
        # Each connection with the time at which it was last seen to have moved bytes.
        self._connections: dict[ServerConnection, float] = {}
        # Connections of addresses that opened too many, by the timers that will close them.
        self._throttled: dict[Timer, Incoming] = {}
        self._sweep_timer: Timer | None = None
        self._emptied = asyncio.Event()

    @property
    def connections(self) -> int:
        return len(self._connections)

    def bind(self) -> int:
        """Reserve the address; returns the real port (also in ``port``) where 0 was asked for."""
        self._acceptor = self._network.bind(
            self.host,
            self.port,
            receive_buffer_bytes=self._settings.receive_buffer_bytes,
            send_buffer_bytes=self._settings.send_buffer_bytes,
        )
        self.port = self._acceptor.port
        return self.port

    def start(self) -> None:
        """Let clients in; binds first where that was not done."""
        if self._acceptor is None:
            self.bind()
        assert self._acceptor is not None
        self._acceptor.listen(self._settings.backlog, self._accept)
        self._quotas.add(self._quota)
        self._sweep_timer = self._clock.call_later(self._sweep_interval, self._sweep)

    def hand_over(self, handler: Handler) -> None:
        """Have the requests of connections that come from now on handled by another."""
        self._handler = handler

    def stop(self) -> None:
        """Let nobody in, execute no further request; connections close with their last answer."""
        self._quotas.remove(self._quota)
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None
        for throttled, incoming in self._throttled.items():
            throttled.cancel()
            incoming.refuse()
        self._throttled.clear()
        for connection in list(self._connections):
            connection.finish()

    async def close(self, drain_timeout: float = 5.0) -> None:
        """Stop, wait for the last connection to close; after ``drain_timeout`` close them all."""
        self.stop()
        if not self._connections:
            return
        self._emptied.clear()
        timer = self._clock.call_later(drain_timeout, self._abort_all)
        await self._emptied.wait()
        timer.cancel()

    def _abort_all(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    # Accepting

    def _resume_accepting(self) -> None:
        if self._acceptor is not None:
            self._acceptor.resume()

    def _accept(self) -> None:
        acceptor = self._acceptor
        assert acceptor is not None
        for _ in range(ACCEPTS_PER_TURN):
            if reached := self._quota.reached_limit:
                acceptor.pause()
                self._quota.when_free(self._resume_accepting)
                self._log_limiter.warning(
                    "full",
                    f"listener {self.name} waits with new connections: {reached} is reached",
                )
                return
            try:
                incoming = acceptor.accept()
            except OSError as error:
                if error.errno in OUT_OF_RESOURCES:
                    self._log_limiter.warning(
                        "resources",
                        f"listener {self.name} cannot accept connections for now: {error}",
                    )
                    self._pause_accepting(acceptor, ACCEPT_PAUSE)
                    return
                continue  # this one is gone before it was accepted; the next may be fine
            if incoming is None:
                return
            now_ms = steady_ms(self._clock)
            if throttle_ms := self._quota.throttle_ms(incoming.peer_host, now_ms):
                self._refuse_later(incoming, throttle_ms)
                continue
            self._open(incoming)
            if pause_ms := self._quota.accepted(now_ms):
                self._pause_accepting(acceptor, pause_ms / 1000)
                return

    def _pause_accepting(self, acceptor: Acceptor, seconds: float) -> None:
        acceptor.pause()
        self._clock.call_later(seconds, self._resume_accepting)

    def _open(self, incoming: Incoming) -> None:
        host = incoming.peer_host
        if not self._quota.opened(host):
            incoming.refuse()
            self._log_limiter.warning(
                f"ip {host}",
                f"refusing {incoming.peer} on listener {self.name}: "
                f"its address has max.connections.per.ip={self._quota.limit_of(host)} already",
            )
            return
        connection = ServerConnection(
            self._handler,
            pool=self._pool,
            listener=self.name,
            limits=self._settings.limits,
            on_close=self._closed,
            log_limiter=self._log_limiter,
        )
        try:
            incoming.open(connection)
        except OSError:  # reset by the peer in the meantime
            self._quota.closed(host)
            return
        self._connections[connection] = self._clock.monotonic()
        if self._on_open is not None:
            self._on_open(connection)

    def _refuse_later(self, incoming: Incoming, delay_ms: int) -> None:
        """A client that is closed at once would be back at once."""

        def refuse() -> None:
            self._throttled.pop(timer).refuse()

        timer = self._clock.call_later(delay_ms / 1000, refuse)
        self._throttled[timer] = incoming

    def _closed(self, connection: ServerConnection) -> None:
        del self._connections[connection]
        self._quota.closed(connection.peer_host)
        if not self._connections:
            self._emptied.set()
        if self._on_close is not None:
            self._on_close(connection)

    # Idle connections

    def _close_excess(self, excess: int) -> int:
        """The broker has too many connections: close as many, those first that are closing anyway,
        then those that nobody misses for longest. Returns how many.
        """
        chosen = nsmallest(excess, self._connections, key=self._priority)
        for connection in chosen:
            if not connection.is_closing:
                self._log_limiter.warning(
                    "excess",
                    f"closing {connection.peer} on listener {self.name}: the broker has more than "
                    "max.connections",
                )
                connection.abort()
        return len(chosen)

    def _priority(self, connection: ServerConnection) -> tuple[bool, bool, bool, float]:
        return (
            not connection.is_closing,
            connection.in_flight > 0,
            connection.active,
            self._connections[connection],
        )

    @property
    def _sweep_interval(self) -> float:
        max_idle = self._settings.max_idle_ms / 1000
        return SWEEP_INTERVAL if max_idle < 0 else max(0.01, min(SWEEP_INTERVAL, max_idle / 10))

    def _sweep(self) -> None:
        """Close what was idle too long. One timer for all; no connection ever reads a clock."""
        now = self._clock.monotonic()
        max_idle = self._settings.max_idle_ms / 1000
        for connection, seen in list(self._connections.items()):
            if connection.active:
                connection.active = False
                self._connections[connection] = now
            elif 0 <= max_idle <= now - seen:
                logger.info("closing %s on listener %s: idle", connection.peer, self.name)
                connection.abort()
        self._pool.trim()
        self._sweep_timer = self._clock.call_later(self._sweep_interval, self._sweep)
