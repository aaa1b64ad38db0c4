"""Which batch of which query is written: what makes writing it again harmless."""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class Batch(NamedTuple):
    query: str
    """The id of the streaming query: another one when a checkpoint is begun anew."""
    number: int
    checkpoint: str | None = None
    """Of the query, for sinks that compare what was planned."""

    def writer(self, sink: str) -> str:
        """A short name of who writes: each query has batches of its own, and several sinks."""
        return hashlib.sha256(f"{self.query}/{sink}".encode()).hexdigest()[:12]
