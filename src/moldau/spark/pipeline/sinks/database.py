"""Tables of a database: each batch once, written from the executors side by side, without a jar.

Executors put the rows of a batch into a staging table, each task in a transaction. Then the driver
moves them to the table and notes the batch's number in ``moldau_batches``: that is one transaction,
so that a batch that Spark runs again after a crash is found there and left out.

SQLite has one writer at a time, and its file need not be where the executors are: the driver
fetches the rows and does everything in one transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import sqlalchemy as sa
from pyspark.sql import DataFrame

from moldau.spark.pipeline.sinks.batch import Batch, SinkError, begin
from moldau.spark.pipeline.sinks.database_rows import (
    ATTEMPT,
    Columns,
    columns_of,
    fill_from_driver,
    fill_from_executors,
    staging_table,
)
from moldau.spark.pipeline.sinks.database_upsert import move
from moldau.spark.pipeline.spec import TableSink

_STAGING: Final = "moldau_staging_"

_batches: Final = sa.Table(
    "moldau_batches",
    sa.MetaData(),
    sa.Column("query", sa.String(64), primary_key=True),
    sa.Column("batch", sa.BigInteger(), nullable=False),
)
"""The last batch of each writer."""


def write_batch(sink: TableSink, frame: DataFrame, batch: Batch | None) -> int:
    """All rows of a batch, or none; how many."""
    engine = sa.create_engine(sink.database)
    try:
        target = _Target(sink, columns_of(frame.schema))
        if batch is not None:
            writer = batch.writer(sink.name)
            if begin(writer, batch.number) and _left_over(engine, target, writer, batch.number):
                return 0
        if engine.dialect.name == "sqlite":
            return _through_driver(engine, target, frame, batch)
        return _from_executors(engine, target, frame, batch)
    finally:
        engine.dispose()


class _Target:
    """The table of a sink, and the staging tables for it."""

    def __init__(self, sink: TableSink, columns: Columns) -> None:
        self.sink = sink
        self.columns = columns
        schema, _, name = sink.table.rpartition(".")
        self.schema = schema or None
        self.table = sa.Table(
            name,
            sa.MetaData(),
            *(
                sa.Column(one, kind, primary_key=one in sink.keys, autoincrement=False)
                for one, kind in columns.items()
            ),
            schema=self.schema,
        )

    def staging(self, batch: Batch | None, prefixes: Sequence[str]) -> sa.Table:
        """Under a name that no other attempt has: one of a driver that is gone may still write."""
        writer = "once" if batch is None else batch.writer(self.sink.name)
        name = f"{_STAGING}{writer}_{uuid.uuid4().hex[:8]}"
        return staging_table(name, self.schema, self.columns, prefixes)


def _left_over(engine: sa.Engine, target: _Target, writer: str, number: int) -> bool:
    """Remove what a run has left that ended in the middle; whether the batch is written."""
    begins = f"{_STAGING}{writer}_"
    with engine.begin() as connection:
        found = sa.inspect(connection).get_table_names(schema=target.schema)
        for name in found:
            if name.startswith(begins):
                sa.Table(name, sa.MetaData(), schema=target.schema).drop(connection)
        return _last_batch(connection, writer) >= number


def _through_driver(
    engine: sa.Engine, target: _Target, frame: DataFrame, batch: Batch | None
) -> int:
    staging = target.staging(batch, ["TEMPORARY"])
    with engine.begin() as connection:
        staging.create(connection)
        rows = fill_from_driver(connection, staging, frame)
        _finish(connection, target, staging, batch, [0])
        staging.drop(connection)
    return rows


def _from_executors(
    engine: sa.Engine, target: _Target, frame: DataFrame, batch: Batch | None
) -> int:
    # What PostgreSQL loses of it when it crashes is counted below.
    staging = target.staging(batch, ["UNLOGGED"] if engine.dialect.name == "postgresql" else [])
    with engine.begin() as connection:
        staging.create(connection)
    try:
        written = fill_from_executors(target.sink.database, staging, frame)
        with engine.begin() as connection:
            _check(connection, staging, written)
            _finish(connection, target, staging, batch, list(written))
    finally:
        # In a transaction of its own, which some databases end at such a statement. If it fails,
        # what went wrong before is what counts.
        with suppress(sa.exc.SQLAlchemyError), engine.begin() as connection:
            staging.drop(connection)
    return sum(written.values())


def _finish(
    connection: sa.Connection,
    target: _Target,
    staging: sa.Table,
    batch: Batch | None,
    attempts: Sequence[int],
) -> None:
    target.table.create(connection, checkfirst=True)
    if batch is not None:
        _remember(connection, batch.writer(target.sink.name), batch.number)
    if target.sink.output_mode == "complete":
        connection.execute(target.table.delete())
    move(connection, staging, target.table, target.sink.keys, attempts)


def _check(connection: sa.Connection, staging: sa.Table, written: dict[int, int]) -> None:
    chosen = sa.select(sa.func.count()).where(staging.c[ATTEMPT].in_(list(written)))
    found: Any = connection.execute(chosen).scalar()
    if int(found or 0) != sum(written.values()):
        raise SinkError(
            f"The database has {found} of {sum(written.values())} rows that were put into "
            f"{staging.fullname}: was it started anew? The batch was not written"
        )


def _last_batch(connection: sa.Connection, writer: str) -> int:
    _batches.create(connection, checkfirst=True)
    chosen = sa.select(_batches.c.batch).where(_batches.c.query == writer)
    found = connection.execute(chosen).scalar()
    return -1 if found is None else int(found)


def _remember(connection: sa.Connection, writer: str, number: int) -> None:
    connection.execute(_batches.delete().where(_batches.c.query == writer))
    connection.execute(_batches.insert().values(query=writer, batch=number))
