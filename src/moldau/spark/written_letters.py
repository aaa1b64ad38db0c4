"""Which dead letters a partition has, asked before more are written: others may write them, too.

Queries of one pipeline, a backfill beside it and tasks that run twice read the same records at the
same time. So whoever writes looks just before, and holds a lock of this machine meanwhile. Between
machines a moment is left in which two of them may write the same letter.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from moldau.client.blocking import LoopThread
from moldau.client.closing import Closing
from moldau.client.cluster import Cluster
from moldau.client.consumer.partition_reader import PartitionReader, ReaderSettings
from moldau.client.errors import AuthorizationError
from moldau.client.listener.headers import read_failure
from moldau.client.offsets import list_offsets
from moldau.client.settings import CommonSettings
from moldau.model import TopicPartition
from moldau.spark.letters_tail import Tail, Writer, spans, target_partition
from moldau.spark.offsets import EARLIEST, LATEST, OffsetRange
from moldau.spark.options import ReadOptions

logger: Final = logging.getLogger("moldau.spark")


class WrittenLetters(Closing):
    """Those of the partition of a source that a task reads."""

    def __init__(self, options: ReadOptions, range_: OffsetRange, partitions: int) -> None:
        """``partitions``: of the topic of dead letters."""
        assert options.dead_letter_topic is not None
        self._source = range_
        target = target_partition(range_.topic_partition, partitions)
        self.place = TopicPartition(options.dead_letter_topic, target)
        """Where they are, and where more go."""
        self._client = options.settings.given(CommonSettings)
        self._writer = Writer(
            options.dead_letter_pipeline,
            options.settings.group_id or "",
            range_.topic_partition,
            "",
        )
        self._tail = Tail(self._writer, range_.batch_start)
        self._seen: int | None = None
        """What is before it was looked at."""
        self._may_look = True
        self._thread = LoopThread("dead letters")
        self._cluster: Cluster | None = None

    @property
    def topic_id(self) -> str:
        """Of the source."""
        return self._writer.topic_id

    @property
    def offsets(self) -> set[int]:
        """Of records that have their letter."""
        return self._tail.offsets

    @property
    def read_until(self) -> int:
        """How far the source's partition was read when these were written."""
        return self._tail.read_until

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """All that are there are known, and nobody on this machine writes others meanwhile."""
        with _locked(self.place):
            self._thread.run(self._look())
            yield

    def close(self) -> None:
        if self._cluster is not None:
            self._thread.run(self._cluster.close())
        self._thread.stop()

    async def _look(self) -> None:
        try:
            if self._cluster is None:
                self._cluster = Cluster(CommonSettings(self._client))
                topic = await self._cluster.topic(self._source.topic)
                self._writer = self._writer._replace(topic_id=str(topic.topic_id))
                self._tail = Tail(self._writer, self._source.batch_start)
            if self._may_look:
                await self._read(self._cluster)
        except AuthorizationError as error:
            self._may_look = False
            logger.warning(
                "whether %s has these dead letters cannot be seen, and some may come twice: %s",
                self.place.topic,
                error.message,
            )

    async def _read(self, cluster: Cluster) -> None:
        end = (await list_offsets(cluster, {self.place: LATEST}))[self.place].offset
        if self._seen is not None:
            if end > self._seen:
                await self._take(cluster, self._seen, end)
        else:
            begin = (await list_offsets(cluster, {self.place: EARLIEST}))[self.place].offset
            for start, stop in spans(begin, end):
                await self._take(cluster, start, stop)
                if self._tail.is_known:
                    break
        self._seen = end

    async def _take(self, cluster: Cluster, start: int, stop: int) -> None:
        settings = ReaderSettings(out_of_range="earliest")
        async with PartitionReader(
            cluster, {self.place: start}, until={self.place: stop}, settings=settings
        ) as reader:
            async for _, records, _ in reader:
                for record in records:
                    if (failure := read_failure(record.headers)) is not None:
                        self._tail.take(failure)


@contextmanager
def _locked(place: TopicPartition) -> Iterator[None]:
    digest = hashlib.sha256(f"{os.getuid()} {place}".encode()).hexdigest()[:16]
    with Path(tempfile.gettempdir(), f"moldau-letters-{digest}.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing it lets go
