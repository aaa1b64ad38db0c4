"""Where an acknowledged record is."""

from __future__ import annotations

from typing import NamedTuple


class RecordMetadata(NamedTuple):
    """The offset is -1 when nobody told: with acks=0, and for a repeated batch long stored."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds: the record's own, or the broker's if the topic has LogAppendTime."""
