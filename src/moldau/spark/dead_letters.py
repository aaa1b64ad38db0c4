"""Rows that cannot be decoded go to another topic, with headers that say where they were.

The headers are those of listeners' dead letters, so ``moldau dlq`` shows and redrives both kinds.
Dead letters are acknowledged before the rows around them go on. A task that runs again leaves out
those that are there (see ``letters_tail``): before its first letter it looks at the end of the
partition that they go to.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final

from moldau.client.blocking import LoopThread
from moldau.client.closing import Closing
from moldau.client.cluster import Cluster
from moldau.client.consumer.partition_reader import PartitionReader, ReaderSettings
from moldau.client.errors import AuthorizationError
from moldau.client.listener.headers import Failure, Source, read_failure, write_failure
from moldau.client.offsets import list_offsets
from moldau.client.producer.producer import Producer
from moldau.client.settings import CommonSettings
from moldau.model import TopicPartition
from moldau.records.reader import RecordColumns
from moldau.spark.decode.columns import DecodeError
from moldau.spark.letters_tail import Tail, Writer, spans, target_partition
from moldau.spark.offsets import EARLIEST, LATEST, OffsetRange
from moldau.spark.options import ReadOptions

logger: Final = logging.getLogger("moldau.spark")

_EXCEPTION: Final = f"{DecodeError.__module__}.{DecodeError.__qualname__}"


class DeadLetters(Closing):
    """Those of one task, which reads one offset range; connects for the first bad row."""

    def __init__(self, options: ReadOptions, range_: OffsetRange) -> None:
        assert options.dead_letter_topic is not None
        self._topic = options.dead_letter_topic
        self._pipeline = options.dead_letter_pipeline
        self._group = options.settings.group_id or ""
        self._client = options.settings.given(CommonSettings)
        self._range = range_
        self._producer: Producer | None = None
        self._target = 0
        self._topic_id = ""
        self._written: set[int] = set()
        self._read_until = range_.batch_end

    def handle(
        self, partition: TopicPartition, columns: RecordColumns, bad: Mapping[int, str]
    ) -> bool:
        if self._producer is None:
            self._producer = Producer(self._client)
            self._begin(self._producer)
        now = time.time_ns() // 1_000_000
        deliveries = []
        for index, reason in bad.items():
            offset = columns.offsets[index]
            if offset in self._written:
                continue
            failure = Failure(
                Source(*partition, offset, columns.timestamps[index]),
                self._group,
                attempts=1,
                exception=_EXCEPTION,
                message=reason,
                traceback="",
                failed_at=now,
                pipeline=self._pipeline,
                topic_id=self._topic_id,
                read_until=self._read_until,
            )
            deliveries.append(
                self._producer.send(
                    self._topic,
                    columns.values[index],
                    key=columns.keys[index],
                    headers=write_failure(columns.headers[index], failure),
                    partition=self._target,
                )
            )
        self._producer.flush()
        for delivery in deliveries:
            delivery.result(0)
        return True

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()

    def _begin(self, producer: Producer) -> None:
        """Learn where letters go, and which are there."""
        partitions = producer.partitions_for(self._topic)  # creates the topic, if need be
        self._target = target_partition(self._range.topic_partition, len(partitions))
        thread = LoopThread("dead letters")
        try:
            thread.run(self._look())
        finally:
            thread.stop()

    async def _look(self) -> None:
        cluster = Cluster(CommonSettings(self._client))
        try:
            self._topic_id = str((await cluster.topic(self._range.topic)).topic_id)
            await self._read_tail(cluster)
        except AuthorizationError as error:
            logger.warning(
                "whether %s has these dead letters cannot be seen, and some may come twice: %s",
                self._topic,
                error.message,
            )
        finally:
            await cluster.close()

    async def _read_tail(self, cluster: Cluster) -> None:
        range_ = self._range
        writer = Writer(self._pipeline, self._group, range_.topic_partition, self._topic_id)
        tail = Tail(writer, range_.batch_start)
        target = TopicPartition(self._topic, self._target)
        begin = (await list_offsets(cluster, {target: EARLIEST}))[target].offset
        end = (await list_offsets(cluster, {target: LATEST}))[target].offset
        for start, stop in spans(begin, end):
            settings = ReaderSettings(out_of_range="earliest")
            async with PartitionReader(
                cluster, {target: start}, until={target: stop}, settings=settings
            ) as reader:
                async for _, records, _ in reader:
                    for record in records:
                        if (failure := read_failure(record.headers)) is not None:
                            tail.take(failure)
            if tail.is_known:
                break
        self._written = tail.offsets
        self._read_until = max(self._read_until, tail.read_until)
