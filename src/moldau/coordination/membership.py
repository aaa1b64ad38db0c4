"""A broker's membership of the cluster: a session on the store, and in it the registration.

A session can end while the broker lives: it was cut off from the store for longer than the timeout,
or stood still. The others then take it for dead. As soon as the store can be reached again the
broker opens another session and registers anew, with a new broker epoch, as one that has just
started; it never gives up. It joins no other cluster that way: a store that was emptied meanwhile,
or replaced by another, knows none of its topics, and would have clients begin anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Final

import msgspec

from moldau.coordination import cluster, paths, znodes
from moldau.coordination.errors import (
    CoordinationError,
    NodeExistsError,
    SessionExpiredError,
    StoreUnavailableError,
)
from moldau.coordination.registration import register
from moldau.coordination.store import CoordinationStore
from moldau.coordination.znodes import BrokerRegistration
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.backoff import Backoff
from moldau.machine.clock import Clock

logger = logging.getLogger(__name__)

OpenSession = Callable[[], CoordinationStore]
Describe = Callable[[], Awaitable[BrokerRegistration]]
"""Says where the broker can be found at present; its epoch does not count."""

_PATIENCE: Final = 1.5
"""Session timeouts for which a broker waits for what its earlier life has registered to go."""


@dataclass(eq=False, slots=True)
class _Session:
    store: CoordinationStore
    is_member: bool = False
    """Whether the broker is registered in it."""
    is_over: bool = False


class Membership:
    """``on_left`` is called the moment a session is lost, ``on_joined`` when the broker has
    registered in another one."""

    def __init__(
        self,
        open_session: OpenSession,
        describe: Describe,
        session_timeout_ms: int,
        clock: Clock,
        random: Random,
        *,
        on_left: Callable[[], object],
        on_joined: Callable[[], object],
    ) -> None:
        self._open_session = open_session
        self._describe = describe
        self._session_timeout_ms = session_timeout_ms
        self._now_ms = clock.now_ms
        self._backoff = Backoff(clock, random)
        self._on_left = on_left
        self._on_joined = on_joined
        self._rejoining: asyncio.Task[None] | None = None
        self._session: _Session | None = None
        self._has_left = False
        self._cluster_id: str | None = None
        """Of the store, when the broker first joined."""
        self.registration: BrokerRegistration | None = None
        """As last registered."""

    @property
    def store(self) -> CoordinationStore:
        """The present session, or the last one while there is none."""
        assert self._session is not None
        return self._session.store

    @property
    def broker_epoch(self) -> int:
        """As last registered; -1 before that."""
        return self.registration.epoch if self.registration is not None else -1

    async def join(self) -> None:
        """Open the first session that lasts and register in it; raises what else keeps the broker
        out.
        """
        while True:
            try:
                await self._join()
            except SessionExpiredError as error:
                logger.warning("The session ended before the broker had joined: %s", error)
            else:
                return
            await self._backoff.wait()

    async def leave(self) -> None:
        """End the session, and with it the registration."""
        self._has_left = True
        if self._rejoining is not None:
            self._rejoining.cancel()
            await asyncio.wait([self._rejoining])
        if self._session is not None:
            # A store that cannot be written misses the broker when it can, or when it starts.
            with suppress(StoreUnavailableError):
                await self._session.store.close()

    async def _join(self) -> None:
        store = self._open_session()
        session = self._session = _Session(store)
        store.on_expired(lambda: self._over(session))
        await self._check_cluster(store)
        await cluster.prepare(store)
        description = await self._describe()
        path = paths.broker_id(description.id)
        data = znodes.encode_broker(description, self._now_ms())
        # A store may keep sessions for longer than it is asked to.
        session_ms = max(self._session_timeout_ms, store.session_timeout_ms)
        try:
            stat = await register(store, path, data, patience_s=_PATIENCE * session_ms / 1000)
        except NodeExistsError as error:
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"Another broker with id {description.id} is running in this cluster.",
            ) from error
        if session.is_over:
            raise SessionExpiredError("the session ended while the broker registered")
        epoch = stat.czxid
        # What was lost was lost before this life began.
        intact_since = description.intact_since if description.intact_since >= 0 else epoch
        self.registration = msgspec.structs.replace(
            description, epoch=epoch, intact_since=intact_since
        )
        session.is_member = True

    async def _check_cluster(self, store: CoordinationStore) -> None:
        """Raises KafkaError if this is not the cluster that the broker has been in."""
        found = await cluster.get_cluster_id(store)
        if self.registration is None:
            self._cluster_id = found
        elif found != self._cluster_id:
            has = "no cluster" if found is None else f"cluster {found}"
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"The coordination store now holds {has}, not {self._cluster_id}: it was emptied, "
                "or is another one.",
            )

    def _over(self, session: _Session) -> None:
        session.is_over = True
        if session.is_member and not self._has_left:
            self._on_left()
            self._rejoining = asyncio.get_running_loop().create_task(self._rejoin())

    async def _rejoin(self) -> None:
        self._backoff.reset()
        while True:
            try:
                await self._join()
                break
            except (CoordinationError, KafkaError) as error:
                logger.warning("The broker cannot join the cluster again yet: %s", error)
            await self._abandon()
            await self._backoff.wait()
        logger.info("The broker has joined the cluster again, with epoch %d", self.broker_epoch)
        self._on_joined()

    async def _abandon(self) -> None:
        """Leave nothing of an attempt behind that a session would keep."""
        with suppress(CoordinationError):
            await self.store.close()
