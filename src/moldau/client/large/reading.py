"""Large messages in an async consumer: what needs storage is read in a thread."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.consumer.position import Position
from moldau.client.large.codec import Convert, LargeMessageCodec
from moldau.machine import Machine
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.records.consumer_record import ConsumerRecord

ByPartition = dict[TopicPartition, list[ConsumerRecord]]


class LargeReading:
    def __init__(self, codec: LargeMessageCodec, convert: Convert | None, machine: Machine) -> None:
        self._machine = machine
        self._blocking = codec.blocking
        self._reader = codec.reader(convert)
        self.check = self._reader.check
        self.forget = self._reader.forget

    async def read(self, fetched: ByPartition) -> ByPartition:
        """The whole messages; partitions without any are left out."""
        if self._blocking:
            return await self._machine.threads.run(self._read, fetched)
        return self._read(fetched)

    def committable(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What may be committed instead of these offsets."""
        safe = {}
        for partition, wanted in offsets.items():
            offset = self._reader.committable(partition, wanted.offset)
            safe[partition] = wanted if offset == wanted.offset else wanted._replace(offset=offset)
        return safe

    def start(self, partition: TopicPartition, position: Position) -> Position:
        """Where to read from to see all again that a poll gave which began at this position."""
        offset = self._reader.committable(partition, position.offset)
        return position if offset == position.offset else Position(offset)

    def _read(self, fetched: ByPartition) -> ByPartition:
        now = self._machine.clock.monotonic()
        whole = {}
        for partition, records in fetched.items():
            messages = self._reader.read(partition, records, now)
            if messages:
                whole[partition] = messages
        return whole
