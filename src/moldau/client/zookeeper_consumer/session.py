"""One life of the consumer in ZooKeeper: a session, a membership, a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from moldau.client.zookeeper_consumer.lease import Lease
from moldau.client.zookeeper_consumer.membership import Callbacks, Membership, Retries
from moldau.client.zookeeper_consumer.settings import ZooKeeperConsumerSettings
from moldau.client.zookeeper_consumer.topics import TopicSource
from moldau.coordination.store import CoordinationStore
from moldau.machine import Clock, Machine


async def open_store(settings: ZooKeeperConsumerSettings) -> CoordinationStore:
    # Here, because kazoo is for those who use it.
    from moldau.coordination.zookeeper import ZooKeeperStore

    return await ZooKeeperStore.open(
        settings.zookeeper_connect,
        session_timeout_ms=settings.zookeeper_session_timeout_ms,
        connection_timeout_ms=settings.zookeeper_connection_timeout_ms,
    )


def new_consumer_id(settings: ZooKeeperConsumerSettings, machine: Machine) -> str:
    """As Kafka makes them: unique in the group, and telling where the consumer runs."""
    name = settings.consumer_id
    if name is None:
        host, now, chance = machine.network.host_name(), machine.clock.now_ms(), machine.new_uuid()
        name = f"{host}-{now}-{chance.hex[:8]}"
    return f"{settings.group_id}_{name}"


class Session:
    def __init__(
        self,
        store: CoordinationStore,
        settings: ZooKeeperConsumerSettings,
        topics: TopicSource,
        consumer: str,
        subscription: Mapping[str, int],
        callbacks: Callbacks,
        on_renewal: Callable[[], object],
        clock: Clock,
    ) -> None:
        self._clock = clock
        self.store = store
        self.membership = Membership(
            store,
            settings.group_id,
            consumer,
            subscription,
            topics,
            callbacks,
            Retries(settings.rebalance_backoff_ms / 1000, settings.rebalance_max_retries),
        )
        self.lease = Lease(store, settings.zookeeper_session_timeout_ms / 1000, on_renewal)
        self.expired = asyncio.Event()
        store.on_expired(self._on_expired)

    def _on_expired(self) -> None:
        self.expired.set()

    async def begin(self) -> None:
        await self.lease.start()
        await self.membership.join(self._clock.now_ms())

    async def leave(self) -> None:
        """Give everything up, properly if the session lives."""
        try:
            if not self.expired.is_set():
                await self.membership.leave()
        finally:
            await self.end()

    async def end(self) -> None:
        await self.membership.stop()
        await self.lease.stop()
        await self.store.close()
