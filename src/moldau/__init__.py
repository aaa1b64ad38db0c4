"""Moldau: Apache Kafka's job, done in Python.

The clients can be imported from here::

    from moldau import Admin, Consumer, Producer

Everything is loaded when it is asked for: a broker, or a program that only wants the version, does
not pay for the clients, and a test run that has the pytest plugin pays for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.source import prefer_source_if_asked

prefer_source_if_asked(__name__)

if TYPE_CHECKING:
    from moldau.client.admin import Admin as Admin
    from moldau.client.admin import AsyncAdmin as AsyncAdmin
    from moldau.client.admin import NewTopic as NewTopic
    from moldau.client.consumer import AsyncConsumer as AsyncConsumer
    from moldau.client.consumer import Consumer as Consumer
    from moldau.client.consumer import ConsumerGroupMetadata as ConsumerGroupMetadata
    from moldau.client.consumer import ConsumerInterceptor as ConsumerInterceptor
    from moldau.client.consumer import ConsumerRecord as ConsumerRecord
    from moldau.client.consumer import ConsumerRecords as ConsumerRecords
    from moldau.client.consumer import PartitionReader as PartitionReader
    from moldau.client.consumer import RebalanceListener as RebalanceListener
    from moldau.client.errors import AuthenticationError as AuthenticationError
    from moldau.client.errors import AuthorizationError as AuthorizationError
    from moldau.client.errors import BufferExhaustedError as BufferExhaustedError
    from moldau.client.errors import ClientError as ClientError
    from moldau.client.errors import ClosedError as ClosedError
    from moldau.client.errors import CommitFailedError as CommitFailedError
    from moldau.client.errors import ConcurrentAccessError as ConcurrentAccessError
    from moldau.client.errors import ConfigError as ConfigError
    from moldau.client.errors import ConnectionLostError as ConnectionLostError
    from moldau.client.errors import DeliveryTimeoutError as DeliveryTimeoutError
    from moldau.client.errors import KafkaError as KafkaError
    from moldau.client.errors import LargeMessageError as LargeMessageError
    from moldau.client.errors import NoBrokersError as NoBrokersError
    from moldau.client.errors import NoOffsetForPartitionError as NoOffsetForPartitionError
    from moldau.client.errors import OffsetOutOfRangeError as OffsetOutOfRangeError
    from moldau.client.errors import OutOfOrderSequenceError as OutOfOrderSequenceError
    from moldau.client.errors import ProducerFencedError as ProducerFencedError
    from moldau.client.errors import RecordTooLargeError as RecordTooLargeError
    from moldau.client.errors import SerializationError as SerializationError
    from moldau.client.errors import SslAuthenticationError as SslAuthenticationError
    from moldau.client.errors import TimedOutError as TimedOutError
    from moldau.client.errors import TransactionAbortableError as TransactionAbortableError
    from moldau.client.errors import TransactionStateError as TransactionStateError
    from moldau.client.errors import UnknownTopicError as UnknownTopicError
    from moldau.client.errors import UnsupportedApiError as UnsupportedApiError
    from moldau.client.errors import WakeupError as WakeupError
    from moldau.client.large import Chunking as Chunking
    from moldau.client.large import ClaimCheck as ClaimCheck
    from moldau.client.listener import AckMode as AckMode
    from moldau.client.listener import Acknowledgment as Acknowledgment
    from moldau.client.listener import AsyncListener as AsyncListener
    from moldau.client.listener import Listener as Listener
    from moldau.client.listener import OnError as OnError
    from moldau.client.listener import Ordering as Ordering
    from moldau.client.listener import Retries as Retries
    from moldau.client.producer import AsyncProducer as AsyncProducer
    from moldau.client.producer import Delivery as Delivery
    from moldau.client.producer import ManyDelivery as ManyDelivery
    from moldau.client.producer import Partitioner as Partitioner
    from moldau.client.producer import Producer as Producer
    from moldau.client.producer import ProducerInterceptor as ProducerInterceptor
    from moldau.client.producer import ProducerRecord as ProducerRecord
    from moldau.client.producer import RecordMetadata as RecordMetadata
    from moldau.client.producer import RoundRobinPartitioner as RoundRobinPartitioner
    from moldau.client.serializers import Deserializer as Deserializer
    from moldau.client.serializers import Serializer as Serializer
    from moldau.errors import ErrorCode as ErrorCode
    from moldau.model import Node as Node
    from moldau.model import OffsetAndMetadata as OffsetAndMetadata
    from moldau.model import OffsetAndTimestamp as OffsetAndTimestamp
    from moldau.model import TopicPartition as TopicPartition
    from moldau.version import __version__ as __version__

_EXPORTS = {
    "moldau.client.admin": (
        "Admin",
        "AsyncAdmin",
        "NewTopic",
    ),
    "moldau.client.consumer": (
        "AsyncConsumer",
        "Consumer",
        "ConsumerGroupMetadata",
        "ConsumerInterceptor",
        "ConsumerRecord",
        "ConsumerRecords",
        "PartitionReader",
        "RebalanceListener",
    ),
    "moldau.client.errors": (
        "AuthenticationError",
        "AuthorizationError",
        "BufferExhaustedError",
        "ClientError",
        "ClosedError",
        "CommitFailedError",
        "ConcurrentAccessError",
        "ConfigError",
        "ConnectionLostError",
        "DeliveryTimeoutError",
        "KafkaError",
        "LargeMessageError",
        "NoBrokersError",
        "NoOffsetForPartitionError",
        "OffsetOutOfRangeError",
        "OutOfOrderSequenceError",
        "ProducerFencedError",
        "RecordTooLargeError",
        "SerializationError",
        "SslAuthenticationError",
        "TimedOutError",
        "TransactionAbortableError",
        "TransactionStateError",
        "UnknownTopicError",
        "UnsupportedApiError",
        "WakeupError",
    ),
    "moldau.client.large": (
        "Chunking",
        "ClaimCheck",
    ),
    "moldau.client.listener": (
        "AckMode",
        "Acknowledgment",
        "AsyncListener",
        "Listener",
        "OnError",
        "Ordering",
        "Retries",
    ),
    "moldau.client.producer": (
        "AsyncProducer",
        "Delivery",
        "ManyDelivery",
        "Partitioner",
        "Producer",
        "ProducerInterceptor",
        "ProducerRecord",
        "RecordMetadata",
        "RoundRobinPartitioner",
    ),
    "moldau.client.serializers": (
        "Deserializer",
        "Serializer",
    ),
    "moldau.errors": ("ErrorCode",),
    "moldau.model": (
        "Node",
        "OffsetAndMetadata",
        "OffsetAndTimestamp",
        "TopicPartition",
    ),
    "moldau.version": ("__version__",),
}
"""The public names by the module they live in."""

_PLACES = {name: place for place, names in _EXPORTS.items() for name in names}

__all__ = tuple(_PLACES)


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'moldau' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(place), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
