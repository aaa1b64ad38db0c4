"""Rows of a table in text form: all of them, or those between two places in its order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.spark.changes.catalog import TableColumn, TableInfo, quoted
from moldau.spark.changes.pgoutput import Row

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composable, Composed

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


def between(table: TableInfo, order: Sequence[str], start: Place | None, end: Place) -> Composable:
    """Rows after ``start`` up to ``end``, in order."""
    from psycopg import sql

    condition = _limits(table, order, start, end)
    return sql.SQL(" WHERE {} ORDER BY {}").format(condition, _names(order))


def last_place(
    database: Database,
    table: TableInfo,
    order: Sequence[str],
    start: Place | None,
    end: Place | None = None,
) -> Place | None:
    """Where the last row is now, if there is one after ``start``; times to come are not now."""
    from psycopg import sql

    condition = _limits(table, order, start, end)
    if (now := _clock(table, order[0])) is not None:
        present = sql.SQL(" AND {} <= {}")
        condition = condition + present.format(sql.Identifier(order[0]), sql.SQL(now))
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
    condition = _limits(table, order, start, end)
    return _found(database, table, order, condition, _names(order), rows - 1) or end


def _limits(
    table: TableInfo, order: Sequence[str], start: Place | None, end: Place | None
) -> Composed:
    """Rows without a value in the column have no place in the order."""
    from psycopg import sql

    limits = [sql.SQL("{} IS NOT NULL").format(sql.Identifier(order[0]))]
    for place, sign in ((start, ">"), (end, "<=")):
        if place is not None:
            compared = sql.SQL("({}) " + sign + " ({})")
            limits.append(compared.format(_names(order), _place(table, order, place)))
    return sql.SQL(" AND ").join(limits)


def _names(order: Sequence[str]) -> Composed:
    from psycopg import sql

    return sql.SQL(", ").join(map(sql.Identifier, order))


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
    whole = statement.format(
        _names(order),
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
    """What the server's clock says, as a column of times has it.

    Times without a zone are those of the server's zone, as its other sessions have it: ours is UTC.
    """
    kind = _kind(table, name)
    if kind == "date" or (kind.startswith("timestamp") and kind.endswith("without time zone")):
        return f"(clock_timestamp() AT TIME ZONE ({_ZONE}))::{kind}"
    return f"clock_timestamp()::{kind}" if kind.startswith("timestamp") else None


_ZONE: Final = "SELECT reset_val FROM pg_settings WHERE name = 'TimeZone'"
