"""An offset range, fetched on an executor: one answer of the broker at a time, the next one ahead.

The connection lives on an event loop in a thread of its own, so that the broker's next answer comes
in while Spark's thread decodes the last. Fetches follow the leader and are tried again until
``kafkaConsumer.pollTimeoutMs`` has passed without a record. An answer is asked for no larger than
the rest of the range is likely to be: a batch of few records does not fetch megabytes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Final

from moldau.client.blocking import LoopThread
from moldau.client.closing import Closing
from moldau.client.cluster import Cluster
from moldau.client.consumer.fetch.fetched import FetchedRecords
from moldau.client.offsets import list_offsets
from moldau.errors import ErrorCode, KafkaError
from moldau.fetch import FetchParams, PartitionFetch, fetch
from moldau.request_errors import check
from moldau.spark.offsets import EARLIEST, LATEST, DataLossError, OffsetRange
from moldau.spark.options import ReadOptions
from moldau.wire.fetch import FetchedPartition

logger: Final = logging.getLogger("moldau.spark")

BULK_FETCH_BYTES: Final = 8 * 1024 * 1024
"""``max.partition.fetch.bytes`` unless it is given: a task reads one partition, and all of it."""
FIRST_FETCH_BYTES: Final = 1024 * 1024
"""Before the size of a record is known."""
_ESTIMATE_MARGIN: Final = 1.1
_SMALLEST_FETCH: Final = 16 * 1024


_MAY_BE_GONE: Final = (
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
"""What brokers say for a while when leaders change, and for ever of what was deleted."""

_Pending = Future[tuple[int, FetchedPartition | None]]


class RangeFetcher(Closing):
    """``for fetched in RangeFetcher(options, range)``: the answers that cover an offset range."""

    def __init__(self, options: ReadOptions, range_: OffsetRange) -> None:
        self._options = options
        self._settings = options.settings
        self._range = range_
        self._partition = range_.topic_partition
        self._largest = BULK_FETCH_BYTES
        if "max.partition.fetch.bytes" in self._settings.explicit:
            self._largest = self._settings.max_partition_fetch_bytes
        self._size = min(self._largest, FIRST_FETCH_BYTES)
        self._thread = LoopThread("Spark reader")
        self._cluster: Cluster | None = None

    def __iter__(self) -> Iterator[FetchedRecords]:
        position, end = self._range.start, self._range.end
        pending: _Pending | None = self._submit(position)
        while pending is not None:
            position, answer = pending.result()
            pending = None
            if answer is None:
                return
            data: Any = answer.records
            aborted = (answer.aborted or ()) if self._options.read_committed else None
            fetched = FetchedRecords(
                self._partition,
                position,
                data,
                aborted=aborted,
                check_crcs=self._settings.check_crcs,
            )
            following = fetched.end_offset()
            if following == position:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"{self._partition} answered no whole batch at offset {position}",
                )
            if following < end:
                per_offset = len(data) / (following - position)
                likely = int((end - following) * per_offset * _ESTIMATE_MARGIN)
                self._size = max(min(self._largest, likely), _SMALLEST_FETCH)
                pending = self._submit(following)
            yield fetched

    def close(self) -> None:
        try:
            if self._cluster is not None:
                self._thread.run(self._cluster.close())
        finally:
            self._thread.stop()

    def _submit(self, position: int) -> _Pending:
        return asyncio.run_coroutine_threadsafe(self._answer(position), self._thread.loop)

    async def _answer(self, position: int) -> tuple[int, FetchedPartition | None]:
        """An answer with records, and the offset it was asked for; None when there are no more."""
        if self._cluster is None:
            self._cluster = Cluster(self._settings)
        backoff = self._cluster.backoff(self._options.poll_timeout)
        while True:
            try:
                answer = await self._fetch(self._cluster, position)
                if answer.records:
                    return position, answer
                committed = self._options.read_committed
                last = answer.last_stable_offset if committed else answer.high_watermark
                waiting_for = KafkaError(
                    ErrorCode.OFFSET_NOT_AVAILABLE,
                    f"{self._partition} ends at offset {last}, the range to read at "
                    f"{self._range.end}",
                )
            except KafkaError as error:
                if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    moved = await self._out_of_range(self._cluster, position)
                    if moved is None:
                        return position, None
                    position = moved
                    continue
                if not error.retriable and error.code not in _MAY_BE_GONE:
                    raise
                waiting_for = error
            self._cluster.forget(self._partition.topic)
            try:
                await backoff.pause(waiting_for)
            except KafkaError as error:
                if error.code not in _MAY_BE_GONE:
                    raise
                self._lost(error.message)
                return position, None

    async def _out_of_range(self, cluster: Cluster, position: int) -> int | None:
        """The next offset that is there, if it lies in the range and loss is tolerated."""
        partition = self._partition
        first = (await list_offsets(cluster, {partition: EARLIEST}))[partition].offset
        last = (await list_offsets(cluster, {partition: LATEST}))[partition].offset
        self._lost(f"{partition} has offsets {first} to {last}, not {position}")
        return first if position < first < self._range.end else None

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{what}. Records between offsets {self._range.start} and {self._range.end} may "
                "have been deleted before they were read. If that is fine for this query, set the "
                "option failOnDataLoss to false."
            )
        logger.warning("%s; reading goes on because failOnDataLoss is false", what)

    async def _fetch(self, cluster: Cluster, position: int) -> FetchedPartition:
        settings = self._settings
        leader, epoch = await cluster.leader(self._partition)
        topic = await cluster.topic(self._partition.topic)
        connection = await cluster.connection(leader, "fetch")
        params = FetchParams(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=max(settings.fetch_max_bytes, self._size),
            read_committed=self._options.read_committed,
        )
        wanted = {self._partition: PartitionFetch(topic.topic_id, position, self._size, epoch)}
        answer = await fetch(connection, wanted, params, within=cluster.request_timeout)
        check(answer.error_code)
        result = answer.partitions[self._partition]
        check(result.error_code)
        return result
