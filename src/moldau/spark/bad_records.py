"""Rows that cannot be decoded: an error, a null, or a dead letter, as ``onBadRecord`` says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from moldau.model import TopicPartition
from moldau.records.reader import RecordColumns
from moldau.spark.decode.columns import DecodeError


class BadRecords(Protocol):
    """What becomes of them."""

    def handle(
        self, partition: TopicPartition, columns: RecordColumns, bad: Mapping[int, str]
    ) -> bool:
        """Returns whether these rows, given with the reasons, are to be left out of the batch."""
        ...


class Fail:
    def handle(
        self, partition: TopicPartition, columns: RecordColumns, bad: Mapping[int, str]
    ) -> bool:
        index, reason = next(iter(sorted(bad.items())))
        raise DecodeError(
            f"The record at offset {columns.offsets[index]} of {partition} cannot be decoded: "
            f"{reason}. The option deadLetterTopic puts such records aside, onBadRecord=null "
            "makes nulls of them."
        )


class Null:
    def handle(
        self, _partition: TopicPartition, _columns: RecordColumns, _bad: Mapping[int, str]
    ) -> bool:
        return False
