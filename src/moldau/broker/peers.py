"""Connections to the other brokers of the cluster, authenticated both ways.

Who has much to say over a long time has a connection of its own (``open``): a fetcher. Single
requests (``call``) go over kept ones, each of which carries one request at a time: answers come in
order, and nobody should wait for another's answer, nor lose the connection by another's time-out.
Kept connections are those to one life of a broker at one address; with its next life they end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from moldau.broker.private_exchange import ask
from moldau.coordination.znodes import BrokerRegistration, Endpoint
from moldau.errors import KafkaError
from moldau.machine import Machine
from moldau.machine.backoff import Backoff
from moldau.machine.clock import Timer
from moldau.net import BufferPool
from moldau.net.address import show
from moldau.net.broker_connection import BrokerConnection
from moldau.net.log_limiter import LogLimiter
from moldau.request_errors import ClientError, ConnectionLostError
from moldau.wire.api import ApiKey
from moldau.wire.private import PrivateApi

log = logging.getLogger(__name__)

MOST_KEPT: Final = 8
"""Connections to one broker for single requests; more requests at a time wait for one."""
KEPT_FOR_S: Final = 30.0
"""Unused. Less than any sane ``connections.max.idle.ms``, so that no request meets the end of its
connection.
"""
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0


class UnreachableError(ConnectionLostError):
    """There is no connection to the broker: nothing was asked of it."""


class PeerSettings(NamedTuple):
    """Who this broker is to the others, and how it reaches them."""

    node_id: int
    cluster_id: str
    secret: str
    listener: str
    """The name of the listener that brokers use among themselves."""
    connect_timeout: float
    request_timeout: float


class _Life(NamedTuple):
    """What kept connections belong to."""

    broker: int
    epoch: int
    endpoint: Endpoint


class _Peer:
    """What is known of one life of another broker."""

    def __init__(self, backoff: Backoff) -> None:
        self.idle: list[BrokerConnection] = []
        self.places = asyncio.Semaphore(MOST_KEPT)
        self.users = 0
        self.backoff = backoff
        self.not_before = 0.0
        """When the next attempt to connect may be made."""

    def drop(self) -> None:
        for connection in self.idle:
            connection.abandon()
        self.idle.clear()


class Peers:
    """The other brokers, as one broker reaches them."""

    def __init__(self, machine: Machine, settings: PeerSettings) -> None:
        self._machine = machine
        self._clock = machine.clock
        self._settings = settings
        self.broker_epoch: Callable[[], int] = lambda: -1
        """Of this broker's present life, for the others to know."""
        self._peers: dict[_Life, _Peer] = {}
        self._sweep: Timer | None = None
        self._is_closed = False
        self._limiter = LogLimiter(log, machine.clock.monotonic, lines=2, interval=60.0)

    # What others use

    async def open(
        self,
        broker: BrokerRegistration,
        purpose: str,
        *,
        within: float | None = None,
        pool: BufferPool | None = None,
    ) -> BrokerConnection:
        """Returns a new connection to the broker, which the caller closes; ``purpose`` is for logs,
        answers are read into buffers of ``pool``.

        Raises UnreachableError. After failures it waits a little before it tries.
        """
        life = self._life(broker)
        peer = self._peer(life)
        peer.users += 1
        try:
            return await self._connect(life, peer, purpose, self._deadline(within), pool)
        finally:
            peer.users -= 1

    async def call(
        self,
        broker: BrokerRegistration,
        api: PrivateApi,
        body: object,
        *,
        answer: Any,
        within: float,
        on_asked: Callable[[], object] | None = None,
    ) -> Any:
        """Returns what the broker answers, an object of type ``answer``; ``on_asked`` is called
        before the question is sent.

        Raises UnreachableError if nothing was asked; another ClientError (of ``request_errors``) if
        it was asked and no answer came, so that nobody knows what became of it; else the KafkaError
        that the broker answers with.
        """

        async def exchange(connection: BrokerConnection, left: float) -> Any:
            if on_asked is not None:
                on_asked()
            return await ask(connection, api, body, answer=answer, within=left)

        return await self._exchange(broker, exchange, within)

    async def request(
        self, broker: BrokerRegistration, api: ApiKey, message: Any, *, within: float
    ) -> Any:
        """The same with an API that every broker serves: a message in its newest shape."""

        async def exchange(connection: BrokerConnection, left: float) -> Any:
            return await connection.request(api, message, within=left)

        return await self._exchange(broker, exchange, within)

    async def _exchange(
        self,
        broker: BrokerRegistration,
        exchange: Callable[[BrokerConnection, float], Awaitable[Any]],
        within: float,
    ) -> Any:
        """Ask over a kept connection."""
        deadline = self._deadline(within)
        life = self._life(broker)
        peer = self._peer(life)
        peer.users += 1
        try:
            await self._place(life, peer, deadline)
            try:
                connection = self._kept(peer)
                if connection is None:
                    connection = await self._connect(life, peer, "requests", deadline)
                try:
                    left = max(deadline - self._clock.monotonic(), 0.0)
                    return await exchange(connection, left)
                finally:
                    self._keep(life, peer, connection)
            finally:
                peer.places.release()
        finally:
            peer.users -= 1

    def close(self) -> None:
        """End the kept connections; nothing is asked any more."""
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for peer in self._peers.values():
            peer.drop()
        self._peers.clear()

    # Connecting

    def _life(self, broker: BrokerRegistration) -> _Life:
        name = self._settings.listener
        for endpoint in broker.endpoints:
            if endpoint.listener.upper() == name:
                return _Life(broker.id, broker.epoch, endpoint)
        raise UnreachableError(
            f"Broker {broker.id} has no listener {name}, which this broker's "
            "inter.broker.listener.name asks for"
        )

    async def _connect(
        self,
        life: _Life,
        peer: _Peer,
        purpose: str,
        deadline: float,
        pool: BufferPool | None = None,
    ) -> BrokerConnection:
        await self._pause(life, peer, deadline)
        try:
            async with asyncio.timeout(max(deadline - self._clock.monotonic(), 0.0)):
                connection = await self._authenticated(life, purpose, pool)
        except TimeoutError:
            # That took all the time that this caller had; others may have more, and need not wait.
            raise UnreachableError(f"{_name(life)} did not take a connection in time") from None
        except KafkaError as error:
            peer.not_before = self._clock.monotonic() + peer.backoff.next_delay()
            raise self._unreachable(life, error) from error
        peer.backoff.reset()
        return connection

    async def _pause(self, life: _Life, peer: _Peer, deadline: float) -> None:
        """Whoever has just failed to be reached is not tried again at once."""
        pause = peer.not_before - self._clock.monotonic()
        if pause <= 0:
            return
        if peer.not_before >= deadline:
            raise UnreachableError(f"{_name(life)} could not be reached just now")
        await asyncio.sleep(pause)

    async def _authenticated(
        self, life: _Life, purpose: str, pool: BufferPool | None
    ) -> BrokerConnection:
        # Imported by the first connection: a broker alone in its cluster never needs it.
        from moldau.broker.peer_authentication import Claim, authenticate

        settings = self._settings
        connection = await BrokerConnection.open(
            self._machine,
            life.endpoint.host,
            life.endpoint.port,
            client_id=f"broker-{settings.node_id}-{purpose}",
            connect_timeout=settings.connect_timeout,
            request_timeout=settings.request_timeout,
            pool=pool,
        )
        try:
            claim = Claim(settings.cluster_id, settings.node_id, self.broker_epoch(), life.broker)
            await authenticate(
                connection,
                claim,
                settings.secret,
                self._machine,
                within=settings.connect_timeout,
            )
        except BaseException:
            connection.abandon()
            raise
        if self._is_closed:
            connection.abandon()
            raise ConnectionLostError("This broker is stopping")
        return connection

    def _unreachable(self, life: _Life, error: KafkaError) -> UnreachableError:
        if not isinstance(error, ClientError):
            # It is there and does not want us, or we do not want it: somebody has to mend that.
            self._limiter.warning(
                f"refused {life.broker}",
                f"{_name(life)} and this broker do not accept each other: {error.message}",
            )
        return UnreachableError(f"{_name(life)} cannot be reached: {error.message}")

    # Keeping

    def _peer(self, life: _Life) -> _Peer:
        if self._is_closed:
            raise UnreachableError("This broker is stopping")
        peer = self._peers.get(life)
        if peer is None:
            backoff = Backoff(self._clock, self._machine.random, _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
            peer = self._peers[life] = _Peer(backoff)
            for other, old in self._peers.items():
                if other.broker == life.broker and other.epoch < life.epoch:
                    old.drop()
            self._arm()
        return peer

    async def _place(self, life: _Life, peer: _Peer, deadline: float) -> None:
        try:
            async with asyncio.timeout(max(deadline - self._clock.monotonic(), 0.0)):
                await peer.places.acquire()
        except TimeoutError:
            raise UnreachableError(f"{_name(life)} is busy with other requests") from None

    @staticmethod
    def _kept(peer: _Peer) -> BrokerConnection | None:
        while peer.idle:
            connection = peer.idle.pop()
            if not connection.closed:
                return connection
        return None

    def _keep(self, life: _Life, peer: _Peer, connection: BrokerConnection) -> None:
        """Keep a connection, unless an answer is still to come over it, or there is a newer life of
        the broker.
        """
        is_outdated = any(
            other.broker == life.broker and other.epoch > life.epoch for other in self._peers
        )
        if connection.in_flight or connection.closed or is_outdated or self._is_closed:
            connection.abandon()
        else:
            peer.idle.append(connection)

    def _arm(self) -> None:
        if self._sweep is None:
            self._sweep = self._clock.call_later(KEPT_FOR_S, self._forget_unused)

    def _forget_unused(self) -> None:
        self._sweep = None
        earliest = asyncio.get_running_loop().time() - KEPT_FOR_S
        now = self._clock.monotonic()
        for life, peer in list(self._peers.items()):
            unused = [each for each in peer.idle if each.closed or each.last_used <= earliest]
            peer.idle = [each for each in peer.idle if each not in unused]
            for connection in unused:
                connection.abandon()
            if not peer.idle and not peer.users and peer.not_before <= now:
                del self._peers[life]
        if self._peers:
            self._arm()

    def _deadline(self, within: float | None) -> float:
        patience = self._settings.connect_timeout if within is None else within
        return self._clock.monotonic() + patience


def _name(life: _Life) -> str:
    endpoint = life.endpoint
    return f"Broker {life.broker} at {show(endpoint.host, endpoint.port)}"
