"""Databases that answer, with tables whose columns fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from moldau.spark.pipeline.preflight.found import Columns, Findings
from moldau.spark.pipeline.problems import did_you_mean
from moldau.spark.pipeline.spec import Pipeline, TableSink, TableSource


def check_database(
    pipeline: Pipeline, part: TableSource | TableSink, columns: Columns, patience: float
) -> Findings:
    found = Findings()
    url = sa.make_url(part.database)

    def complain(key: str, message: str) -> None:
        found.problems.append(pipeline.problem(pipeline.declared(part, key), message))

    shown = url.render_as_string(hide_password=True)
    if (problem := _no_file(url, writing=isinstance(part, TableSink))) is not None:
        complain("database", problem)
        return found
    if _is_new(url):
        return found  # connecting would create it
    engine = sa.create_engine(url, connect_args=_limits(url, patience), poolclass=sa.NullPool)
    try:
        with engine.connect() as connection:
            if isinstance(part, TableSink):
                known = _columns_of(connection, part.table)
                if known is not None:
                    for message in _misfits(part, known, columns.get(part.input.lower())):
                        complain("table", message)
            elif part.table is not None and _columns_of(connection, part.table) is None:
                tables = sa.inspect(connection).get_table_names()
                complain(
                    "table",
                    f"{shown} has no table {part.table}: {did_you_mean(part.table, tables)}",
                )
    except sa.exc.DBAPIError as error:
        complain("database", f"database {shown} does not answer: {_first_line(error.orig)}")
    except sa.exc.SQLAlchemyError as error:
        complain("database", f"database {shown}: {_first_line(error)}")
    finally:
        engine.dispose()
    return found


def _columns_of(connection: sa.Connection, name: str) -> list[Any] | None:
    """None if there is no such table."""
    schema, _, table = name.rpartition(".")
    try:
        return list(sa.inspect(connection).get_columns(table, schema=schema or None))
    except sa.exc.NoSuchTableError:
        return None


def _misfits(sink: TableSink, known: list[Any], rows: Sequence[str] | None) -> list[str]:
    """``rows``: the columns that will be written, if they are known."""
    names = [str(column["name"]) for column in known]
    folded = {name.lower() for name in names}
    wanted = sink.keys if rows is None else rows
    found = [
        f"table {sink.table} has no column {name}, which sink {sink.name} writes: "
        f"{did_you_mean(name, names)}"
        for name in wanted
        if name.lower() not in folded
    ]
    if rows is not None:
        written = {name.lower() for name in rows}
        found += [
            f"table {sink.table} needs a value for column {column['name']}, and sink {sink.name} "
            "writes none"
            for column in known
            if _is_needed(column) and str(column["name"]).lower() not in written
        ]
    return found


def _is_needed(column: Mapping[str, Any]) -> bool:
    filled = column.get("default") is not None or column.get("autoincrement") is True
    filled = filled or bool(column.get("computed")) or bool(column.get("identity"))
    # A number as primary key is filled in by SQLite and others.
    return not column["nullable"] and not filled and not column.get("primary_key")


def _limits(url: sa.URL, patience: float) -> dict[str, Any]:
    """How drivers are told not to wait for ever; the others have the thread that waits for them."""
    if url.get_backend_name() in ("postgresql", "mysql", "mariadb"):
        return {"connect_timeout": max(2, int(patience))}
    return {}


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
