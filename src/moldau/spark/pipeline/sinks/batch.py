"""Which batch of which query is written: what makes writing it again harmless."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame


class SinkError(Exception):
    """A batch cannot be written; the text says what to do."""


class Batch(NamedTuple):
    query: str
    """The id of the streaming query: another one when a checkpoint is begun anew."""
    number: int
    checkpoint: str | None = None
    """Of the query, for sinks that compare what was planned."""

    def writer(self, sink: str) -> str:
        """A short name of who writes: each query has batches of its own, and several sinks."""
        return hashlib.sha256(f"{self.query}/{sink}".encode()).hexdigest()[:12]


def query_id(spark: Any) -> str:
    """Of the streaming query whose batch is written in this thread."""
    return str(spark.sparkContext.getLocalProperty("sql.streaming.queryId"))


def keep(frame: DataFrame, kept: ExitStack) -> DataFrame:
    """Compute a frame once, for all that read it until the stack is closed."""
    frame.persist()
    kept.callback(frame.unpersist)
    return frame


def begin(writer: str, number: int) -> bool:
    """Note that a batch begins; whether it may have been written before, at least in part.

    Numbers only grow: what is greater than all that this process has begun is new, unless the
    process itself is. Looking for traces of earlier attempts is left out then.
    """
    known = _begun.get(writer)
    _begun[writer] = number if known is None else max(known, number)
    return known is None or number <= known


def has_begun(writer: str) -> bool:
    """Whether this process has written a batch, or tried to."""
    return writer in _begun


_begun: Final[dict[str, int]] = {}
