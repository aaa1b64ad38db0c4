"""The open connections of a client: made when needed, one at a time per broker and lane.

An address that could not be reached is left alone for a while, longer with every failure. What has
been idle for ``connections.max.idle.ms`` is closed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from moldau.client.backoff import Reconnects
from moldau.client.errors import AuthenticationError, ClosedError
from moldau.client.settings import CommonSettings
from moldau.errors import KafkaError
from moldau.machine import Machine
from moldau.model import Node
from moldau.net.address import show
from moldau.net.broker_connection import BrokerConnection, Security

logger: Final = logging.getLogger(__name__)

Key = tuple[int, str]
"""Node id and lane."""


class Connections:
    """Not thread-safe: one event loop."""

    def __init__(self, settings: CommonSettings, machine: Machine) -> None:
        self._settings = settings
        self._machine = machine
        self._security = _security(settings, machine)
        self._open: dict[Key, BrokerConnection] = {}
        self._opening: dict[Key, asyncio.Lock] = {}
        self._reconnects: dict[tuple[str, int], Reconnects] = {}
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False

    def open_one(self, key: Key) -> BrokerConnection | None:
        connection = self._open.get(key)
        return None if connection is None or connection.closed else connection

    def least_loaded(self, lane: str) -> BrokerConnection | None:
        """The open connection of this lane with the fewest requests under way."""
        open_connections = [
            connection
            for (_, its_lane), connection in self._open.items()
            if its_lane == lane and not connection.closed
        ]
        return min(open_connections, key=lambda connection: connection.in_flight, default=None)

    def not_before(self, host: str, port: int) -> float:
        """Until when an address is left alone, because it failed lately; 0 for one that did not."""
        reconnects = self._reconnects.get((host, port))
        return 0.0 if reconnects is None else reconnects.not_before

    async def get(self, key: Key, host: str, port: int) -> BrokerConnection:
        """The connection of this key, opened if need be."""
        async with self._opening.setdefault(key, asyncio.Lock()):
            known = self.open_one(key)
            return known if known is not None else await self._connect(key, host, port)

    def rename(self, old: Key, new: Key, node: Node) -> bool:
        """Give a connection another key if it leads to this node and the key is free."""
        connection = self.open_one(old)
        if connection is None or connection.address != (node.host, node.port):
            return False
        opening = self._opening.get(new)
        if self.open_one(new) is not None or (opening is not None and opening.locked()):
            return False
        self._open[new] = self._open.pop(old)
        return True

    async def drop_all(self) -> None:
        connections, self._open = self._open, {}
        for connection in connections.values():
            connection.abandon()  # all, even if nobody waits until the last is closed
        for connection in connections.values():
            await connection.ended

    def abandon(self) -> None:
        """Close without waiting for the end."""
        self._closed = True
        for connection in self._open.values():
            connection.abandon()

    async def close(self) -> None:
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        await self.drop_all()

    async def _connect(self, key: Key, host: str, port: int) -> BrokerConnection:
        settings = self._settings
        loop = asyncio.get_running_loop()
        reconnects = self._reconnects.get((host, port))
        if reconnects is None:
            reconnects = self._reconnects[host, port] = Reconnects(
                self._machine.random,
                settings.reconnect_backoff_ms / 1000,
                settings.reconnect_backoff_max_ms / 1000,
                settings.socket_connection_setup_timeout_ms / 1000,
                settings.socket_connection_setup_timeout_max_ms / 1000,
            )
        wait = reconnects.not_before - loop.time()
        if wait > 0:
            await asyncio.sleep(wait)
        self._refuse_if_closed()
        try:
            connection = await BrokerConnection.open(
                self._machine,
                host,
                port,
                client_id=settings.client_id,
                connect_timeout=reconnects.setup_timeout,
                request_timeout=settings.request_timeout_ms / 1000,
                receive_buffer_bytes=settings.receive_buffer_bytes,
                send_buffer_bytes=settings.send_buffer_bytes,
                security=self._security,
            )
        except KafkaError as error:
            pause = reconnects.failed(loop.time())
            _log_failure(error, reconnects.failures, pause)
            raise
        if self._closed:
            await connection.close()
            self._refuse_if_closed()
        if reconnects.failures:
            logger.info("connected to %s again", show(host, port))
        else:
            logger.debug("connected to %s for %s", show(host, port), key)
        reconnects.succeeded()
        self._open[key] = connection
        connection.last_used = loop.time()
        connection.ended.add_done_callback(lambda ended: self._ended(key, connection, ended))
        if self._idle_timer is None:
            self._watch_idle(loop)
        return connection

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ClosedError("The client is closed")

    def _ended(
        self, key: Key, connection: BrokerConnection, ended: asyncio.Future[Exception | None]
    ) -> None:
        if self._open.get(key) is connection:
            del self._open[key]
        reason = None if ended.cancelled() else ended.result()
        if reason is not None and not self._closed:
            logger.info("lost the connection to %s: %s; made anew when needed", connection, reason)
            if not connection.is_proven:
                # It was of no use, so it was no success either: the next one has to wait.
                self._reconnects[connection.address].failed(asyncio.get_running_loop().time())

    def _watch_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        limit = self._settings.connections_max_idle_ms / 1000
        if limit < 0 or self._closed:
            return
        due = loop.time() - limit
        for connection in list(self._open.values()):
            if connection.in_flight == 0 and connection.last_used <= due:
                logger.debug("closing the idle connection to %s", connection)
                connection.abandon()
        self._idle_timer = loop.call_later(max(limit / 4, 0.01), self._watch_idle, loop)


def _security(settings: CommonSettings, machine: Machine) -> Security | None:
    if settings.security_protocol == "PLAINTEXT":
        return None
    # Certificates and passwords are for those to import who have some.
    from moldau.client.security import security_of

    return security_of(settings, machine)


def _log_failure(error: KafkaError, failures: int, pause: float) -> None:
    # Once in a log at its usual level is enough for a broker that stays away.
    level = logging.ERROR if isinstance(error, AuthenticationError) else logging.WARNING
    logger.log(
        level if failures == 1 else logging.DEBUG,
        "%s; failure %d, not tried again for %.2f s",
        error.message,
        failures,
        pause,
    )
