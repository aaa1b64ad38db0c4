"""Everything that a broker takes from outside itself: its machine, and the coordination store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from moldau.config.values.broker import BrokerConfig
from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.ensemble import Ensemble, EnsembleSettings
from moldau.coordination.storage import DiskStorage
from moldau.coordination.store import CoordinationStore
from moldau.machine import Machine


class Coordination(Protocol):
    """A way to the coordination store."""

    def session(self) -> CoordinationStore:
        """Returns a new session: at the start, and again when one has expired. Its first request
        waits until it has begun.
        """
        ...

    async def close(self) -> None:
        """End all sessions. Safe to call twice."""
        ...


OpenCoordination: TypeAlias = Callable[[Machine, str], Awaitable[Coordination]]
"""Opens the store for a broker whose first log directory is given."""


async def open_embedded(machine: Machine, directory: str) -> EmbeddedStore:
    """Opens the store inside the broker's own process, kept in its first log directory."""
    storage = DiskStorage(machine.disk, directory)
    return await EmbeddedStore.open(storage, machine.threads.run, machine.clock.now_ms)


def coordination_of(config: BrokerConfig) -> OpenCoordination:
    """Returns the way to the store that the settings ask for: with ``zookeeper.connect`` the
    ensemble there, without it the store in the broker's own process.
    """
    connect = config.zookeeper_connect
    if not connect:
        return open_embedded
    settings = EnsembleSettings(
        connect,
        config.value(BrokerConfig.zookeeper_session_timeout_ms),
        config.value(BrokerConfig.zookeeper_connection_timeout_ms),
        config.value(BrokerConfig.zookeeper_digest_credentials),
        config.value(BrokerConfig.zookeeper_set_acl),
    )

    async def open_ensemble(_machine: Machine, _directory: str) -> Ensemble:
        return await Ensemble.open(settings)

    return open_ensemble


@dataclass(frozen=True, slots=True)
class Ports:
    """What a broker is handed: a real machine in production, a simulated one in a simulation."""

    machine: Machine
    open_coordination: OpenCoordination = field(default=open_embedded)
