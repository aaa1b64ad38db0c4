"""Records on their way out: one as interceptors and partitioners see it, many in their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from moldau.records.batch import Buffer


class ProducerRecord(NamedTuple):
    """``value`` and ``key`` are what ``send`` was given, before serialization."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """What comes after the header of a batch, before compression."""

    data: Buffer
    """Records with offset deltas from 0 on, and timestamp deltas to ``base_timestamp``."""
    count: int
    base_timestamp: int
    max_timestamp: int
    largest: int
    """Bytes of the largest record, which ``max.request.size`` limits."""
