"""Rows of a table in text form: all of them, or those between two places in its order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from moldau.spark.changes.catalog import TableColumn, TableInfo, quoted
from moldau.spark.changes.pgoutput import Row

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composable

    Database = Connection[tuple[Any, ...]]

Place = Sequence[str]
"""Values of the columns that rows are ordered by, in text form."""


def read_rows(
    database: Database, table: TableInfo, columns: Sequence[TableColumn], where: Composable | None
) -> Iterator[Row]:
    """By COPY: its texts are those of the log, and rows come as they are read."""
    from psycopg import sql

    names = [one.name for one in columns]
    chosen = sql.SQL(", ").join(map(sql.Identifier, names))
    statement = sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT").format(
        chosen,
        sql.Identifier(table.schema, table.name),
        sql.SQL("") if where is None else where,
    )
    with database.cursor() as cursor, cursor.copy(statement) as copy:
        for row in copy.rows():
            yield dict(zip(names, row, strict=True))


def between(
    table: TableInfo, order: Sequence[str], start: Place | None, end: Place
) -> Composable:
    """Rows after ``start`` up to ``end``, in order."""
    from psycopg import sql

    names = sql.SQL(", ").join(map(sql.Identifier, order))
    limits = [sql.SQL("({}) <= ({})").format(names, _place(table, order, end))]
    if start is not None:
        limits.append(sql.SQL("({}) > ({})").format(names, _place(table, order, start)))
    conditions = sql.SQL(" AND ").join(limits)
    return sql.SQL(" WHERE {} ORDER BY {}").format(conditions, names)


def last_place(database: Database, table: TableInfo, order: Sequence[str]) -> Place | None:
    """Where the last row is now; times to come are not now."""
    from psycopg import sql

    column = sql.Identifier(order[0])
    condition = sql.SQL("{} IS NOT NULL").format(column)
    if (kind := _clock(table, order[0])) is not None:
        condition = sql.SQL("{} <= clock_timestamp()::{}").format(column, sql.SQL(kind))
    descending = sql.SQL(", ").join(
        sql.SQL("{} DESC").format(sql.Identifier(name)) for name in order
    )
    return _found(database, table, order, condition, descending, 0)


def place_after(
    database: Database,
    table: TableInfo,
    order: Sequence[str],
    start: Place | None,
    end: Place,
    rows: int,
) -> Place:
    """Where so many rows after ``start`` end, not beyond ``end``."""
    from psycopg import sql

    names = sql.SQL(", ").join(map(sql.Identifier, order))
    limits = [sql.SQL("({}) <= ({})").format(names, _place(table, order, end))]
    if start is not None:
        limits.append(sql.SQL("({}) > ({})").format(names, _place(table, order, start)))
    condition = sql.SQL(" AND ").join(limits)
    return _found(database, table, order, condition, names, rows - 1) or end


def _found(
    database: Database,
    table: TableInfo,
    order: Sequence[str],
    condition: Composable,
    ordering: Composable,
    skipped: int,
) -> Place | None:
    from psycopg import sql

    statement = sql.SQL("COPY (SELECT {} FROM {} WHERE {} ORDER BY {} OFFSET {} LIMIT 1) TO STDOUT")
    names = sql.SQL(", ").join(map(sql.Identifier, order))
    whole = statement.format(
        names,
        sql.Identifier(table.schema, table.name),
        condition,
        ordering,
        sql.Literal(skipped),
    )
    with database.cursor() as cursor, cursor.copy(whole) as copy:
        rows = list(copy.rows())
    return [str(value) for value in rows[0]] if rows else None


def _place(table: TableInfo, order: Sequence[str], place: Place) -> Composable:
    from psycopg import sql

    return sql.SQL(", ").join(
        sql.SQL("{}::{}").format(sql.Literal(value), sql.SQL(_kind(table, name)))
        for name, value in zip(order, place, strict=True)
    )


def _kind(table: TableInfo, name: str) -> Any:
    column = table.column(name)
    assert column is not None, quoted(name)
    return column.kind


def _clock(table: TableInfo, name: str) -> Any:
    """The type of a column of times, for comparisons with the server's clock."""
    kind = _kind(table, name)
    return kind if kind == "date" or kind.startswith("timestamp") else None
