"""Chunks become messages again: pure state of one consumer.

Chunks of one message come in order, those of different messages in one partition interleave. A
message becomes a record when its last chunk is there, at the last chunk's offset. As long as that
is not done with, nothing after its first chunk is committed, so that a crash re-reads all of it.
Therefore chunks whose first one was never seen belong to messages that were done with before, and
mean nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from moldau.client.large.chunk_headers import (
    ChunkHeaders,
    read_chunk_headers,
    without_chunk_headers,
)
from moldau.client.large.codec import Convert, OnDamage
from moldau.client.large.damage import Damages
from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord

logger: Final = logging.getLogger(__name__)

_MESSAGE_COST: Final = 1024
_PART_COST: Final = 64
"""What messages and chunks take beside their bytes: chunks without any are not for nothing."""


class AssemblySettings(NamedTuple):
    buffer_memory: int
    timeout: float
    """Seconds without a new chunk."""
    on_damage: OnDamage


class _Message:
    """A message that is not whole yet."""

    __slots__ = ("chunk", "first", "parts", "seen", "size")

    def __init__(self, chunk: ChunkHeaders, first: ConsumerRecord) -> None:
        self.chunk = chunk
        self.first = first
        self.parts: list[bytes] = []
        self.size = 0
        self.seen = 0.0


class Assembler:
    """A :class:`LargeMessageReader`."""

    def __init__(self, settings: AssemblySettings, convert: Convert | None) -> None:
        self._settings = settings
        self._convert = convert
        self._open: dict[TopicPartition, dict[bytes, _Message]] = {}
        """Messages by partition and id, in the order of their first chunks."""
        self._whole: dict[TopicPartition, list[tuple[int, int]]] = {}
        """First and last offset of the messages handed out, as far as commits may touch them."""
        self._damages = Damages(settings.on_damage)
        self.buffered = 0
        """Bytes that all messages take which are not whole."""

    def read(
        self, partition: TopicPartition, records: Sequence[ConsumerRecord], now: float
    ) -> list[ConsumerRecord]:
        whole = []
        for record in records:
            chunk = read_chunk_headers(record.headers) if record.headers else None
            first = record.offset
            done: ConsumerRecord | None = record
            if chunk is not None:
                completed = self._add(partition, record, chunk, now)
                first, done = completed if completed is not None else (first, None)
            if done is not None and self._converted(partition, done, first):
                whole.append(done)
        if partition in self._open:
            # Only now: what was in the log all the time is not late because we are.
            self._give_up_old(partition, now)
        return whole

    def check(self) -> None:
        self._damages.check()

    def committable(self, partition: TopicPartition, offset: int) -> int:
        # Messages that end before it are done with, whatever of them lies after it.
        spans = [span for span in self._whole.get(partition, ()) if span[1] >= offset]
        self._whole[partition] = spans
        firsts = [first for first, _ in spans]
        messages = self._open.get(partition)
        if messages:
            firsts.append(next(iter(messages.values())).first.offset)
        return self._damages.lowest(partition, min([offset, *firsts]))

    def forget(self, partition: TopicPartition) -> None:
        for message in self._open.pop(partition, {}).values():
            self.buffered -= message.size
        self._whole.pop(partition, None)
        self._damages.forget(partition)

    def _add(
        self, partition: TopicPartition, record: ConsumerRecord, chunk: ChunkHeaders, now: float
    ) -> tuple[int, ConsumerRecord] | None:
        """First offset and record of the message that this chunk completes."""
        messages = self._open.setdefault(partition, {})
        message = messages.get(chunk.message_id)
        if message is None:
            if chunk.index > 0:
                return None
            message = messages[chunk.message_id] = _Message(chunk, record)
        expected = len(message.parts)
        if chunk.index < expected:
            return None  # a repeated send of a producer without idempotence
        if chunk.index > expected:
            self._damaged(partition, message, f"chunk {expected} of {chunk.count} is missing")
            return None
        value = record.value or b""
        cost = len(value) + _PART_COST if message.parts else _cost_of_first(record)
        if self.buffered + cost > self._settings.buffer_memory:
            self._give_up_old(None, now)
            if self.buffered + cost > self._settings.buffer_memory:
                self._damaged(partition, message, "it does not fit into buffer_memory")
                return None
        message.parts.append(value)
        message.size += cost
        message.seen = now
        self.buffered += cost
        if chunk.index + 1 < chunk.count:
            return None
        return self._finish(partition, message, record)

    def _finish(
        self, partition: TopicPartition, message: _Message, last: ConsumerRecord
    ) -> tuple[int, ConsumerRecord] | None:
        value = b"".join(message.parts)
        if sha256(value).digest() != message.chunk.digest:
            self._damaged(partition, message, "its digest is wrong")
            return None
        self._drop(partition, message)
        first = message.first.offset
        if first < last.offset:
            self._whole.setdefault(partition, []).append((first, last.offset))
        return first, ConsumerRecord(
            last.topic,
            last.partition,
            last.offset,
            message.first.timestamp,
            message.first.timestamp_type,
            message.first.key,
            value,
            without_chunk_headers(message.first.headers),
            last.leader_epoch,
        )

    def _converted(self, partition: TopicPartition, record: ConsumerRecord, first: int) -> bool:
        if self._convert is not None:
            try:
                self._convert(record)
            except Exception as error:
                self._damages.add(partition, first, str(error), error)
                return False
        return True

    def _damaged(self, partition: TopicPartition, message: _Message, what: str) -> None:
        self._drop(partition, message)
        self._damages.add(partition, message.first.offset, what)

    def _drop(self, partition: TopicPartition, message: _Message) -> None:
        del self._open[partition][message.chunk.message_id]
        self.buffered -= message.size

    def _give_up_old(self, partition: TopicPartition | None, now: float) -> None:
        """Of one partition, or of all when room is needed."""
        for where in list(self._open) if partition is None else [partition]:
            for message in list(self._open[where].values()):
                if message.parts and now - message.seen >= self._settings.timeout:
                    self._drop(where, message)
                    logger.warning(
                        "Gave up a large message at %s offset %d: %d of %d chunks came",
                        where,
                        message.first.offset,
                        len(message.parts),
                        message.chunk.count,
                    )


def _cost_of_first(record: ConsumerRecord) -> int:
    """The first chunk stays as it is, with key and headers, until its message is whole."""
    headers = sum(len(name) + len(value or b"") + _PART_COST for name, value in record.headers)
    return _MESSAGE_COST + len(record.key or b"") + len(record.value or b"") + headers
