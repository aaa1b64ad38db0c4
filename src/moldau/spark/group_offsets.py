"""Offsets of streaming queries where group tools look for them; the checkpoint remains the truth.

With ``kafka.group.id`` the source commits by itself, but Spark tells it of a batch's end only when
the next batch begins, and never of the last one. A listener hears of each batch when it is done::

    spark.streams.addListener(GroupOffsetListener("orders-etl", "localhost:9092", query="orders"))
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from moldau.client.admin.admin import Admin
from moldau.client.errors import KafkaError
from moldau.model import OffsetAndMetadata
from moldau.spark.offsets import OffsetError, parse_offsets

logger: Final = logging.getLogger("moldau.spark")


class GroupOffsetListener(StreamingQueryListener):
    """Commits the end of each batch of one query to a group, for one of its sources."""

    def __init__(
        self,
        group: str,
        bootstrap_servers: str,
        *,
        query: str,
        source: int = 0,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """``query``: its name or its id; ``source``: which, if it reads from several."""
        self._group = group
        self._query = query
        self._source = source
        self._runs: set[str] = set()
        self._ended = threading.Event()
        self._admin = Admin({"bootstrap.servers": bootstrap_servers, **(config or {})})

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        if self._query in (event.name, str(event.id)):
            self._ended.clear()
            self._runs.add(str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        if self._query not in (progress.name, str(progress.id)):
            return
        try:
            end = parse_offsets(progress.sources[self._source].endOffset)
            offsets = {partition: OffsetAndMetadata(offset) for partition, offset in end.items()}
            for outcome in self._admin.alter_group_offsets(self._group, offsets):
                if outcome.error is not None:
                    raise outcome.error
        except (KafkaError, OffsetError) as error:
            logger.warning("offsets were not committed to group %s: %s", self._group, error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        if str(event.runId) in self._runs:
            self._runs.remove(str(event.runId))
            if not self._runs:  # the end of a run may be heard of after the next one's start
                self._ended.set()

    def wait(self, timeout: float = 60.0) -> bool:
        """Until the end of the query has been heard of; whether it was.

        Spark tells listeners of a batch some time after it, also of the last one.
        """
        return self._ended.wait(timeout)

    def close(self) -> None:
        """End the connection; remove the listener from the session before."""
        self._admin.close()
