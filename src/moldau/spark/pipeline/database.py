"""Tables of a database: written by the driver, so that no jar is needed, and each batch once.

The rows of a batch and its number are one transaction; a batch that Spark runs again after a crash
is found in the table ``moldau_batches`` and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

import sqlalchemy as sa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so
from pyspark.sql import types as T  # noqa: N812

from moldau.spark.pipeline.spec import TableSink

CHUNK: Final = 1000
"""Rows that are sent to the database at a time."""

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

_batches: Final = sa.Table(
    "moldau_batches",
    sa.MetaData(),
    sa.Column("query", sa.String(64), primary_key=True),
    sa.Column("batch", sa.BigInteger(), nullable=False),
)


def read_query(url: str, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names of columns, and rows."""
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            found = connection.execute(sa.text(query))
            return list(found.keys()), [tuple(row) for row in found]
    finally:
        engine.dispose()


def write_batch(sink: TableSink, frame: DataFrame, query: str | None, batch: int) -> int | None:
    """All rows of a batch, or none; how many, or None if it has been written before.

    ``query`` is None if it cannot come again.
    """
    written = 0
    engine = sa.create_engine(sink.database)
    try:
        table = _table(sink, frame)
        with engine.begin() as connection:
            if query is not None:
                if _last_batch(connection, query) >= batch:
                    return None
                _remember(connection, query, batch)
            table.create(connection, checkfirst=True)
            if sink.output_mode == "complete":
                connection.execute(table.delete())
            for rows in _chunks(_rows(frame)):
                written += len(rows)
                _insert(connection, table, sink.keys, rows)
    finally:
        engine.dispose()
    return written


def _table(sink: TableSink, frame: DataFrame) -> sa.Table:
    columns = [
        sa.Column(
            field.name,
            _TYPES.get(type(field.dataType), sa.Text()),
            primary_key=field.name in sink.keys,
            autoincrement=False,
        )
        for field in frame.schema.fields
    ]
    schema, _, name = sink.table.rpartition(".")
    return sa.Table(name, sa.MetaData(), *columns, schema=schema or None)


def _last_batch(connection: sa.Connection, query: str) -> int:
    _batches.create(connection, checkfirst=True)
    chosen = sa.select(_batches.c.batch).where(_batches.c.query == query)
    found = connection.execute(chosen).scalar()
    return -1 if found is None else int(found)


def _remember(connection: sa.Connection, query: str, batch: int) -> None:
    connection.execute(_batches.delete().where(_batches.c.query == query))
    connection.execute(_batches.insert().values(query=query, batch=batch))


def _insert(
    connection: sa.Connection,
    table: sa.Table,
    keys: tuple[str, ...],
    rows: list[dict[str, Any]],
) -> None:
    if keys:
        # Every database can do it so, and no index has to be there.
        rows = list({tuple(row[key] for key in keys): row for row in rows}.values())
        same = sa.and_(*(table.c[key] == sa.bindparam(f"key_{key}") for key in keys))
        old = [{f"key_{key}": row[key] for key in keys} for row in rows]
        connection.execute(table.delete().where(same), old)
    connection.execute(table.insert(), rows)


def _rows(frame: DataFrame) -> Iterator[dict[str, Any]]:
    """A partition at a time, not the whole batch."""
    moments = {one.name for one in frame.schema.fields if isinstance(one.dataType, T.TimestampType)}
    for row in frame.select(*map(_plain, frame.schema.fields)).toLocalIterator():
        values = row.asDict()
        for name in moments:
            values[name] = _moment(values[name])
        yield values


def _plain(field: T.StructField) -> Column:
    column = F.col(f"`{field.name}`")
    if isinstance(field.dataType, T.TimestampType):
        # Python would get local time, which is ambiguous for an hour each year.
        return F.unix_micros(column).alias(field.name)
    if isinstance(field.dataType, (T.ArrayType, T.MapType, T.StructType, T.VariantType)):
        return F.to_json(column).alias(field.name)
    return column


def _moment(micros: int | None) -> datetime | None:
    if micros is None:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def _chunks(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    left = iter(rows)
    while chunk := list(islice(left, CHUNK)):
        yield chunk
