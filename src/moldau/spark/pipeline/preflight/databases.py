"""Databases that answer, with tables whose columns fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from moldau.spark.pipeline.preflight.found import Columns, Findings
from moldau.spark.pipeline.problems import did_you_mean
from moldau.spark.pipeline.spec import Pipeline, TableSink, TableSource

_NAME: Final = re.compile(r"""\w[\w$#]*|"[^"]+"|`[^`]+`|\[[^\]]+\]""")
_TABLE: Final = re.compile(rf"(?:{_NAME.pattern})(?:\.(?:{_NAME.pattern}))*")
"""A table's name as SQL has it, and nothing else that may stand after FROM."""
_DRIVERS_WITH_TIMEOUT: Final = frozenset(("psycopg", "psycopg2", "pymysql", "mysqldb"))


def check_database(
    pipeline: Pipeline, part: TableSource | TableSink, columns: Columns, patience: float
) -> Findings:
    found = Findings()
    url = sa.make_url(part.database)

    def complain(key: str, message: str) -> None:
        found.problems.append(pipeline.problem(pipeline.declared(part, key), message))

    if (problem := _no_file(url, writing=isinstance(part, TableSink))) is not None:
        complain("database", problem)
        return found
    if _is_new(url):
        return found  # connecting would create it
    shown = shown_url(url)
    try:
        engine = sa.create_engine(url, connect_args=_limits(url, patience), poolclass=sa.NullPool)
        with engine.connect() as connection:
            if isinstance(part, TableSource):
                if (problem := _unreadable(connection, part, shown)) is not None:
                    complain("table", problem)
            elif (known := _columns_of(connection, part.table)) is not None:
                rows = columns.get(part.input.lower())
                for problem in _misfits(part, known, rows):
                    complain("table", problem)
                found.notes += _left_empty(part, known, rows)
    except sa.exc.DBAPIError as error:
        complain("database", f"database {shown} does not answer: {_first_line(error.orig)}")
    except sa.exc.SQLAlchemyError as error:
        complain("database", f"database {shown}: {_first_line(error)}")
    return found


def shown_url(url: sa.URL) -> str:
    """Without what may be secret: drivers take passwords as parameters, too."""
    return url.set(query={}).render_as_string(hide_password=True)


def _unreadable(connection: sa.Connection, source: TableSource, shown: str) -> str | None:
    """Why a source's table cannot be read, by the words with which it will be."""
    if source.table is None or not _TABLE.fullmatch(source.table):
        return None  # a query, or what follows FROM is more than a name
    try:
        # Whoever writes the file may run any query.
        connection.execute(sa.text(f"{source.query} WHERE 1 = 0"))
    except sa.exc.DBAPIError as error:
        said = _first_line(error.orig)
    else:
        return None
    tables: list[str] = []
    with suppress(sa.exc.SQLAlchemyError):
        connection.rollback()
        inspector = sa.inspect(connection)
        tables = [*inspector.get_table_names(), *inspector.get_view_names()]
    hint = did_you_mean(source.table, tables)
    if "." in source.table or source.table.lower() in map(str.lower, tables):
        return f"table {source.table} of {shown} cannot be read: {said}"
    return f"{shown} has no table {source.table}: {hint}"


def _columns_of(connection: sa.Connection, name: str) -> list[Any] | None:
    """None if there is no such table, as the sink itself will look for it."""
    schema, _, table = name.rpartition(".")
    try:
        return list(sa.inspect(connection).get_columns(table, schema=schema or None))
    except sa.exc.NoSuchTableError:
        return None


def _misfits(sink: TableSink, known: list[Any], rows: Sequence[str] | None) -> Iterator[str]:
    """``rows``: the columns that will be written, if they are known."""
    names = [str(column["name"]) for column in known]
    folded = {name.lower() for name in names}
    for name in sink.keys if rows is None else rows:
        if name.lower() not in folded:
            yield (
                f"table {sink.table} has no column {name}, which sink {sink.name} writes: "
                f"{did_you_mean(name, names)}"
            )


def _left_empty(sink: TableSink, known: list[Any], rows: Sequence[str] | None) -> Iterator[str]:
    """Nothing to refuse: a trigger may fill them in."""
    written = {name.lower() for name in rows or ()}
    for column in known if rows is not None else ():
        if _is_needed(column) and str(column["name"]).lower() not in written:
            yield (
                f"Table {sink.table} wants a value for column {column['name']}, and sink "
                f"{sink.name} writes none"
            )


def _is_needed(column: Mapping[str, Any]) -> bool:
    filled = column.get("default") is not None or column.get("autoincrement") is True
    filled = filled or bool(column.get("computed")) or bool(column.get("identity"))
    # A number as primary key is filled in by SQLite and others.
    return not column["nullable"] and not filled and not column.get("primary_key")


def _limits(url: sa.URL, patience: float) -> dict[str, Any]:
    """How drivers are told not to wait for ever; the others have the thread that waits for them."""
    if "connect_timeout" in url.query or url.get_driver_name() not in _DRIVERS_WITH_TIMEOUT:
        return {}
    return {"connect_timeout": max(2, int(patience))}


def _no_file(url: sa.URL, *, writing: bool) -> str | None:
    if not _is_new(url):
        return None
    file = Path(str(url.database))
    if not writing:
        return f"there is no database {file}"
    if not file.absolute().parent.is_dir():
        return f"database {file} cannot be created: there is no directory {file.parent}"
    return None


def _is_new(url: sa.URL) -> bool:
    """Whether it is a file of SQLite's that is not there yet."""
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return False
    name = str(url.database)
    return not name.startswith("file:") and not Path(name).exists()


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().split("\n", 1)[0]
