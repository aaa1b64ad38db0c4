"""Rows that were expected beside those that came: what is missing, too much, or different."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from moldau.spark.pipeline.samples.cases import Cell, Row, as_moment

_CLOSE: Final = 1e-9
"""How far apart numbers with a fraction may be, of their size."""


@dataclass(frozen=True)
class Change:
    """Two rows that are meant to be the same."""

    expected: Row
    found: Row

    @property
    def columns(self) -> list[str]:
        return [
            name for name in self.expected if not same(self.expected[name], self.found.get(name))
        ]


@dataclass(frozen=True)
class Difference:
    missing: list[Row] = field(default_factory=list)
    unexpected: list[Row] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.changed)


def columns_of(expected: Sequence[Row]) -> list[str]:
    """The columns that are compared: those that expected rows name."""
    return list(dict.fromkeys(name for row in expected for name in row))


def difference(expected: Sequence[Row], found: Sequence[Row], *, ordered: bool) -> Difference:
    """Only columns that are expected are compared; one that a row does not name is NULL there."""
    columns = columns_of(expected)
    wanted: list[Row] = [{name: row.get(name) for name in columns} for row in expected]
    given = list(found)
    if columns:
        given = [{name: row.get(name) for name in columns} for row in found]
    if ordered:
        return _in_order(wanted, given)
    missing = []
    for row in wanted:
        at = next((index for index, one in enumerate(given) if _equal(row, one)), None)
        if at is None:
            missing.append(row)
        else:
            del given[at]
    return _paired(missing, given)


def _in_order(wanted: list[Row], given: list[Row]) -> Difference:
    common = min(len(wanted), len(given))
    changed = [
        Change(row, one) for row, one in zip(wanted, given, strict=False) if not _equal(row, one)
    ]
    return Difference(wanted[common:], given[common:], changed)


def _paired(missing: list[Row], unexpected: list[Row]) -> Difference:
    """Rows that have at least half of their columns in common are one that has changed."""
    changed: list[Change] = []
    alone: list[Row] = []
    for row in missing:
        scores = [sum(same(row[name], one.get(name)) for name in row) for one in unexpected]
        best = max(scores, default=0)
        if best and best * 2 >= len(row):
            changed.append(Change(row, unexpected.pop(scores.index(best))))
        else:
            alone.append(row)
    return Difference(alone, unexpected, changed)


def _equal(expected: Row, found: Row) -> bool:
    return all(same(value, found.get(name)) for name, value in expected.items())


def same(expected: Any, found: Any) -> bool:
    """Whether a value is the expected one, whichever way that is written."""
    if isinstance(expected, Cell):
        return _same_cell(expected, found)
    if isinstance(found, bytes) and isinstance(expected, str):
        return found == expected.encode()
    if isinstance(expected, dict):
        return _same_fields(expected, found)
    if isinstance(expected, list):
        return _same_items(expected, found)
    if isinstance(found, datetime):
        return as_moment(expected) == as_moment(found)
    if isinstance(found, date):
        return str(expected) == found.isoformat()
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, (int, float)) and isinstance(found, (int, float, Decimal)):
        return _same_number(expected, found)
    if isinstance(found, Decimal) and isinstance(expected, str):
        return _decimal(expected) == found
    return bool(expected == found)


def _same_number(expected: Any, found: Any) -> bool:
    if isinstance(expected, float) or isinstance(found, float):
        number = float(found)
        both_nan = math.isnan(expected) and math.isnan(number)
        return both_nan or math.isclose(expected, number, rel_tol=_CLOSE, abs_tol=_CLOSE)
    return bool(expected == found)


def _same_cell(cell: str, found: Any) -> bool:
    if found is None:
        return cell == ""
    if isinstance(found, bool):
        return cell.lower() == str(found).lower()
    if isinstance(found, (int, float, Decimal)):
        number = _decimal(cell)
        if number is None or number == found:
            return number is not None
        return isinstance(found, float) and _same_number(float(number), found)
    if isinstance(found, (dict, list)):
        read = _json(cell)
        return read is not None and same(read, found)
    return same(str(cell), found)


def _same_fields(expected: Mapping[str, Any], found: Any) -> bool:
    """Fields that are not named are not compared; a text may be the JSON of it."""
    if isinstance(found, (str, bytes)):
        found = _json(found)
    if isinstance(found, list) and all(isinstance(one, tuple) for one in found):
        found = dict(found)  # a map, as Arrow has it
    if not isinstance(found, dict):
        return False
    return all(same(value, found.get(name)) for name, value in expected.items())


def _same_items(expected: list[Any], found: Any) -> bool:
    if isinstance(found, (str, bytes)):
        found = _json(found)
    if not isinstance(found, list) or len(found) != len(expected):
        return False
    return all(same(one, other) for one, other in zip(expected, found, strict=True))


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        return None
