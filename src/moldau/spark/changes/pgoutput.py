"""Messages of PostgreSQL's own output plugin, ``pgoutput``, in version 1 of its protocol.

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, Literal

Operation = Literal["insert", "update", "delete", "truncate"]


class Missing(Enum):
    """A long value that an update has left alone: the log does not have it."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Missing.UNCHANGED
Row = dict[str, str | Missing | None]
"""Values in text form, by column."""

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Relation:
    oid: int
    schema: str
    name: str
    columns: tuple[str, ...]
    keys: frozenset[str]
    """The columns of its replica identity."""


@dataclass(frozen=True, slots=True)
class Change:
    operation: Operation
    relation: Relation
    lsn: int
    """Where its transaction's commit is: the same for all changes of a transaction."""
    committed: datetime
    new: Row | None = None
    old: Row | None = None
    """The columns of the replica identity, or all of them if it is FULL."""


def lsn_text(lsn: int) -> str:
    """As PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def commit_lsn(begin: bytes) -> int:
    """Of the first message of a transaction."""
    (lsn,) = struct.unpack_from(">Q", begin, 1)
    return int(lsn)


def changes(messages: Iterable[bytes]) -> Iterator[Change]:
    """Of whole transactions, in the order of their commits."""
    relations: dict[int, Relation] = {}
    lsn, committed = 0, _EPOCH
    for message in messages:
        reader = _Reader(message)
        kind = reader.letter()
        if kind == "B":
            lsn, micros = reader.long(), reader.long()
            committed = _EPOCH + timedelta(microseconds=micros)
        elif kind == "R":
            relation = reader.relation()
            relations[relation.oid] = relation
        elif kind == "I":
            relation = relations[reader.number()]
            reader.letter()
            yield Change("insert", relation, lsn, committed, new=reader.row(relation))
        elif kind == "U":
            relation = relations[reader.number()]
            old = None
            if (which := reader.letter()) in "KO":
                old = reader.row(relation, keys_only=which == "K")
                reader.letter()
            new = reader.row(relation)
            yield Change("update", relation, lsn, committed, new, old)
        elif kind == "D":
            relation = relations[reader.number()]
            old = reader.row(relation, keys_only=reader.letter() == "K")
            yield Change("delete", relation, lsn, committed, old=old)
        elif kind == "T":
            count = reader.number()
            reader.byte()
            for _ in range(count):
                yield Change("truncate", relations[reader.number()], lsn, committed)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def letter(self) -> str:
        return chr(self.byte())

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def short(self) -> int:
        return self._number(">h", 2)

    def number(self) -> int:
        return self._number(">I", 4)

    def long(self) -> int:
        return self._number(">q", 8)

    def text(self) -> str:
        end = self._data.index(0, self._at)
        begin, self._at = self._at, end + 1
        return self._data[begin:end].decode()

    def relation(self) -> Relation:
        oid, schema, name = self.number(), self.text(), self.text()
        self.byte()
        columns, keys = [], set()
        for _ in range(self.short()):
            is_key = self.byte() & 1
            column = self.text()
            self._at += 8  # the type and its modifier: the catalog has told them
            columns.append(column)
            if is_key:
                keys.add(column)
        return Relation(oid, schema or "pg_catalog", name, tuple(columns), frozenset(keys))

    def row(self, relation: Relation, *, keys_only: bool = False) -> Row:
        found: Row = {}
        count = self.short()
        for column in relation.columns[:count]:
            value = self._value()
            # The others are there as nulls that mean nothing.
            if not keys_only or column in relation.keys:
                found[column] = value
        return found

    def _value(self) -> str | Missing | None:
        kind = self.letter()
        if kind == "n":
            return None
        if kind == "u":
            return UNCHANGED
        length = self.number()
        begin, self._at = self._at, self._at + length
        return self._data[begin : self._at].decode()

    def _number(self, form: str, size: int) -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += size
        return int(value)
