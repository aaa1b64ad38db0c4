"""Records that say who sent them, so that whatever is read can be held against what was sent."""

from __future__ import annotations

from zlib import crc32

from moldau.model import TopicPartition
from moldau.testing.simulation.checker.history import RecordId


def encode(record: RecordId, partition: TopicPartition, padding: int) -> bytes:
    text = f"{record.producer} {record.number} {partition.topic} {partition.partition} "
    body = text.encode() + b"." * padding
    return b"%08x " % crc32(body) + body


def decode(value: bytes | None, partition: TopicPartition) -> RecordId | None:
    """Returns who sent it, None if this is nothing that anybody sent to the partition."""
    checksum, _, body = (value or b"").partition(b" ")
    if checksum != b"%08x" % crc32(body):
        return None
    try:
        producer, number, topic, index, _ = body.decode().split(" ", 4)
        place = TopicPartition(topic, int(index))
        return RecordId(producer, int(number)) if place == partition else None
    except ValueError:
        return None
