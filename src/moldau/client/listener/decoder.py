"""Deserializing for handlers: a copy, so that dead letters keep the bytes that were read."""

from __future__ import annotations

from moldau.client.consumer.deserialize import Deserialization
from moldau.client.settings import ConsumerSettings
from moldau.records.consumer_record import ConsumerRecord


class Decoder:
    """Goes to other processes with the settings only; deserializers are made where they work."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings
        self._convert = Deserialization.of(settings)

    def __call__(self, record: ConsumerRecord) -> ConsumerRecord:
        if self._convert is None:
            return record
        copy = ConsumerRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.timestamp_type,
            record.key,
            record.value,
            record.headers,
            record.leader_epoch,
        )
        self._convert([copy])
        return copy

    def __reduce__(self) -> tuple[type[Decoder], tuple[ConsumerSettings]]:
        return Decoder, (self._settings,)
