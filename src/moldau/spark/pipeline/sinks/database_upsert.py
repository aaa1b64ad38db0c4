"""From a staging table to the table, by the database itself: added, or in the place of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from moldau.spark.pipeline.sinks.database_rows import ATTEMPT, POSITION

_RANK: Final = "moldau_rank"
_INSERTS: Final[Mapping[str, Any]] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}
"""Of databases with ``ON CONFLICT``."""


def move(
    connection: sa.Connection,
    staging: sa.Table,
    table: sa.Table,
    keys: Sequence[str],
    attempts: Sequence[int],
) -> None:
    """The rows of these attempts; of those with the same keys the last one of the batch."""
    names = [column.name for column in table.columns]
    rows = _rows(staging, names, keys, attempts)
    values = _fitting(connection, table, rows)
    if not keys:
        connection.execute(table.insert().from_select(names, sa.select(*values)))
        return
    insert = _INSERTS.get(connection.dialect.name)
    if insert is not None and _is_unique(connection, table, keys):
        chosen = sa.select(*values).where(sa.true())  # or SQLite takes ON for a join's
        adding = insert(table).from_select(names, chosen)
        others = {name: adding.excluded[name] for name in names if name not in keys}
        adding = (
            adding.on_conflict_do_update(index_elements=list(keys), set_=others)
            if others
            else adding.on_conflict_do_nothing(index_elements=list(keys))
        )
        connection.execute(adding)
        return
    # Every database can do it so, and no index has to be there.
    same = sa.and_(*(table.c[key] == rows.c[key] for key in keys))
    connection.execute(table.delete().where(sa.exists(sa.select(sa.literal(1)).where(same))))
    connection.execute(table.insert().from_select(names, sa.select(*values)))


def _rows(
    staging: sa.Table, names: Sequence[str], keys: Sequence[str], attempts: Sequence[int]
) -> Any:
    columns = [staging.c[name] for name in names]
    counting = staging.c[ATTEMPT].in_(list(attempts))
    if not keys:
        return sa.select(*columns).where(counting).subquery("moldau_rows")
    rank = sa.func.row_number().over(
        partition_by=[staging.c[key] for key in keys], order_by=staging.c[POSITION].desc()
    )
    ranked = sa.select(*columns, rank.label(_RANK)).where(counting).subquery("moldau_ranked")
    last = sa.select(*(ranked.c[name] for name in names)).where(ranked.c[_RANK] == 1)
    return last.subquery("moldau_rows")


def _fitting(connection: sa.Connection, table: sa.Table, rows: Any) -> list[Any]:
    """Texts as what the table has, such as JSON: databases do that only if they are told."""
    if connection.dialect.name == "sqlite":
        return list(rows.c)
    known = sa.inspect(connection).get_columns(table.name, schema=table.schema)
    kinds = {str(one["name"]): one["type"] for one in known}
    return [
        sa.cast(column, kinds[column.name])
        if isinstance(column.type, sa.Text)
        and not isinstance(kinds.get(column.name, sa.Text()), (sa.String, sa.types.NullType))
        else column
        for column in rows.c
    ]


def _is_unique(connection: sa.Connection, table: sa.Table, keys: Sequence[str]) -> bool:
    """Whether the table has an index that says so: ``ON CONFLICT`` needs one."""
    inspector = sa.inspect(connection)
    primary = inspector.get_pk_constraint(table.name, schema=table.schema)
    unique: list[Any] = [primary["constrained_columns"]]
    unique += [
        one["column_names"]
        for one in inspector.get_indexes(table.name, schema=table.schema)
        if one["unique"] and not one.get("dialect_options", {}).get("postgresql_where")
    ]
    return any(sorted(map(str, columns)) == sorted(keys) for columns in unique)
