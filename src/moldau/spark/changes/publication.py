"""The publication that a stream reads: without the table in it there would be silence for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.spark.changes.catalog import TableInfo, key_columns, quoted
from moldau.spark.changes.options import ANEW, ChangesError, ChangesOptions

if TYPE_CHECKING:
    from psycopg import Connection

    Database = Connection[tuple[Any, ...]]

_EVERYTHING: Final = ("insert", "update", "delete", "truncate")


class Complaint(NamedTuple):
    option: str
    message: str


class Publication(NamedTuple):
    missing: tuple[str, ...]
    """Kinds of changes that it leaves out."""
    has_table: bool
    via_root: bool
    """Whether changes of partitions are changes of the partitioned table."""
    owned: bool


def find_publication(database: Database, name: str, table: TableInfo) -> Publication | None:
    found = database.execute(_PUBLICATION, (table.schema, table.name, name)).fetchone()
    if found is None:
        return None
    *published, has_table, via_root, owned = found
    missing = tuple(what for what, has in zip(_EVERYTHING, published, strict=True) if not has)
    return Publication(missing, has_table, via_root, owned)


def prepare(database: Database, table: TableInfo, options: ChangesOptions) -> None:
    """Have the table published. Before the slot: decoding sees the catalog as it was then."""
    # What has no identity must not be published: PostgreSQL would refuse updates and deletes.
    _refuse(identity_complaints(table, options))
    _refuse(complaints(database, table, options, begun=False))
    name = quoted(options.publication)
    found = find_publication(database, options.publication, table)
    if found is None:
        root = " WITH (publish_via_partition_root = true)" if table.kind == "p" else ""
        database.execute(f"CREATE PUBLICATION {name} FOR TABLE ONLY {table.sql_name}{root}")
    elif _may_add(found, table, options):
        database.execute(f"ALTER PUBLICATION {name} ADD TABLE ONLY {table.sql_name}")


def check(database: Database, table: TableInfo, options: ChangesOptions) -> None:
    """Whether it is still as it must be: the log does not tell of what is not published."""
    _refuse(complaints(database, table, options, begun=True))


def complaints(
    database: Database,
    table: TableInfo,
    options: ChangesOptions,
    *,
    begun: bool,
    creates: bool = True,
) -> Iterator[Complaint]:
    """``begun``: there is a slot, so that it is too late for ``prepare``, which would fail with
    these as well. ``creates``: whether the role may make publications.
    """
    name = options.publication
    found = find_publication(database, name, table)
    if found is None:
        if begun:
            yield Complaint(
                "publication",
                f"publication {name} is not there any more, and changes since are lost; {ANEW}",
            )
        elif not (creates and table.owned):
            yield Complaint(
                "publication",
                f"there is no publication {name}, and this role may not create it: CREATE "
                f"PUBLICATION {quoted(name)} FOR TABLE {table.sql_name}",
            )
        return
    alter = f"ALTER PUBLICATION {quoted(name)}"
    if table.kind == "p" and not found.via_root:
        yield Complaint(
            "publication",
            f"{table.sql_name} is partitioned: {alter} SET (publish_via_partition_root = true)",
        )
    elif not found.has_table and (begun or not _may_add(found, table, options)):
        lost = f", changes since then are lost; {ANEW}, and" if begun else ":"
        yield Complaint(
            "publication",
            f"publication {name} does not have the table{lost} {alter} ADD TABLE {table.sql_name}",
        )
    if found.missing and found.missing != ("truncate",):
        yield Complaint(
            "publication",
            f"publication {name} leaves out {' and '.join(found.missing)}: {alter} SET (publish = "
            f"'{', '.join(_EVERYTHING)}')",
        )


def identity_complaints(table: TableInfo, options: ChangesOptions) -> Iterator[Complaint]:
    if not table.is_table:
        yield Complaint(
            "dbtable", f"{table.sql_name} is no table: the log has changes of tables only"
        )
    elif not table.identity_columns:
        yield Complaint(
            "dbtable",
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


def _may_add(found: Publication, table: TableInfo, options: ChangesOptions) -> bool:
    """One that has the name of the slot is this stream's own; others are whoever's made them."""
    own = options.publication == options.slot and found.owned and table.owned
    return own and not found.has_table and (table.kind != "p" or found.via_root)


def _refuse(found: Iterator[Complaint]) -> None:
    for option, message in found:
        raise ChangesError(f"option {option}: {message}")


_PUBLICATION: Final = """
    SELECT pubinsert, pubupdate, pubdelete, pubtruncate,
           EXISTS (SELECT 1 FROM pg_publication_tables t
                   WHERE t.pubname = p.pubname AND t.schemaname = %s AND t.tablename = %s),
           pubviaroot, pg_has_role(pubowner, 'USAGE')
    FROM pg_publication p WHERE pubname = %s"""
