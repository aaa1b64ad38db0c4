"""Columns of rows into a producer: a column at a time where the rows allow.

Rows that may differ in topic, partition, timestamp or headers go in one by one; the common case, a
value and perhaps a key, makes no object per row beyond the bytes themselves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from moldau.client.producer.batch import Delivery, ManyDelivery
from moldau.client.producer.producer import Producer
from moldau.spark.options import OptionError

BULK_SETTINGS: Final = {"batch.size": "262144", "linger.ms": "20"}
"""Instead of the producer's defaults, which are for single records: a task has many."""

_COLUMNS: Final[dict[str, tuple[type[DataType], ...]]] = {
    "key": (BinaryType, StringType),
    "value": (BinaryType, StringType),
    "topic": (StringType,),
    "partition": (IntegerType,),
    "timestamp": (TimestampType, TimestampNTZType),
    "headers": (ArrayType,),
}


def check_columns(schema: StructType, topic: str | None) -> None:
    """Refuse rows that are no records, before the job runs."""
    kinds = {field.name: field.dataType for field in schema.fields}
    for name, kind in kinds.items():
        if name not in _COLUMNS:
            raise OptionError(
                f"Column {name} is no part of a record; select from {', '.join(_COLUMNS)}"
            )
        if not isinstance(kind, _COLUMNS[name]):
            wanted = " or ".join(one.typeName() for one in _COLUMNS[name])
            raise OptionError(
                f"Column {name} is of type {kind.simpleString()}, not {wanted}: cast it"
            )
    if "value" not in kinds:
        raise OptionError("Column value is missing: cast what to write AS value")
    if "topic" not in kinds and topic is None:
        raise OptionError("Rows have no column topic: the option topic says where they go")


class RowProducer:
    """Sends record batches of rows through a producer, which it closes at its end."""

    def __init__(self, producer: Producer, topic: str | None, schema: StructType) -> None:
        self._producer = producer
        self._topic = topic
        self._names = schema.fieldNames()
        self._deliveries: deque[Delivery | ManyDelivery] = deque()
        self.sent = 0

    def send(self, batch: pa.RecordBatch) -> None:
        """Queue all rows; waits for room only."""
        columns = dict(zip(self._names, batch.columns, strict=True))
        values = bytes_of(columns["value"])
        keys = bytes_of(columns["key"]) if "key" in columns else None
        if columns.keys() <= {"key", "value"}:
            assert self._topic is not None
            self._deliveries.append(self._producer.send_many(self._topic, values, keys=keys))
        else:
            self._send_each(columns, values, keys)
        self.sent += len(values)
        while self._deliveries and self._deliveries[0].done():
            _check(self._deliveries.popleft())

    def flush(self) -> None:
        """Wait until every row is acknowledged; raises what the first that is not failed with."""
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

    def _send_each(
        self,
        columns: dict[str, pa.Array],
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
    ) -> None:
        topics = self._topics(columns, len(values))
        partitions = _list(columns.get("partition"), len(values))
        timestamps = _list(_millis(columns.get("timestamp")), len(values))
        headers = _list(columns.get("headers"), len(values))
        send = self._producer.send
        for index, value in enumerate(values):
            self._deliveries.append(
                send(
                    topics[index],
                    value,
                    key=None if keys is None else keys[index],
                    headers=_headers(headers[index]),
                    partition=partitions[index],
                    timestamp=timestamps[index],
                )
            )

    def _topics(self, columns: dict[str, pa.Array], count: int) -> list[str]:
        """As in the connector, the option goes before the column."""
        if self._topic is not None:
            return [self._topic] * count
        topics: list[str] = columns["topic"].to_pylist()
        if None in topics:
            raise ValueError("A row has null for its topic")
        return topics


def bytes_of(column: pa.Array) -> list[bytes | None]:
    """The values of a column of bytes or text; several times as fast as ``to_pylist``."""
    if pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type):
        width = pa.int64()
    else:
        width = pa.int32()
    _, places, data = column.buffers()
    if data is None:
        return [None if null else b"" for null in column.is_null().to_pylist()]
    count = len(column)
    starts = pa.Array.from_buffers(
        width, count + 1, [None, places], offset=column.offset
    ).to_numpy()
    first = int(starts[0]) if count else 0
    whole = data[first : int(starts[-1])].to_pybytes() if count else b""
    found: list[bytes | None] = [
        whole[begin:end] for begin, end in pairwise((starts - first).tolist())
    ]
    if column.null_count:
        for index in column.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
            found[index] = None
    return found


def _check(delivery: Delivery | ManyDelivery) -> None:
    error = delivery.exception(0)
    if error is not None:
        raise error


def _list(column: pa.Array | None, count: int) -> list[Any]:
    return [None] * count if column is None else column.to_pylist()


def _millis(column: pa.Array | None) -> pa.Array | None:
    return None if column is None else pc.divide(column.cast(pa.int64()), 1000)


def _headers(row: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]]:
    return [(header["key"], header["value"]) for header in row or ()]
