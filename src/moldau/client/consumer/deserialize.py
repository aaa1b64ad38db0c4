"""Turning the bytes of records into what the user wants to see."""

from __future__ import annotations

from typing import Any

from moldau.client.errors import SerializationError
from moldau.client.serializers import Deserialize, deserializer_of
from moldau.client.settings import ConsumerSettings
from moldau.records.consumer_record import ConsumerRecord


class Deserialization:
    """Applies the deserializers of a consumer to records, in place."""

    def __init__(self, key: Deserialize | None, value: Deserialize | None) -> None:
        self._key = key
        self._value = value

    @classmethod
    def of(cls, settings: ConsumerSettings) -> Deserialization | None:
        """None if keys and values are left as they are."""
        key = deserializer_of(settings.key_deserializer, "key.deserializer")
        value = deserializer_of(settings.value_deserializer, "value.deserializer")
        return None if key is None and value is None else cls(key, value)

    def __call__(self, records: list[ConsumerRecord]) -> int:
        """How many records could be deserialized; the first one that cannot be is an error."""
        for index, record in enumerate(records):
            try:
                key, value = self._convert(record)
            except SerializationError:
                if index == 0:
                    raise
                return index
            record.key, record.value = key, value
        return len(records)

    def _convert(self, record: ConsumerRecord) -> tuple[Any, Any]:
        key, value = record.key, record.value
        what = "key"
        try:
            if self._key is not None and key is not None:
                key = self._key(record.topic, key)
            what = "value"
            if self._value is not None and value is not None:
                value = self._value(record.topic, value)
        except Exception as error:
            raise SerializationError(
                f"The {what} of {record.topic}-{record.partition} offset {record.offset} cannot be "
                f"deserialized: {error}; seek past it to go on"
            ) from error
        return key, value
