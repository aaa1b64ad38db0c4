"""Rows that cannot be decoded go to another topic, with headers that say where they were.

The headers are those of listeners' dead letters, so ``moldau dlq`` shows and redrives both kinds.
Dead letters are acknowledged before the rows around them go on. Those that are there already are
left out (see ``written_letters``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from moldau.client.closing import Closing
from moldau.client.listener.headers import Failure, Source, write_failure
from moldau.client.producer.producer import Producer
from moldau.client.settings import CommonSettings
from moldau.model import TopicPartition
from moldau.records.reader import RecordColumns
from moldau.spark.decode.columns import DecodeError
from moldau.spark.offsets import OffsetRange
from moldau.spark.options import ReadOptions
from moldau.spark.written_letters import WrittenLetters

_EXCEPTION: Final = f"{DecodeError.__module__}.{DecodeError.__qualname__}"


class DeadLetters(Closing):
    """Those of one task, which reads one offset range; connects for the first bad row."""

    def __init__(self, options: ReadOptions, range_: OffsetRange) -> None:
        self._options = options
        self._range = range_
        self._opened: tuple[Producer, WrittenLetters] | None = None

    def handle(
        self, partition: TopicPartition, columns: RecordColumns, bad: Mapping[int, str]
    ) -> bool:
        producer, written = self._opened or self._open()
        with written.looked_at():
            deliveries = [
                producer.send(
                    written.place.topic,
                    columns.values[index],
                    key=columns.keys[index],
                    headers=write_failure(
                        columns.headers[index],
                        self._failure(written, partition, columns, index, reason),
                    ),
                    partition=written.place.partition,
                )
                for index, reason in bad.items()
                if columns.offsets[index] not in written.offsets
            ]
            producer.flush()
            for delivery in deliveries:
                delivery.result(0)
        return True

    def close(self) -> None:
        for one in self._opened or ():
            one.close()

    def _open(self) -> tuple[Producer, WrittenLetters]:
        topic = self._options.dead_letter_topic
        assert topic is not None
        producer = Producer(self._options.settings.given(CommonSettings))
        try:
            partitions = producer.partitions_for(topic)  # creates the topic, if need be
        except BaseException:
            producer.close()
            raise
        self._opened = producer, WrittenLetters(self._options, self._range, len(partitions))
        return self._opened

    def _failure(
        self,
        written: WrittenLetters,
        partition: TopicPartition,
        columns: RecordColumns,
        index: int,
        reason: str,
    ) -> Failure:
        return Failure(
            Source(*partition, columns.offsets[index], columns.timestamps[index]),
            self._options.settings.group_id or "",
            attempts=1,
            exception=_EXCEPTION,
            message=reason,
            traceback="",
            failed_at=time.time_ns() // 1_000_000,
            pipeline=self._options.dead_letter_pipeline,
            topic_id=written.topic_id,
            read_until=max(self._range.batch_end, written.read_until),
        )
