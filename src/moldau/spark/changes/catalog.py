"""What PostgreSQL's catalog says of a table: columns, keys, what the log has of old rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moldau.spark.changes.options import ChangesError, ChangesOptions
from moldau.spark.changes.values import spark_type

if TYPE_CHECKING:
    from psycopg import Connection

_NAME: Final = re.compile(r'(?:[a-z_][\w$]*|"(?:[^"]|"")+")')
_QUALIFIED: Final = re.compile(rf"{_NAME.pattern}(?:\.{_NAME.pattern})?")
_TABLES: Final = ("r", "p")
"""Kinds of relations that have changes of their own: tables, partitioned ones."""

LOG_COLUMNS: Final = {
    "_op": "STRING",
    "_before": "",
    "_lsn": "BIGINT",
    "_sequence": "INT",
    "_commit_timestamp": "TIMESTAMP",
    "_unchanged": "ARRAY<STRING>",
}
"""Beside the table's own; the type of ``_before`` is a struct of these."""


@dataclass(frozen=True)
class TableColumn:
    name: str
    kind: str
    """As PostgreSQL calls it."""
    spark: str
    generated: bool = False


@dataclass(frozen=True)
class TableInfo:
    oid: int
    schema: str
    name: str
    kind: str
    columns: tuple[TableColumn, ...]
    primary_key: tuple[str, ...]
    identity: str
    """``d``, ``i``, ``f`` or ``n``, as ``pg_class.relreplident`` has it."""
    identity_columns: tuple[str, ...]
    """Those that the log has of old rows."""
    unique_columns: tuple[str, ...]
    """Those that are unique by themselves."""
    owned: bool
    readable: bool

    @property
    def sql_name(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def is_table(self) -> bool:
        return self.kind in _TABLES

    def column(self, name: str) -> TableColumn | None:
        return next((one for one in self.columns if one.name == name), None)

    def logged(self) -> tuple[TableColumn, ...]:
        """The log has no generated columns."""
        return tuple(one for one in self.columns if not one.generated)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def read_table(connection: Connection[tuple[Any, ...]], name: str) -> TableInfo:
    """``name`` as SQL has it, with or without quotes and schema."""
    for form in _forms(name):
        found = connection.execute(_RELATION, (form,)).fetchone()
        if found is not None:
            return _described(connection, found)
    known = [str(row[0]) for row in connection.execute(_ALL_TABLES).fetchall()]
    from difflib import get_close_matches

    close = get_close_matches(name.rpartition(".")[2].strip('"').lower(), known, n=1)
    hint = f": did you mean {close[0]}?" if close else ""
    raise ChangesError(f"option dbtable: there is no table {name}{hint}")


def key_columns(table: TableInfo, options: ChangesOptions) -> tuple[str, ...]:
    """By which rows are known: those that are named, the primary key, or the identity's index."""
    if options.keys:
        return options.keys
    if table.primary_key or table.identity == "f":
        return table.primary_key
    return table.identity_columns


def order_columns(table: TableInfo, options: ChangesOptions) -> tuple[str, ...]:
    """By which rows are read in mode column: none may be equal in all of them."""
    keys = () if options.column in table.unique_columns else key_columns(table, options)
    return (options.column, *(key for key in keys if key != options.column))


def schema_of(table: TableInfo, options: ChangesOptions) -> str:
    """In DDL: the planner's process cannot parse it, and need not."""
    if options.mode == "column":
        return _ddl(table.columns, " ")
    own = table.logged()
    before = f"STRUCT<{_ddl(own, ': ')}>"
    more = ", ".join(f"`{name}` {kind or before}" for name, kind in LOG_COLUMNS.items())
    return f"{_ddl(own, ' ')}, {more}"


def _ddl(columns: Iterable[TableColumn], between: str) -> str:
    return ", ".join(
        "`" + one.name.replace("`", "``") + "`" + between + one.spark for one in columns
    )


def _forms(name: str) -> list[str]:
    """What the name may mean: SQL, or names with capitals and spaces that were not quoted."""
    plain = ".".join(quoted(part) for part in name.split(".", 1))
    whole = quoted(name)
    return [name, plain, whole] if _QUALIFIED.fullmatch(name) else [plain, whole]


_RELATION: Final = """
    SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, c.relreplident::text,
           pg_has_role(c.relowner, 'USAGE'), has_table_privilege(c.oid, 'SELECT')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = to_regclass(%s) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"""
_COLUMNS: Final = """
    SELECT a.attnum, a.attname, a.attndims, a.attgenerated <> '',
           CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod)
                ELSE format_type(a.atttypid, a.atttypmod) END
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_INDEXES: Final = """
    SELECT indkey::int2[]::int[], indnkeyatts, indisprimary, indisreplident,
           indisunique AND indpred IS NULL AND indexprs IS NULL
    FROM pg_index WHERE indrelid = %s"""
_ALL_TABLES: Final = """
    SELECT relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'v') AND nspname NOT IN ('pg_catalog', 'information_schema')"""


def _described(connection: Connection[tuple[Any, ...]], found: Sequence[Any]) -> TableInfo:
    oid, schema, name, kind, identity, owned, readable = found
    names: dict[int, str] = {}
    columns = []
    for number, column, dimensions, generated, type_name in connection.execute(_COLUMNS, (oid,)):
        names[number] = column
        spark = spark_type(type_name, dimensions)
        columns.append(TableColumn(column, type_name, spark, generated))
    primary: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    unique = []
    for numbers, count, is_primary, is_identity, is_unique in connection.execute(_INDEXES, (oid,)):
        indexed = tuple(names.get(number, "") for number in numbers[:count])
        if is_primary:
            primary = indexed
        if is_identity:
            chosen = indexed
        if is_unique and len(indexed) == 1:
            unique.append(indexed[0])
    old = {"d": primary, "i": chosen, "f": tuple(names.values()), "n": ()}[identity]
    return TableInfo(
        oid,
        schema,
        name,
        kind,
        tuple(columns),
        primary,
        identity,
        old,
        tuple(unique),
        owned,
        readable,
    )
