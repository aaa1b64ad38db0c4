"""Ending queries between two batches, where that can be had soon: nothing is done twice then."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

PATIENCE: Final = 20.0
"""Seconds for the batch under way. Process managers wait for longer: Kubernetes for 30 s."""
_PAUSE: Final = 0.05


def await_batches(queries: Iterable[StreamingQuery], patience: float = PATIENCE) -> None:
    """Until the batch that each is at is done; one that takes too long is given up."""
    waiting = {query: _last_batch(query) for query in queries if query.isActive}
    end = time.monotonic() + patience
    while waiting and time.monotonic() < end:
        waiting = {query: batch for query, batch in waiting.items() if _is_at(query, batch)}
        if waiting:
            time.sleep(_PAUSE)


def _is_at(query: StreamingQuery, done: Any) -> bool:
    """Whether it is still at the batch that it was at when batch ``done`` was the last one."""
    if not query.isActive:
        return False
    status: Any = query.status
    busy = status["isTriggerActive"] and status["isDataAvailable"]
    return bool(busy) and _last_batch(query) == done


def _last_batch(query: StreamingQuery) -> Any:
    progress: Any = query.lastProgress
    return None if progress is None else progress["timestamp"]
