"""A record on its way out, as interceptors and partitioners see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class ProducerRecord(NamedTuple):
    """``value`` and ``key`` are what ``send`` was given, before serialization."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp: int | None = None
