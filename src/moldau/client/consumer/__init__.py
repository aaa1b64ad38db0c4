"""Consumers: reading topics alone or in a group, asyncio or blocking; and reading partitions.

Names are imported from here when they are asked for: the command line reads partitions without
paying for groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.client.consumer.assignors import Assignor as Assignor
    from moldau.client.consumer.async_consumer import AsyncConsumer as AsyncConsumer
    from moldau.client.consumer.consumer import Consumer as Consumer
    from moldau.client.consumer.interceptors import ConsumerInterceptor as ConsumerInterceptor
    from moldau.client.consumer.partition_reader import PartitionReader as PartitionReader
    from moldau.client.consumer.rebalance_listener import RebalanceListener as RebalanceListener
    from moldau.client.consumer.records import ConsumerRecords as ConsumerRecords
    from moldau.client.consumer.types import ConsumerGroupMetadata as ConsumerGroupMetadata
    from moldau.records.consumer_record import ConsumerRecord as ConsumerRecord

_PLACES = {
    "Assignor": "moldau.client.consumer.assignors",
    "AsyncConsumer": "moldau.client.consumer.async_consumer",
    "Consumer": "moldau.client.consumer.consumer",
    "ConsumerGroupMetadata": "moldau.client.consumer.types",
    "ConsumerInterceptor": "moldau.client.consumer.interceptors",
    "ConsumerRecord": "moldau.records.consumer_record",
    "ConsumerRecords": "moldau.client.consumer.records",
    "PartitionReader": "moldau.client.consumer.partition_reader",
    "RebalanceListener": "moldau.client.consumer.rebalance_listener",
}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(place), name)
