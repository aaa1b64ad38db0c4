"""The old high-level consumer: groups and offsets in ZooKeeper, records from any broker."""

from moldau.client.zookeeper_consumer.async_consumer import AsyncZooKeeperConsumer
from moldau.client.zookeeper_consumer.consumer import ZooKeeperConsumer
from moldau.client.zookeeper_consumer.membership import RebalanceFailedError
from moldau.client.zookeeper_consumer.settings import ZooKeeperConsumerSettings

__all__ = [
    "AsyncZooKeeperConsumer",
    "RebalanceFailedError",
    "ZooKeeperConsumer",
    "ZooKeeperConsumerSettings",
]
