"""The rows of a batch into a staging table: by all executors, or by the driver."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so
from pyspark.sql import types as T  # noqa: N812

CHUNK: Final = 1000
"""Rows that are sent to the database at a time."""
ATTEMPT: Final = "moldau_attempt"
"""Which attempt of which task has put a row there: those that Spark does not count are left."""
POSITION: Final = "moldau_position"
"""In the batch: of several rows with one key the last one counts."""

Columns = Mapping[str, Any]
"""Types of SQLAlchemy's by name."""

_TYPES: Final[Mapping[type[T.DataType], Any]] = {
    T.BooleanType: sa.Boolean(),
    T.ByteType: sa.SmallInteger(),
    T.ShortType: sa.SmallInteger(),
    T.IntegerType: sa.Integer(),
    T.LongType: sa.BigInteger(),
    T.FloatType: sa.Double(),
    T.DoubleType: sa.Double(),
    T.DecimalType: sa.Numeric(),
    T.DateType: sa.Date(),
    T.TimestampType: sa.DateTime(timezone=True),
    T.TimestampNTZType: sa.DateTime(),
    T.BinaryType: sa.LargeBinary(),
}
"""Others are texts: strings as they are, lists and structs as JSON."""


def columns_of(schema: T.StructType) -> Columns:
    return {one.name: _TYPES.get(type(one.dataType), sa.Text()) for one in schema.fields}


def staging_table(
    name: str, schema: str | None, columns: Columns, prefixes: Sequence[str]
) -> sa.Table:
    return sa.Table(
        name,
        sa.MetaData(),
        *(sa.Column(one, kind, nullable=True) for one, kind in columns.items()),
        sa.Column(ATTEMPT, sa.BigInteger(), nullable=False),
        sa.Column(POSITION, sa.BigInteger(), nullable=False),
        schema=None if "TEMPORARY" in prefixes else schema,
        prefixes=list(prefixes),
    )


def fill_from_driver(connection: sa.Connection, staging: sa.Table, frame: DataFrame) -> int:
    """How many rows; a partition is fetched at a time, not the whole batch."""
    written = 0
    moments = _moments(frame)
    chunk: list[dict[str, Any]] = []
    for row in _plain(frame).toLocalIterator():
        chunk.append(_values(row.asDict(), moments, 0))
        if len(chunk) == CHUNK:
            connection.execute(staging.insert(), chunk)
            written += len(chunk)
            chunk = []
    if chunk:
        connection.execute(staging.insert(), chunk)
    return written + len(chunk)


def fill_from_executors(url: str, staging: sa.Table, frame: DataFrame) -> dict[int, int]:
    """Rows by attempt, of those attempts that count."""
    fill = _Fill(url, staging, _moments(frame))
    done = _plain(frame).mapInArrow(fill, "attempt BIGINT, rows BIGINT").collect()
    return {row.attempt: row.rows for row in done}


class _Fill:
    """What a task does: its rows are one transaction."""

    def __init__(self, url: str, staging: sa.Table, moments: frozenset[str]) -> None:
        self._url = url
        columns = [sa.column(one.name, one.type) for one in staging.columns]
        self._table = sa.table(staging.name, *columns, schema=staging.schema)
        self._moments = moments

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        attempt = context.taskAttemptId()
        written = 0
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        engine = sa.create_engine(self._url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            for batch in itertools.chain((first,), filled):
                for start in range(0, batch.num_rows, CHUNK):
                    rows = batch.slice(start, CHUNK).to_pylist()
                    chunk = [_values(row, self._moments, attempt) for row in rows]
                    connection.execute(self._table.insert(), chunk)
                    written += len(chunk)
        yield pa.RecordBatch.from_pydict({"attempt": [attempt], "rows": [written]})


def _moments(frame: DataFrame) -> frozenset[str]:
    fields = frame.schema.fields
    return frozenset(one.name for one in fields if isinstance(one.dataType, T.TimestampType))


def _plain(frame: DataFrame) -> DataFrame:
    """Values that databases take."""
    position = F.monotonically_increasing_id().alias(POSITION)
    return frame.select(*map(_plain_column, frame.schema.fields), position)


def _plain_column(field: T.StructField) -> Column:
    column = F.col(f"`{field.name.replace('`', '``')}`")
    if isinstance(field.dataType, T.TimestampType):
        # Python would get local time, which is ambiguous for an hour each year.
        return F.unix_micros(column).alias(field.name)
    if isinstance(field.dataType, (T.ArrayType, T.MapType, T.StructType, T.VariantType)):
        return F.to_json(column).alias(field.name)
    return column


def _values(row: dict[str, Any], moments: frozenset[str], attempt: int) -> dict[str, Any]:
    for name in moments:
        micros = row[name]
        if micros is not None:
            row[name] = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    row[ATTEMPT] = attempt
    return row
