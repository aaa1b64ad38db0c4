"""The way of a record before it is queued: interceptors, serializers, a partitioner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from moldau.client.errors import SerializationError
from moldau.client.metadata import ClusterMetadata
from moldau.client.producer.arguments import check_place, needs_bytes, pairs
from moldau.client.producer.batch import Delivery
from moldau.client.producer.interceptors import Interceptors
from moldau.client.producer.partitioners import partitioner_of
from moldau.client.producer.record import ProducerRecord
from moldau.client.serializers import Serialize, serializer_of
from moldau.client.settings import ProducerSettings

OnDelivery = Callable[[Delivery], object]


class PreparedRecord(NamedTuple):
    """A record with its bytes, on its way into the accumulator."""

    record: ProducerRecord
    key: bytes | None
    value: bytes | None
    on_delivery: OnDelivery | None


class Preparation:
    """What the settings of a producer have records go through."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._key_serializer = serializer_of(settings.key_serializer, "key.serializer")
        self._value_serializer = serializer_of(settings.value_serializer, "value.serializer")
        self._interceptors = Interceptors(settings.interceptor_classes)
        self._partitioner = partitioner_of(settings.partitioner_class)

    @property
    def is_nothing(self) -> bool:
        """Whether records go as they come."""
        return (
            self._key_serializer is None
            and self._value_serializer is None
            and not self._interceptors
            and self._partitioner is None
        )

    def prepare(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> PreparedRecord:
        """The way of a record through interceptors and serializers, once."""
        record = _checked(record)
        if self._interceptors:
            record = _checked(self._interceptors.on_send(record))
        key = _serialize(self._key_serializer, record.topic, record.key, "key")
        value = _serialize(self._value_serializer, record.topic, record.value, "value")
        return PreparedRecord(record, key, value, on_delivery)

    def partition_of(self, prepared: PreparedRecord, metadata: ClusterMetadata) -> int | None:
        """Where a record goes by its own word or the partitioner's; None leaves it to the rules."""
        record = prepared.record
        if record.partition is not None or self._partitioner is None:
            return record.partition
        info = metadata.topics.get(record.topic)
        if info is None:  # deleted meanwhile
            return None
        chosen = self._partitioner.partition(record, prepared.key, prepared.value, info)
        check_place(record.topic, chosen, record.timestamp)
        return chosen

    def watch(self, delivery: Delivery, on_delivery: OnDelivery | None) -> None:
        """Tell interceptors and the caller of the record's fate."""
        if self._interceptors:
            delivery.add_done_callback(self._acknowledged)
        if on_delivery is not None:
            delivery.add_done_callback(on_delivery)

    def refused(self, error: Exception) -> None:
        """A record could not be queued; its interceptors have seen it and hear of that."""
        self._interceptors.on_acknowledgement(None, error)

    def _acknowledged(self, delivery: Delivery) -> None:
        error = delivery.exception(0)
        metadata = None if error is not None else delivery.result(0)
        self._interceptors.on_acknowledgement(metadata, error)

    def close(self) -> None:
        self._interceptors.close()


def _checked(record: ProducerRecord) -> ProducerRecord:
    check_place(record.topic, record.partition, record.timestamp)
    return record._replace(headers=pairs(record.headers)) if record.headers else record


def _serialize(serializer: Serialize | None, topic: str, value: Any, what: str) -> bytes | None:
    if value is None:
        return None
    if serializer is not None:
        try:
            value = serializer(topic, value)
        except Exception as error:
            raise SerializationError(
                f"The {what} of a record for {topic!r} cannot be serialized: {error}"
            ) from error
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise needs_bytes(what, value)
