"""Records to Arrow: the columns that a query wants, in the exact types that Spark expects."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from moldau.client.consumer.fetch.fetched import FetchedRecords
from moldau.records.reader import RecordColumns
from moldau.spark.bad_records import BadRecords
from moldau.spark.decode.columns import Decode, decode_column
from moldau.spark.decode.formats import Column, decoder
from moldau.spark.offsets import OffsetRange
from moldau.spark.options import ReadOptions
from moldau.spark.schema import arrow_schema

_FULL_BATCH_BYTES: Final = 32 * 1024 * 1024
"""Compressed records may be far more than the fetch that brought them; a batch has an end."""


class Rows:
    """The records of one offset range, a number at a time, and how their batches end."""

    def __init__(self, range_: OffsetRange) -> None:
        self.range = range_
        self.columns = RecordColumns()
        self.timestamp_types: list[tuple[int, int]] = []
        """Type and number of records, for runs of records."""

    def add(self, columns: RecordColumns, timestamp_type: int) -> None:
        end = bisect_left(columns.offsets, self.range.end)
        if end < len(columns.offsets):
            for field in (
                columns.offsets,
                columns.timestamps,
                columns.keys,
                columns.values,
                columns.headers,
            ):
                del field[end:]
        self.columns.extend(columns)
        self.timestamp_types.append((timestamp_type, len(columns.offsets)))

    def __len__(self) -> int:
        return len(self.columns.offsets)


class ArrowRows:
    """Makes record batches of one schema; made on the executor, once per task."""

    def __init__(
        self,
        schema: StructType,
        options: ReadOptions,
        bad_records: BadRecords,
    ) -> None:
        self._schema = arrow_schema(schema)
        self._decoders: dict[str, Decode | None] = {
            name: decoder(name, options, self._schema.field(name).type)
            for name in get_args(Column)
            if name in self._schema.names
        }
        self._bad_records = bad_records

    def batches(self, fetched: FetchedRecords, range_: OffsetRange) -> Iterator[pa.RecordBatch]:
        """What one fetch brought, as one batch, or a few if it was compressed well."""
        rows, size = Rows(range_), 0
        while fetched.position.offset < range_.end:
            columns = fetched.take_columns()
            if columns is None:
                break
            size += sum(map(len, filter(None, columns.values)))
            rows.add(columns, fetched.timestamp_type)
            if size >= _FULL_BATCH_BYTES:
                yield from self.batch(rows)
                rows, size = Rows(range_), 0
        yield from self.batch(rows)

    def batch(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        if not len(rows):
            return
        bad: dict[int, str] = {}
        arrays = [self._array(field, rows, bad) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if bad and self._bad_records.handle(rows.range.topic_partition, rows.columns, bad):
            keep = pa.array([index not in bad for index in range(len(rows))])
            batch = batch.filter(keep)
        if batch.num_rows:
            yield batch

    def _array(self, field: pa.Field, rows: Rows, bad: dict[int, str]) -> pa.Array:
        columns, count = rows.columns, len(rows)
        match field.name:
            case "key" | "value":
                values = columns.keys if field.name == "key" else columns.values
                decode = self._decoders[field.name]
                if decode is None:
                    return pa.array(values, field.type)
                return decode_column(values, decode, bad, field.name)
            case "topic":
                return pa.repeat(pa.scalar(rows.range.topic, field.type), count)
            case "partition":
                return pa.repeat(pa.scalar(rows.range.partition, field.type), count)
            case "offset":
                return pa.array(columns.offsets, field.type)
            case "timestamp":
                micros = pc.multiply(pa.array(columns.timestamps, pa.int64()), 1000)
                return micros.cast(field.type)
            case "timestampType":
                runs = [
                    pa.repeat(pa.scalar(kind, field.type), number)
                    for kind, number in rows.timestamp_types
                ]
                return pa.concat_arrays(runs)
            case _:
                return _headers(columns, field.type)


def _headers(columns: RecordColumns, kind: pa.DataType) -> pa.Array:
    """Null for a record without headers, as with the connector."""
    if not any(columns.headers):
        return pa.nulls(len(columns.headers), kind)
    rows = [
        [{"key": name, "value": value} for name, value in one] if one else None
        for one in columns.headers
    ]
    return pa.array(rows, kind)
