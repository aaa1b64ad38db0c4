"""A broker's way to a ZooKeeper ensemble: a session for the start, others when one is over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from moldau.coordination.zookeeper import ZooKeeperStore


@dataclass(frozen=True, slots=True)
class EnsembleSettings:
    connect: str
    """``host:port,host:port/chroot``"""
    session_timeout_ms: int
    connection_timeout_ms: int | None = None
    """How long to try at the start; None: as long as a session lasts."""
    credentials: str | None = None
    """``user:password`` of ZooKeeper's digest scheme."""
    own_acl: bool = False
    """Whether nodes are only for who has the credentials."""


class Ensemble:
    """Hands out sessions; made by ``open``."""

    def __init__(self, settings: EnsembleSettings, first: ZooKeeperStore) -> None:
        self._settings = settings
        self._first: ZooKeeperStore | None = first
        self._sessions = [first]

    @classmethod
    async def open(cls, settings: EnsembleSettings) -> Self:
        """Connect; EnsembleError if nobody answers in time."""
        # Here, so that a broker with the store in its own process never pays for kazoo.
        from moldau.coordination.zookeeper import ZooKeeperStore

        first = await ZooKeeperStore.open(
            settings.connect,
            session_timeout_ms=settings.session_timeout_ms,
            connection_timeout_ms=settings.connection_timeout_ms,
            credentials=settings.credentials,
            own_acl=settings.own_acl,
        )
        return cls(settings, first)

    def session(self) -> ZooKeeperStore:
        """Returns a new session; its first request waits until it has begun."""
        from moldau.coordination.zookeeper import ZooKeeperStore

        if self._first is not None:
            first, self._first = self._first, None
            if not first.has_ended:
                return first
        settings = self._settings
        session = ZooKeeperStore.begin(
            settings.connect,
            session_timeout_ms=settings.session_timeout_ms,
            credentials=settings.credentials,
            own_acl=settings.own_acl,
        )
        self._sessions = [one for one in self._sessions if not one.has_ended] + [session]
        return session

    async def close(self) -> None:
        """End all sessions. Safe to call twice."""
        await asyncio.gather(*(session.close() for session in self._sessions))
