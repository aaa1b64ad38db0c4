"""Columns of rows into a producer: grouped by partition, cut into batches, encoded by the column.

Within a partition rows keep their order. Where rows go to many partitions, some are collected
first, so that batches are worth their requests. A partitioner of the user's wants to see single
records; only then they are sent one by one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from moldau.client.producer.batch import Delivery, ManyDelivery
from moldau.client.producer.bulk import BulkProducer, Layout
from moldau.client.producer.producer import Producer
from moldau.spark.encode import Columns, Ints, encode, encode_headers
from moldau.spark.partitioning import NOWHERE, named_partitions, partitions_of_keys

BULK_SETTINGS: Final = {"batch.size": "524288", "linger.ms": "20"}
"""Instead of the producer's defaults, which are for single records: a task has many."""

Batches = Iterable[tuple[int, tuple[int, int]]]
"""Partitions, and which rows go there together."""

_MOST_COLLECTED: Final = 16 * 1024 * 1024
"""Bytes of rows that wait for more before they are encoded."""


class RowProducer:
    """Sends record batches of rows through a producer, which it closes at its end."""

    def __init__(self, producer: Producer, topic: str | None, schema: StructType) -> None:
        self._producer = producer
        self._bulk = BulkProducer(producer)
        self._topic = topic
        self._names = schema.fieldNames()
        ruling = {"partition"} if self._bulk.ignores_keys else {"key", "partition"}
        self._anywhere = not ruling & set(self._names)
        """Whether rows may go to any partition, so that each finds a batch with its neighbours."""
        self._deliveries: deque[Delivery | ManyDelivery] = deque()
        self._collected: list[pa.RecordBatch] = []
        self._collected_bytes = 0
        self._enough = 0
        """Bytes of rows that are worth encoding; known when their topics are."""
        self.sent = 0

    def send(self, batch: pa.RecordBatch) -> None:
        """Take all rows; waits for room only."""
        if not self._bulk.possible:
            self._send_each(dict(zip(self._names, batch.columns, strict=True)))
        else:
            for part in _parts(batch):
                self._collected.append(part)
                self._collected_bytes += part.nbytes
                if self._collected_bytes >= self._enough:
                    self._send_collected()
        self.sent += len(batch)
        while self._deliveries and self._deliveries[0].done():
            _check(self._deliveries.popleft())

    def flush(self) -> None:
        """Wait until every row is acknowledged; raises what the first that is not failed with."""
        self._send_collected()
        self._producer.flush()
        while self._deliveries:
            _check(self._deliveries.popleft())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._producer.close(None if error is None else 0)

    def _send_collected(self) -> None:
        batches, self._collected, self._collected_bytes = self._collected, [], 0
        columns = {
            name: _joined([batch.column(place) for batch in batches])
            for place, name in enumerate(self._names)
            if batches
        }
        self._enough = 0
        for topic, rows in self._by_topic(columns):
            layout = self._bulk.layout(topic)
            self._send_topic(topic, layout, rows)
            self._enough += layout.batch_size * (1 if self._anywhere else layout.partitions)
        self._enough = min(self._enough, _MOST_COLLECTED)

    def _by_topic(self, columns: dict[str, pa.Array]) -> Iterator[tuple[str, dict[str, pa.Array]]]:
        """As in the connector, the option goes before the column."""
        topics = columns.pop("topic", None)
        if self._topic is not None:
            if columns:
                yield self._topic, columns
        elif topics is not None:
            if topics.null_count:
                raise ValueError("A row has null for its topic")
            coded = topics.dictionary_encode()
            names, codes = coded.dictionary.to_pylist(), coded.indices.to_numpy()
            for code, topic in enumerate(names):
                if len(names) == 1:
                    yield topic, columns
                    return
                rows = pa.array(np.flatnonzero(codes == code))
                yield topic, {name: column.take(rows) for name, column in columns.items()}

    def _send_topic(self, topic: str, layout: Layout, rows: dict[str, pa.Array]) -> None:
        columns = Columns(
            rows["value"].cast(pa.binary()),
            rows["key"].cast(pa.binary()) if "key" in rows else None,
            _millis(rows.get("timestamp")),
            encode_headers(rows["headers"]) if "headers" in rows else None,
        )
        sizes = columns.sizes()
        if self._anywhere:
            cuts = list(_cut(sizes, layout))
            batches: Batches = zip(self._bulk.spread(topic, len(cuts)), cuts, strict=True)
        else:
            partitions = self._partitions(topic, layout, columns, sizes, rows.get("partition"))
            order = np.argsort(partitions, kind="stable")
            columns, batches = columns.take(order), _runs(partitions[order], sizes[order], layout)
        for partition, (start, stop) in batches:
            records = encode(columns.slice(start, stop))
            self._deliveries.append(self._bulk.send(topic, partition, records))

    def _partitions(
        self, topic: str, layout: Layout, columns: Columns, sizes: Ints, given: pa.Array | None
    ) -> Ints:
        """The partition of each row: the one it names, its key's, or any for a batch's worth."""
        if given is None:
            found = np.full(len(sizes), NOWHERE, np.int32)
        else:
            found = named_partitions(topic, layout.partitions, given)
        if columns.keys is not None and not self._bulk.ignores_keys:
            valid = columns.keys.is_valid().to_numpy(zero_copy_only=False)
            keyed = np.flatnonzero((found == NOWHERE) & valid)
            keys = columns.keys.take(pa.array(keyed))
            found[keyed] = partitions_of_keys(keys, layout.partitions)
        free = np.flatnonzero(found == NOWHERE)
        cuts = list(_cut(sizes[free], layout))
        for partition, (start, stop) in zip(self._bulk.spread(topic, len(cuts)), cuts, strict=True):
            found[free[start:stop]] = partition
        return found

    def _send_each(self, columns: dict[str, pa.Array]) -> None:
        count = len(columns["value"])
        values = columns["value"].cast(pa.binary()).to_pylist()
        keys = _list(columns["key"].cast(pa.binary()) if "key" in columns else None, count)
        partitions = _list(columns.get("partition"), count)
        times = _list(_nullable_millis(columns.get("timestamp")), count)
        headers = _list(columns.get("headers"), count)
        topics = _list(None if self._topic is not None else columns["topic"], count)
        send = self._producer.send
        for index, value in enumerate(values):
            topic = self._topic or topics[index]
            if topic is None:
                raise ValueError("A row has null for its topic")
            self._deliveries.append(
                send(
                    topic,
                    value,
                    key=keys[index],
                    headers=[(one["key"], one["value"]) for one in headers[index] or ()],
                    partition=partitions[index],
                    timestamp=times[index],
                )
            )


