"""Tables whose changes are read: what PostgreSQL must allow for it, told with what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

from moldau.spark.changes.catalog import (
    LOG_COLUMNS,
    TableInfo,
    order_columns,
    quoted,
    read_table,
)
from moldau.spark.changes.connection import connected
from moldau.spark.changes.options import ChangesError, ChangesOptions, changes_options
from moldau.spark.changes.publication import Complaint, identity_complaints
from moldau.spark.changes.publication import complaints as publication_complaints
from moldau.spark.changes.slots import check_slot, is_made_for
from moldau.spark.pipeline.blame import CHANGES_OPTIONS, in_keys_of_changes
from moldau.spark.pipeline.preflight.found import Findings
from moldau.spark.pipeline.problems import did_you_mean
from moldau.spark.pipeline.spec import ChangesSource, Pipeline

if TYPE_CHECKING:
    from psycopg import Connection

    Database = Connection[tuple[Any, ...]]


_KEYS: Final = {option: key for key, option in CHANGES_OPTIONS.items()}
"""Of the file, by options."""
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
                own = {name for name in slots if is_made_for(options.slot, name)}
                complaints += _log(database, table, options, bool(own))
                complaints += _lost_slots(database, own)
                found.notes += _unknown_slots(database, source, options, slots)
                found.notes += _long_values(table)
    except ChangesError as error:
        said, blamed = in_keys_of_changes(str(error))
        complaints = [Complaint(CHANGES_OPTIONS[blamed or "changes"], said)]
    for option, said in complaints:
        place = pipeline.declared(source, _KEYS[option], "changes")
        found.problems.append(pipeline.problem(place, f"source {source.name}: {said}"))
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
            "dbtable", f"{table.sql_name} may not be read: GRANT SELECT ON {table.sql_name} TO …"
        )
    if options.mode == "log":
        yield from identity_complaints(table, options)
        for name in LOG_COLUMNS:
            if name in names:
                yield Complaint(
                    "dbtable", f"{table.sql_name} has a column {name}, as changes have their own"
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


def _log(
    database: Database, table: TableInfo, options: ChangesOptions, begun: bool
) -> Iterator[Complaint]:
    found = database.execute(_SERVER).fetchone()
    assert found is not None
    level, standby, replicates, creates, role, slots, most = found
    if level != "logical":
        yield Complaint(
            "url",
            f"wal_level of the server is {level}: ALTER SYSTEM SET wal_level = logical, and start "
            'it anew; mode = "column" does without',
        )
    if standby:
        yield Complaint("url", "the server is a standby, and slots are of the primary")
    if not replicates:
        yield Complaint(
            "url", f"role {role} may not use slots: ALTER ROLE {quoted(role)} REPLICATION"
        )
    if not begun and slots >= most:
        yield Complaint(
            "slot",
            f"all {most} slots of the server are taken (max_replication_slots): drop one that "
            "nobody uses",
        )
    yield from publication_complaints(database, table, options, begun=begun, creates=creates)


def _lost_slots(database: Database, own: Collection[str]) -> Iterator[Complaint]:
    """One may be of a sink that the file has no more, and be gone for good."""
    problems = []
    for name in own:
        try:
            check_slot(database, name)
        except ChangesError as error:
            problems.append(str(error).removeprefix("option slot: "))
    if len(problems) == len(own):
        yield from (Complaint("slot", problem) for problem in problems)


def _unknown_slots(
    database: Database, source: ChangesSource, options: ChangesOptions, known: Collection[str]
) -> Iterator[str]:
    """Left behind by a checkpoint that was removed, they keep the log until the disk is full."""
    for name, size in database.execute(_SLOTS).fetchall():
        if is_made_for(options.slot, name) and name not in known:
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
_SLOTS: Final = """
    SELECT slot_name::text, pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn))
    FROM pg_replication_slots
    WHERE database = current_database() AND NOT active AND NOT pg_is_in_recovery()"""
