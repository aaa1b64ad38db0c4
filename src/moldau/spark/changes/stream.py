"""Streams of changes: where a micro-batch ends, and what its one task reads.

What happens first in a query is in the offset that Spark writes down before the batch begins, not
in the initial one, which Spark asks for again whenever the first batch does not come to its end.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from moldau.spark.changes import publication, slots, tables
from moldau.spark.changes.catalog import TableInfo, key_columns, order_columns, read_table
from moldau.spark.changes.connection import connect, connected, telling
from moldau.spark.changes.options import ChangesError, ChangesOptions
from moldau.spark.changes.pgoutput import changes, lsn_number, lsn_text
from moldau.spark.changes.rows import ChangeRows, RowParser, batches
from moldau.spark.schema import arrow_schema

if TYPE_CHECKING:
    from psycopg import Connection

    Database = Connection[tuple[Any, ...]]

logger: Final = logging.getLogger("moldau.spark")

Offset = dict[str, Any]
"""The table, and once something was read the slot and its place in the log, or the last row."""

_HEARTBEAT: Final = 16 << 20
"""Bytes of others' changes after which a slot moves on although its table is quiet."""


class Range(InputPartition):
    """From an offset to another."""

    def __init__(self, start: Offset, end: Offset) -> None:
        super().__init__((start, end))


class ChangeStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ChangesOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._opened: Database | None = None
        self._known: TableInfo | None = None
        self._frozen = False
        self._asked = float("-inf")
        """When there was nothing new last."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_opened": None}

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"table": self._table.sql_name}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802, ARG002
        self._check(start)
        if not self._frozen and time.monotonic() - self._asked < self._options.poll:
            return start
        try:
            with telling():
                end = self.end_of(start)
        except BaseException:
            self.stop()
            raise
        if end == start:
            self._asked = time.monotonic()
        return end

    def reportLatestOffset(self) -> None:  # noqa: N802
        return None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._frozen = True
        with telling():
            self.freeze()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        self._check(start)
        if not self._options.snapshot and len(start) == 1:
            return []
        return [Range(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        start, end = partition.value
        with connected(self._options.url) as database:
            yield from batches(self.rows(database, start, end), arrow_schema(self._schema))

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @abstractmethod
    def end_of(self, start: Offset) -> Offset:
        """Where the batch that begins here ends; where it begins if there is nothing."""

    @abstractmethod
    def freeze(self) -> None:
        """There is nothing after what is there now."""

    @abstractmethod
    def rows(self, database: Database, start: Offset, end: Offset) -> Iterator[dict[str, Any]]:
        """What a task reads."""

    @property
    def _database(self) -> Database:
        if self._opened is None or self._opened.closed:
            self._opened = connect(self._options.url)
        return self._opened

    @property
    def _table(self) -> TableInfo:
        if self._known is None:
            with telling():
                self._known = read_table(self._database, self._options.table)
        return self._known

    def _check(self, start: Offset) -> None:
        table = start.get("table")
        if table != self._table.sql_name:
            of = f"of table {table}" if table else "of something else"
            raise ChangesError(
                f"option dbtable: the checkpoint is {of}, and this source reads "
                f"{self._table.sql_name}: use another checkpoint"
            )


class LogStream(ChangeStream):
    """By the write-ahead log, through a slot of this stream's own."""

    _target: int | None = None

    def end_of(self, start: Offset) -> Offset:
        database, options = self._database, self._options
        if "slot" not in start:
            publication.prepare(database, self._table, options)
            slot, begin = slots.create_slot(database, options.slot)
            return {**start, "slot": slot, "lsn": lsn_text(begin)}
        slot, at = start["slot"], lsn_number(start["lsn"])
        slots.check_slot(database, slot, at)
        publication.check(database, self._table, options)
        until = slots.flushed(database) if self._target is None else self._target
        if until <= at:
            return start
        most = options.max_rows
        found = slots.transactions(database, slot, options.publication, at, until, most)
        end, rows = at, 0
        for one in found:
            if most is not None and rows and rows + one.changes > most:
                break  # transactions are not torn apart
            end, rows = one.end, rows + one.changes
        if end == at and until - at >= _HEARTBEAT:
            end = until
        return {**start, "lsn": lsn_text(end)} if end != at else start

    def freeze(self) -> None:
        self._target = slots.flushed(self._database)

    def rows(self, database: Database, start: Offset, end: Offset) -> Iterator[dict[str, Any]]:
        table, columns = self._table, self._table.logged()
        made = ChangeRows(columns, key_columns(table, self._options))
        until = lsn_number(end["lsn"])
        if "slot" not in start:
            all_rows = tables.read_rows(database, table, columns, None)
            yield from made.snapshot(all_rows, until, datetime.now(UTC))
            return
        at = lsn_number(start["lsn"])
        slots.check_slot(database, end["slot"], at)
        found = changes(slots.messages(database, end["slot"], self._options.publication, at, until))
        yield from made.rows(
            one
            for one in found
            if one.relation.oid == table.oid
            or (one.relation.schema, one.relation.name) == (table.schema, table.name)
        )

    def commit(self, end: Offset) -> None:
        """What was processed need not be kept by PostgreSQL; if it is, nothing is lost by that."""
        try:
            slots.advance(self._database, end["slot"], lsn_number(end["lsn"]))
        except Exception as error:
            logger.warning("slot %s was not advanced: %s", end.get("slot"), error)
            self.stop()


class ColumnStream(ChangeStream):
    """By a column that grows, with keys that tell rows with equal values apart."""

    _target: Sequence[str] | None = None
    _seen: tuple[float, Sequence[str]] | None = None
    """When a last row was seen first, and which: what is before it may be committed until now."""

    @property
    def _order(self) -> tuple[str, ...]:
        return order_columns(self._table, self._options)

    def end_of(self, start: Offset) -> Offset:
        at = start.get("at")
        last = self._last(at)
        if last is None:
            return start
        if self._options.max_rows is not None and (at is not None or self._options.snapshot):
            last = tables.place_after(
                self._database, self._table, self._order, at, last, self._options.max_rows
            )
        return {**start, "by": list(self._order), "at": list(last)}

    def freeze(self) -> None:
        self._target = self._last_place(None)
        if self._target is not None:
            time.sleep(self._options.lag)

    def rows(self, database: Database, start: Offset, end: Offset) -> Iterator[dict[str, Any]]:
        if end["by"] != list(self._order):
            raise ChangesError(
                f"option column: the checkpoint is by {', '.join(end['by'])}, and this source "
                f"reads by {', '.join(self._order)}: use another checkpoint"
            )
        table = self._table
        parse = RowParser(table.columns)
        where = tables.between(table, self._order, start.get("at"), end["at"])
        for row in tables.read_rows(database, table, table.columns, where):
            yield parse.values(row)

    def _last(self, at: Sequence[str] | None) -> Sequence[str] | None:
        """The last row that was there ``lag`` ago already; None if it was read."""
        if self._frozen:
            return None if self._target is None else self._last_place(at, self._target)
        if self._seen is None:
            found = self._last_place(at)
            self._seen = None if found is None else (time.monotonic(), found)
        if self._seen is None or time.monotonic() - self._seen[0] < self._options.lag:
            return None
        (_, last), self._seen = self._seen, None
        return last

    def _last_place(
        self, after: Sequence[str] | None, until: Sequence[str] | None = None
    ) -> Sequence[str] | None:
        return tables.last_place(self._database, self._table, self._order, after, until)


def change_stream(options: ChangesOptions, schema: StructType) -> ChangeStream:
    return LogStream(options, schema) if options.mode == "log" else ColumnStream(options, schema)