def _joined(arrays: list[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Batches may be of any size; not so what is encoded at once."""
    count = -(-batch.nbytes // _MOST_COLLECTED)
    rows = -(-len(batch) // max(count, 1))
    for start in range(0, len(batch), max(rows, 1)):
        yield batch.slice(start, rows)


def _runs(partitions: Ints, sizes: Ints, layout: Layout) -> Batches:
    """Each partition with where its batches begin and end; its rows lie together."""
    firsts = np.flatnonzero(np.diff(partitions, prepend=NOWHERE)).tolist()
    for start, stop in pairwise([*firsts, len(partitions)]):
        for begin, end in _cut(sizes[start:stop], layout):
            yield int(partitions[start]), (start + begin, start + end)


def _cut(sizes: Ints, layout: Layout) -> Iterator[tuple[int, int]]:
    """Where batches of some rows begin and end: of about the same size, none too large."""
    if not len(sizes):
        return
    ends = np.cumsum(sizes, dtype=np.int64)
    total = int(ends[-1])
    batches = max(1, round(total / layout.batch_size))
    limit = min(total // batches + int(sizes.max()), layout.largest_batch)
    start = sent = 0
    while start < len(sizes):
        stop = max(int(np.searchsorted(ends, sent + limit, "right")), start + 1)
        yield start, stop
        start, sent = stop, int(ends[stop - 1])


def _check(delivery: Delivery | ManyDelivery) -> None:
    error = delivery.exception(0)
    if error is not None:
        raise error


def _list(column: pa.Array | None, count: int) -> list[Any]:
    return [None] * count if column is None else column.to_pylist()


def _nullable_millis(column: pa.Array | None) -> pa.Array | None:
    return None if column is None else pc.divide(column.cast(pa.int64()), 1000)


def _millis(column: pa.Array | None) -> Ints | int:
    """Rows without a time are of now."""
    now = time.time_ns() // 1_000_000
    if column is None:
        return now
    times: Ints = column.cast(pa.int64()).fill_null(now * 1000).to_numpy() // 1000
    if len(times) and int(times.min()) < 0:
        raise ValueError(f"a timestamp is in milliseconds since 1970, not {times.min()}")
    return times
