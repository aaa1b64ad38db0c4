"""Rows that cannot be decoded go to another topic, with headers that say where they were.

The headers are those of listeners' dead letters, so ``moldau dlq`` shows and redrives both kinds.
Dead letters are acknowledged before the rows around them go on; a task that runs again writes them
again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from moldau.client.closing import Closing
from moldau.client.listener.headers import Failure, Source, write_failure
from moldau.client.producer.producer import Producer
from moldau.client.settings import CommonSettings
from moldau.model import TopicPartition
from moldau.records.reader import RecordColumns
from moldau.spark.decode.columns import DecodeError
from moldau.spark.options import ReadOptions


class DeadLetters(Closing):
    """A producer that is made for the first bad row."""

    def __init__(self, options: ReadOptions) -> None:
        assert options.dead_letter_topic is not None
        self._topic = options.dead_letter_topic
        self._group = options.settings.group_id or ""
        self._client = options.settings.given(CommonSettings)
        self._producer: Producer | None = None

    def handle(
        self, partition: TopicPartition, columns: RecordColumns, bad: Mapping[int, str]
    ) -> bool:
        if self._producer is None:
            self._producer = Producer(self._client)
        now = time.time_ns() // 1_000_000
        deliveries = []
        for index, reason in bad.items():
            source = Source(*partition, columns.offsets[index], columns.timestamps[index])
            kind = f"{DecodeError.__module__}.{DecodeError.__qualname__}"
            failure = Failure(source, self._group, 1, kind, reason, "", now)
            deliveries.append(
                self._producer.send(
                    self._topic,
                    columns.values[index],
                    key=columns.keys[index],
                    headers=write_failure(columns.headers[index], failure),
                )
            )
        self._producer.flush()
        for delivery in deliveries:
            delivery.result(0)
        return True

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()
