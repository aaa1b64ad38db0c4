"""The records that one Fetch brought for one partition, decoded when wanted: a batch at a time, of
batches that hold much some thousand records, so that memory is taken for what is wanted only.

A fetch answers whole batches, so the first may begin before the offset that was asked for and the
last may be cut off. Control batches are not for users; with read_committed, neither are the records
of aborted transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from moldau.client.consumer.fetch.transactions import AbortedTransactions
from moldau.client.consumer.position import Position
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.records.batch import BatchHeader, iter_headers
from moldau.records.consumer_record import ConsumerRecord
from moldau.records.control import read_control_type
from moldau.records.errors import CorruptRecordError, InvalidRecordError
from moldau.records.reader import (
    BatchDecoder,
    RecordColumns,
    read_batch_header,
    read_records,
)

RECORDS_AT_ONCE: Final = 5000

Convert = Callable[[list[ConsumerRecord]], int]
"""Deserializes records in place; how many it managed before one failed. Raises if none."""


class FetchedRecords:
    """Hands out records in order; ``position`` is where to go on after those."""

    __slots__ = (
        "_after_batch",
        "_batch",
        "_batches",
        "_check_crcs",
        "_data",
        "_decoded",
        "_failure",
        "_index",
        "_transactions",
        "partition",
        "position",
        "size",
        "timestamp_type",
    )

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        data: memoryview,
        *,
        aborted: Sequence[tuple[int, int]] | None = None,
        check_crcs: bool = True,
    ) -> None:
        self.partition = partition
        self.position = Position(offset)
        self.size = len(data)
        self.timestamp_type = 0
        """Of the records that take_columns gave last."""
        self._data = data
        self._check_crcs = check_crcs
        self._transactions = None if aborted is None else AbortedTransactions(aborted)
        self._batches: Iterator[tuple[int, BatchHeader]] = iter_headers(data)
        self._batch: tuple[BatchHeader, BatchDecoder] | None = None
        self._decoded: list[ConsumerRecord] = []
        self._index = 0
        self._after_batch = Position(offset)
        self._failure: KafkaError | None = None

    def take(self, limit: int, convert: Convert | None = None) -> list[ConsumerRecord]:
        """Up to that many records; none only when there are no more."""
        while self._index == len(self._decoded):
            if not self._decode_next():
                return []
        start = self._index
        if start == 0 and len(self._decoded) <= limit:
            records = self._decoded
        else:
            records = self._decoded[start : start + limit]
        count = len(records)
        if convert is not None:
            count = convert(records)
            records = records[:count]
        self._advance(start + count)
        return records

    def take_columns(self) -> RecordColumns | None:
        """A batch, or as much of it as is decoded at once, field by field; None when there are no
        more. Not to be mixed with take.
        """
        batch = self._current()
        if batch is None:
            return None
        header, decoder = batch
        try:
            columns = decoder.read_columns(RECORDS_AT_ONCE)
        except (CorruptRecordError, InvalidRecordError) as error:
            raise self._damaged(error) from error
        first = self.position.offset
        if columns.offsets and columns.offsets[0] < first:
            keep = next((i for i, o in enumerate(columns.offsets) if o >= first), None)
            _drop(columns, len(columns.offsets) if keep is None else keep)
        self.position = self._behind(header, decoder)
        self.timestamp_type = header.timestamp_type
        return columns

    def end_offset(self) -> int:
        """The offset after the last whole batch that came; as asked for if there is none."""
        end = self.position.offset
        for _, header in iter_headers(self._data):
            end = max(end, header.next_offset)
        return end

    def _advance(self, index: int) -> None:
        """Everything before ``index`` is out; at the end of a batch its gaps are passed, too."""
        self._index = index
        if index == len(self._decoded):
            self.position = self._after_batch
            self._decoded, self._index = [], 0
        else:
            upcoming = self._decoded[index]
            self.position = Position(upcoming.offset, upcoming.leader_epoch)

    def _decode_next(self) -> bool:
        batch = self._current()
        if batch is None:
            return False
        header, decoder = batch
        topic, number = self.partition
        try:
            self._decoded = decoder.read_consumer_records(
                topic, number, self.position.offset, RECORDS_AT_ONCE
            )
        except (CorruptRecordError, InvalidRecordError) as error:
            raise self._damaged(error) from error
        self._index = 0
        self._after_batch = self._behind(header, decoder)
        if not self._decoded:
            self.position = self._after_batch
        return True

    def _current(self) -> tuple[BatchHeader, BatchDecoder] | None:
        """The batch to read from, with records left; None when there are no more."""
        if self._batch is None or self._batch[1].is_done:
            self._batch = None
            visible = self._next_visible()
            if visible is not None:
                at, header = visible
                try:
                    self._batch = header, BatchDecoder(self._data, at, header)
                except InvalidRecordError as error:  # a codec that there is not
                    raise self._damaged(error) from error
        elif self._failure is not None:
            raise self._failure
        return self._batch

    def _behind(self, header: BatchHeader, decoder: BatchDecoder) -> Position:
        """Behind what was decoded; never before the position, where reading may have begun."""
        offset = max(decoder.next_offset, self.position.offset)
        return Position(offset, header.partition_leader_epoch)

    def _next_visible(self) -> tuple[int, BatchHeader] | None:
        """The next batch with records for the user; passes over all others."""
        if self._failure is not None:
            raise self._failure
        try:
            for at, header in self._batches:
                if header.last_offset < self.position.offset:
                    continue
                read_batch_header(self._data, at, check_crc=self._check_crcs)
                if self._is_visible(at, header):
                    return at, header
                self.position = Position(header.next_offset, header.partition_leader_epoch)
        except (CorruptRecordError, InvalidRecordError) as error:
            raise self._damaged(error) from error
        return None

    def _is_visible(self, at: int, header: BatchHeader) -> bool:
        transactions = self._transactions
        hidden = transactions is not None and transactions.hides(header)
        if not header.is_control:
            return not hidden
        if transactions is not None:
            for marker in read_records(self._data, at, check_crc=False):
                transactions.ended(header, read_control_type(marker.key))
        return False

    def _damaged(self, error: Exception) -> KafkaError:
        """There is no way past it but a seek, which drops this object: it will fail again."""
        self._failure = KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"{self.partition} cannot be read at offset {self.position.offset}: {error}",
        )
        return self._failure


def _drop(columns: RecordColumns, count: int) -> None:
    del columns.offsets[:count]
    del columns.timestamps[:count]
    del columns.keys[:count]
    del columns.values[:count]
    del columns.headers[:count]
