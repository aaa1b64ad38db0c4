"""Producers: records in, batches out, a fate for each record.

``accumulator``, ``batch``, ``queue``, ``identity``, ``outcomes`` and ``transactions`` are the pure
part; ``sender``, ``core`` and ``transactor`` run it on an event loop; ``async_producer`` and
``producer`` are what programs use.
"""

from moldau.client.producer.async_producer import AsyncProducer
from moldau.client.producer.batch import Delivery, ManyDelivery
from moldau.client.producer.interceptors import ProducerInterceptor
from moldau.client.producer.partitioners import Partitioner, RoundRobinPartitioner
from moldau.client.producer.producer import Producer
from moldau.client.producer.record import ProducerRecord
from moldau.client.producer.result import RecordMetadata

__all__ = [
    "AsyncProducer",
    "Delivery",
    "ManyDelivery",
    "Partitioner",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "RecordMetadata",
    "RoundRobinPartitioner",
]
