"""Changes and rows of a table as Arrow has them, in the columns that Spark expects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from moldau.spark.changes.catalog import TableColumn
from moldau.spark.changes.options import ChangesError
from moldau.spark.changes.pgoutput import UNCHANGED, Change, Row
from moldau.spark.changes.values import Parse, parser

ROWS_PER_BATCH: Final = 4096

Values = dict[str, Any]


class RowParser:
    """Texts to values, by column."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        self._parsers: dict[str, Parse] = {one.name: parser(one.spark) for one in columns}

    def values(self, row: Mapping[str, Any]) -> Values:
        """What the stream does not know is left out: columns that were added since it began."""
        found: Values = {}
        for name, text in row.items():
            parse = self._parsers.get(name)
            if parse is None:
                continue
            try:
                found[name] = None if text is None or text is UNCHANGED else parse(text)
            except (ValueError, ArithmeticError) as error:
                raise ChangesError(f"option dbtable: column {name}: {error}") from error
        return found


class ChangeRows:
    """Rows of mode ``log``."""

    def __init__(self, columns: Sequence[TableColumn], keys: Sequence[str]) -> None:
        self._parser = RowParser(columns)
        self._keys = keys

    def rows(self, changes: Iterable[Change]) -> Iterator[Values]:
        lsn, sequence = -1, 0
        for change in changes:
            if change.lsn != lsn:
                lsn, sequence = change.lsn, 0
            for row in self._rows(change):
                yield {
                    **row,
                    "_lsn": lsn,
                    "_sequence": sequence,
                    "_commit_timestamp": change.committed,
                }
                sequence += 1

    def snapshot(self, rows: Iterable[Row], lsn: int, now: datetime) -> Iterator[Values]:
        for row in rows:
            yield {
                **self._parser.values(row),
                "_op": "r",
                "_lsn": lsn,
                "_commit_timestamp": now,
            }

    def _rows(self, change: Change) -> Iterator[Values]:
        old = None if change.old is None else self._parser.values(change.old)
        if change.new is None:
            operation = "d" if change.operation == "delete" else "t"
            yield {**(old or {}), "_op": operation, "_before": old}
            return
        row = dict(change.new)
        for name, value in row.items():
            if value is UNCHANGED and change.old is not None and name in change.old:
                row[name] = change.old[name]
        new = self._parser.values(row)
        unchanged = [name for name, value in row.items() if value is UNCHANGED] or None
        if change.operation == "insert":
            yield {**new, "_op": "c"}
        elif old is not None and any(old.get(key) != new.get(key) for key in self._keys):
            # Who keeps rows by key would keep the old one for ever.
            yield {**old, "_op": "d", "_before": old}
            yield {**new, "_op": "c", "_unchanged": unchanged}
        else:
            yield {**new, "_op": "u", "_before": old, "_unchanged": unchanged}


def batches(rows: Iterable[Values], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    kept: list[Values] = []
    for row in rows:
        kept.append(row)
        if len(kept) == ROWS_PER_BATCH:
            yield _batch(kept, schema)
            kept = []
    if kept:
        yield _batch(kept, schema)


def _batch(rows: Sequence[Values], schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        try:
            arrays.append(pa.array([row.get(field.name) for row in rows], field.type))
        except (pa.ArrowException, OverflowError) as error:
            raise ChangesError(f"option dbtable: column {field.name}: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
