"""Tables whose changes are read: what PostgreSQL must allow for it, told with what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.spark.changes.catalog import (
    LOG_COLUMNS,
    TableInfo,
    key_columns,
    order_columns,
    quoted,
    read_table,
)
from moldau.spark.changes.connection import connected
from moldau.spark.changes.options import ChangesError, ChangesOptions, changes_options
from moldau.spark.pipeline.blame import in_keys_of_changes
from moldau.spark.pipeline.preflight.found import Findings
from moldau.spark.pipeline.problems import did_you_mean
from moldau.spark.pipeline.spec import ChangesSource, Pipeline

if TYPE_CHECKING:
    from psycopg import Connection

    Database = Connection[tuple[Any, ...]]


class Complaint(NamedTuple):
    key: str
    """Of the file."""
    message: str


_EVERYTHING: Final = ("insert", "update", "delete", "truncate")
_COMPARED: Final = ("BOOLEAN", "BINARY")
"""Types of columns that do not grow."""


def check_changes(
    pipeline: Pipeline, source: ChangesSource, slots: Collection[str], patience: float
) -> Findings:
    """``slots``: those that the checkpoint knows."""
    found = Findings()
    options = changes_options(source.options)
    try:
        with connected(options.url, patience) as database:
            table = read_table(database, options.table)
            complaints = [*_table(table, options)]
            if options.mode == "log":
                complaints += _log(database, table, options, bool(slots))
                found.notes += _unknown_slots(database, source, options, slots)
                found.notes += _long_values(table)
    except ChangesError as error:
        said, blamed = in_keys_of_changes(str(error))
        complaints = [Complaint(blamed or "changes", said)]
    for key, said in complaints:
        message = f"source {source.name}: {said}"
        found.problems.append(pipeline.problem(pipeline.declared(source, key, "changes"), message))
    return found


def _table(table: TableInfo, options: ChangesOptions) -> Iterator[Complaint]:
    names = [column.name for column in table.columns]
    for name in options.keys:
        if name not in names:
            yield Complaint(
                "keys", f"{table.sql_name} has no column {name}: {did_you_mean(name, names)}"
            )
            return
    if not table.readable:
        yield Complaint(
            "changes", f"{table.sql_name} may not be read: GRANT SELECT ON {table.sql_name} TO …"
        )
    if options.mode == "log":
        yield from _identity(table, options)
        for name in LOG_COLUMNS:
            if name in names:
                yield Complaint(
                    "changes", f"{table.sql_name} has a column {name}, as changes have their own"
                )
        return
    column = table.column(options.column)
    if column is None:
        hint = did_you_mean(options.column, names)
        yield Complaint("column", f"{table.sql_name} has no column {options.column}: {hint}")
    elif column.spark in _COMPARED or column.spark.startswith("ARRAY") or column.kind == "json":
        yield Complaint(
            "column", f"column {column.name} is of type {column.kind}, which does not grow"
        )
    elif len(order_columns(table, options)) == 1 and options.column not in table.unique_columns:
        yield Complaint(
            "column",
            f"several rows may have one value of {column.name}, and {table.sql_name} has no "
            'primary key that tells them apart: name columns that do, such as keys = ["id"]',
        )


def _identity(table: TableInfo, options: ChangesOptions) -> Iterator[Complaint]:
    if not table.is_table:
        yield Complaint(
            "changes", f"{table.sql_name} is no table: the log has changes of tables only"
        )
    elif not table.identity_columns:
        yield Complaint(
            "changes",
            f"{table.sql_name} has no replica identity, and PostgreSQL would refuse updates and "
            "deletes of what is published: give it a primary key, or ALTER TABLE "
            f"{table.sql_name} REPLICA IDENTITY FULL",
        )
    else:
        for name in key_columns(table, options):
            if name not in table.identity_columns:
                yield Complaint(
                    "keys",
                    f"the log does not have column {name} of old rows: ALTER TABLE "
                    f"{table.sql_name} REPLICA IDENTITY FULL",
                )


def _log(
    database: Database, table: TableInfo, options: ChangesOptions, begun: bool
) -> Iterator[Complaint]:
    found = database.execute(_SERVER).fetchone()
    assert found is not None
    level, standby, replicates, creates, role, slots, most = found
    if level != "logical":
        yield Complaint(
            "database",
            f"wal_level of the server is {level}: ALTER SYSTEM SET wal_level = logical, and start "
            'it anew; mode = "column" does without',
        )
    if standby:
        yield Complaint("database", "the server is a standby, and slots are of the primary")
    if not replicates:
        yield Complaint(
            "database", f"role {role} may not use slots: ALTER ROLE {quoted(role)} REPLICATION"
        )
    if not begun and slots >= most:
        yield Complaint(
            "slot",
            f"all {most} slots of the server are taken (max_replication_slots): drop one that "
            "nobody uses",
        )
    yield from _publication(database, table, options, creates=creates)


def _publication(
    database: Database, table: TableInfo, options: ChangesOptions, *, creates: bool
) -> Iterator[Complaint]:
    name = options.publication
    found = database.execute(_PUBLICATION, (table.schema, table.name, name)).fetchone()
    if found is None:
        if not (creates and table.owned):
            yield Complaint(
                "publication",
                f"there is no publication {name}, and this role may not create it: CREATE "
                f"PUBLICATION {quoted(name)} FOR TABLE {table.sql_name}",
            )
        return
    *published, has_table, root = found
    missing = [what for what, has in zip(_EVERYTHING, published, strict=True) if not has]
    if not has_table and table.kind != "p":
        yield Complaint(
            "publication",
            f"publication {name} does not have the table: ALTER PUBLICATION {quoted(name)} ADD "
            f"TABLE {table.sql_name}",
        )
    if table.kind == "p" and not root:
        yield Complaint(
            "publication",
            f"{table.sql_name} is partitioned: ALTER PUBLICATION {quoted(name)} SET "
            "(publish_via_partition_root = true)",
        )
    if missing and missing != ["truncate"]:
        yield Complaint(
            "publication",
            f"publication {name} leaves out {' and '.join(missing)}: ALTER PUBLICATION "
            f"{quoted(name)} SET (publish = '{', '.join(_EVERYTHING)}')",
        )


def _unknown_slots(
    database: Database, source: ChangesSource, options: ChangesOptions, known: Collection[str]
) -> Iterator[str]:
    """Left behind by a checkpoint that was removed, they keep the log until the disk is full."""
    for name, size in database.execute(_SLOTS, (f"{options.slot}\\_________",)).fetchall():
        if name not in known:
            yield (
                f"Slot {name} is not of this checkpoint and keeps {size} of PostgreSQL's log: if "
                f"no other pipeline has a source {source.name}, SELECT "
                f"pg_drop_replication_slot('{name}')"
            )


def _long_values(table: TableInfo) -> Iterator[str]:
    kinds = ("STRING", "BINARY")
    long = [
        one.name
        for one in table.logged()
        if (one.spark in kinds or one.spark.startswith("ARRAY")) and one.kind != "uuid"
    ]
    if long and table.identity != "f":
        yield (
            f"Updates of {table.sql_name} that leave a value of more than some 2,000 bytes alone "
            f"do not have it (column {long[0]}; it is NULL and named in _unchanged), unless the "
            "table's REPLICA IDENTITY is FULL"
        )


_SERVER: Final = """
    SELECT current_setting('wal_level'), pg_is_in_recovery(),
           r.rolsuper OR r.rolreplication OR EXISTS (
               SELECT 1 FROM pg_roles s
               WHERE s.rolname = 'rds_replication' AND pg_has_role(s.oid, 'USAGE')),
           has_database_privilege(current_database(), 'CREATE'), current_user::text,
           (SELECT count(*) FROM pg_replication_slots),
           current_setting('max_replication_slots')::int
    FROM pg_roles r WHERE r.rolname = current_user"""
_PUBLICATION: Final = """
    SELECT pubinsert, pubupdate, pubdelete, pubtruncate,
           EXISTS (SELECT 1 FROM pg_publication_tables t
                   WHERE t.pubname = p.pubname AND t.schemaname = %s AND t.tablename = %s),
           pubviaroot
    FROM pg_publication p WHERE pubname = %s"""
_SLOTS: Final = """
    SELECT slot_name::text, pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn))
    FROM pg_replication_slots
    WHERE slot_name LIKE %s AND database = current_database() AND NOT active
      AND NOT pg_is_in_recovery()"""
