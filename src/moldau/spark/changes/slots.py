"""Replication slots through SQL functions: PostgreSQL keeps the log from where a slot stands on."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from moldau.spark.changes.catalog import quoted
from moldau.spark.changes.connection import first_line, when_free
from moldau.spark.changes.options import ANEW, ChangesError
from moldau.spark.changes.pgoutput import commit_lsn, lsn_text

if TYPE_CHECKING:
    from psycopg import Connection

    Database = Connection[tuple[Any, ...]]

_CREATION: Final = "60s"
"""A slot begins when all transactions that are open have ended."""
_GROWTH: Final = 4
_DIGITS: Final = 8
"""At the end of a slot's name."""


@dataclass(frozen=True)
class Transaction:
    commit: int
    """Where the commit is in the log."""
    end: int
    """The first place behind it."""
    changes: int


def flushed(database: Database) -> int:
    """Where the log ends."""
    return _one(database, "SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint")


def is_made_for(prefix: str, name: str) -> bool:
    """Whether a name is one that ``create_slot`` gives."""
    return re.fullmatch(f"{re.escape(prefix)}_[0-9a-f]{{{_DIGITS}}}", name) is not None


def create_slot(database: Database, prefix: str) -> tuple[str, int]:
    """Its name and where it begins. Every stream has its own: none moves that of another."""
    from psycopg.errors import QueryCanceled

    name = f"{prefix}_{uuid.uuid4().hex[:_DIGITS]}"
    database.execute(f"SET statement_timeout = '{_CREATION}'")
    try:
        begin = _one(
            database,
            "SELECT (lsn - '0/0'::pg_lsn)::bigint "
            "FROM pg_create_logical_replication_slot(%s, 'pgoutput')",
            (name,),
        )
    except QueryCanceled:
        oldest = database.execute(
            "SELECT pid FROM pg_stat_activity WHERE xact_start IS NOT NULL AND "
            "pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1"
        ).fetchone()
        who = f", the oldest of process {oldest[0]}" if oldest else ""
        raise ChangesError(
            f"option slot: a slot begins when transactions that are open have ended, and some have "
            f"not within {_CREATION}{who}"
        ) from None
    finally:
        database.execute("SET statement_timeout = 0")
    return name, begin


def check_slot(database: Database, slot: str, start: int | None = None) -> None:
    """Whether it still has what comes after ``start``, as far as that is known."""
    found = database.execute(
        "SELECT (confirmed_flush_lsn - '0/0'::pg_lsn)::bigint, wal_status = 'lost' "
        "FROM pg_replication_slots WHERE slot_name = %s AND database = current_database()",
        (slot,),
    ).fetchone()
    since = "" if start is None else f" since {lsn_text(start)}"
    if found is None:
        raise ChangesError(
            f"option slot: slot {slot} is not there any more, and changes{since} are lost; {ANEW}"
        )
    confirmed, lost = found
    if lost:
        raise ChangesError(
            f"option slot: PostgreSQL has given up slot {slot} (max_slot_wal_keep_size), and "
            f"changes{since} are lost; {ANEW}, and SELECT pg_drop_replication_slot('{slot}')"
        )
    if start is not None and confirmed > start:
        raise ChangesError(
            f"option slot: slot {slot} is at {lsn_text(confirmed)} and the checkpoint at "
            f"{lsn_text(start)}: changes between them are lost; {ANEW}"
        )


def advance(database: Database, slot: str, to: int) -> None:
    """Let PostgreSQL remove what is before."""
    when_free(
        partial(
            database.execute,
            "SELECT pg_replication_slot_advance(slot_name, %(to)s::pg_lsn) "
            "FROM pg_replication_slots "
            "WHERE slot_name = %(slot)s AND confirmed_flush_lsn < %(to)s::pg_lsn",
            {"slot": slot, "to": lsn_text(to)},
        )
    )


def transactions(
    database: Database, slot: str, publication: str, start: int, until: int, most: int | None
) -> list[Transaction]:
    """Those that have committed in this part of the log, at least the first ``most`` changes."""
    limit = None if most is None else _GROWTH * most
    while True:
        peek = partial(_peek_transactions, database, slot, publication, until, limit)
        with _decoding(slot):
            found, seen = when_free(peek)
        inside = [one for one in found if start <= one.commit < until and one.changes]
        enough = most is None or sum(one.changes for one in inside) >= most
        if limit is None or enough or seen < limit:
            return inside
        limit *= _GROWTH


def messages(
    database: Database, slot: str, publication: str, start: int, until: int
) -> Iterator[bytes]:
    """Those of the transactions that have committed in this part of the log."""
    from psycopg import sql

    arguments = (slot, lsn_text(until), None, quoted(publication))
    peek = sql.SQL(_PEEK).format(*map(sql.Literal, arguments))
    statement = sql.SQL("COPY (SELECT data FROM {}) TO STDOUT (FORMAT BINARY)").format(peek)
    wanted = False
    with _decoding(slot):
        for message in when_free(lambda: _begun(_copied(database, statement))):
            if message[:1] == b"B":
                wanted = start <= commit_lsn(message) < until
            # A table is described once only, before its first change.
            if wanted or message[:1] == b"R":
                yield message


@contextmanager
def _decoding(slot: str) -> Iterator[None]:
    """What a slot cannot be read for, although it is there."""
    from psycopg.errors import ObjectNotInPrerequisiteState, UndefinedFile, UndefinedObject

    try:
        yield
    except UndefinedObject as error:
        # The catalog is seen as it was at each change, so that a new one does not help.
        raise ChangesError(
            f"option publication: {first_line(error)} all the time since slot {slot} was made, "
            f"and changes are lost; {ANEW}"
        ) from error
    except (ObjectNotInPrerequisiteState, UndefinedFile) as error:
        raise ChangesError(f"option slot: {first_line(error)}; {ANEW}") from error


def _begun(rows: Iterator[bytes]) -> Iterator[bytes]:
    """Whether the slot is free turns out with the first row."""
    return chain(list(islice(rows, 1)), rows)


def _copied(database: Database, statement: Any) -> Iterator[bytes]:
    with database.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(["bytea"])
        for (message,) in copy.rows():
            yield message


_PEEK: Final = (
    "pg_logical_slot_peek_binary_changes({}, {}::pg_lsn, {}::int, 'proto_version', '1', "
    "'publication_names', {})"
)
_TRANSACTIONS: Final = """
    SELECT array_agg(data) FILTER (WHERE get_byte(data, 0) = 66),
           (max(lsn - '0/0'::pg_lsn) FILTER (WHERE get_byte(data, 0) = 67))::bigint,
           count(*) FILTER (WHERE get_byte(data, 0) IN (68, 73, 84, 85)),
           count(*)
    FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, %s::int, 'proto_version', '1',
                                             'publication_names', %s)
    GROUP BY xid ORDER BY 2"""
"""By the letters of messages: begin, commit, changes."""


def _peek_transactions(
    database: Database, slot: str, publication: str, until: int, limit: int | None
) -> tuple[list[Transaction], int]:
    """And how many messages there were."""
    rows = database.execute(
        _TRANSACTIONS, (slot, lsn_text(until), limit, quoted(publication))
    ).fetchall()
    found = [
        Transaction(commit_lsn(begin[0]), end, changes)
        for begin, end, changes, _ in rows
        if begin and end is not None
    ]
    return found, sum(row[3] for row in rows)


def _one(database: Database, query: Any, parameters: tuple[Any, ...] = ()) -> int:
    found = database.execute(query, parameters).fetchone()
    assert found is not None
    return int(found[0])
