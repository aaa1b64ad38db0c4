"""The ZooKeeper consumer for programs that do not use asyncio."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.blocking import BlockingClient, blocking
from moldau.client.zookeeper_consumer.async_consumer import AsyncZooKeeperConsumer
from moldau.model import TopicPartition


class ZooKeeperConsumer(BlockingClient[AsyncZooKeeperConsumer]):
    """``with ZooKeeperConsumer(zookeeper_connect=…, group_id=…, bootstrap_servers=…) as c: …``"""

    def __init__(self, config: Mapping[str, object] | None = None, /, **settings: object) -> None:
        super().__init__(
            AsyncZooKeeperConsumer(config, machine=None, **settings), "ZooKeeper consumer"
        )

    subscribe = blocking(AsyncZooKeeperConsumer.subscribe)
    poll = blocking(AsyncZooKeeperConsumer.poll)
    commit = blocking(AsyncZooKeeperConsumer.commit)

    def assignment(self) -> set[TopicPartition]:
        return self._inner.assignment()

    def close(self, timeout: float = 10.0) -> None:
        self._thread.run(self._inner.close(timeout))
        self._thread.stop()
