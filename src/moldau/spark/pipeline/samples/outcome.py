"""What became of a case, in words and in JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from moldau.spark.pipeline.samples.cases import Case, Row
from moldau.spark.pipeline.samples.diff import Change, Difference


@dataclass(frozen=True)
class Compared:
    """The rows of one step, sink or source of dead letters that are not as expected."""

    key: str
    name: str
    line: int
    difference: Difference


@dataclass(frozen=True)
class Outcome:
    case: Case
    seconds: float
    compared: list[Compared] = field(default_factory=list)
    error: str | None = None
    """Why there are no rows, or that there should be none."""

    @property
    def passed(self) -> bool:
        return not self.compared and self.error is None

    def lines(self) -> Iterator[str]:
        """As compilers say it, so that editors find the place."""
        if self.error is not None:
            yield f"{self.case.file}:{self.case.line}: {self.case.name}: {self.error}"
        for one in self.compared:
            title = f"{one.key} {one.name}" if one.key != "expect" else one.name
            yield f"{self.case.file}:{one.line}: {self.case.name}: {title} is not as expected"
            yield from (f"    missing     {shown(row)}" for row in one.difference.missing)
            yield from (f"    unexpected  {shown(row)}" for row in one.difference.unexpected)
            yield from (f"    changed     {_change(change)}" for change in one.difference.changed)

    def as_json(self) -> dict[str, Any]:
        return {
            "case": self.case.name,
            "passed": self.passed,
            "seconds": round(self.seconds, 3),
            "error": self.error,
            "differences": [
                {
                    "kind": one.key,
                    "name": one.name,
                    "line": one.line,
                    "missing": [_plain(row) for row in one.difference.missing],
                    "unexpected": [_plain(row) for row in one.difference.unexpected],
                    "changed": [
                        {"expected": _plain(change.expected), "found": _plain(change.found)}
                        for change in one.difference.changed
                    ],
                }
                for one in self.compared
            ],
        }


def shown(row: Row) -> str:
    return ", ".join(f"{name} = {_word(value)}" for name, value in row.items())


def _change(change: Change) -> str:
    """The columns by which the row is found, then what is expected and what is there."""
    columns = change.columns
    same = {name: value for name, value in change.expected.items() if name not in columns}
    others = ", ".join(
        f"{name} = {_word(change.found.get(name))}, expected {_word(change.expected[name])}"
        for name in columns
    )
    return f"{shown(same)}: {others}" if same else others


def _word(value: Any) -> str:
    found = _plain(value)
    if found is None:
        return "NULL"
    return f'"{found}"' if isinstance(found, str) else str(found)


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value
