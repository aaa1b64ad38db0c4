"""Types of PostgreSQL as Spark has them, and values out of PostgreSQL's text form.

Text is the one form that the log, COPY and Spark's types have in common; the session's settings
(``connection``) see to it that it does not depend on the server.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

Parse = Callable[[str], Any]

_PLAIN: Final = {
    "boolean": "BOOLEAN",
    "smallint": "SMALLINT",
    "integer": "INT",
    "bigint": "BIGINT",
    "oid": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "date": "DATE",
    "bytea": "BINARY",
}
_NUMERIC: Final = re.compile(r"numeric\((\d+),(-?\d+)\)")
_TIMESTAMP: Final = re.compile(r"timestamp(?:\(\d\))? (with|without) time zone")
_MOST_DIGITS: Final = 38


def spark_type(name: str, dimensions: int = 0) -> str:
    """``name`` as ``format_type`` writes it. What Spark has no type for is a text.

    A numeric without a precision has no limit, and so no DECIMAL that takes all of it.
    """
    if name.endswith("[]"):
        if name == "box[]":  # the one type whose values have a semicolon between them
            return "STRING"
        return f"ARRAY<{spark_type(name[:-2])}>" if dimensions < 2 else "STRING"
    if found := _NUMERIC.fullmatch(name):
        digits, scale = int(found[1]), int(found[2])
        fits = 0 <= scale <= digits <= _MOST_DIGITS
        return f"DECIMAL({digits},{scale})" if fits else "STRING"
    if found := _TIMESTAMP.fullmatch(name):
        return "TIMESTAMP" if found[1] == "with" else "TIMESTAMP_NTZ"
    return _PLAIN.get(name, "STRING")


def parser(kind: str) -> Parse:
    """From text to what Arrow takes for this type of Spark's; None for what the type cannot have.

    That is NaN as DECIMAL, and times that are infinite, before Christ or after the year 9999.
    """
    if kind.startswith("ARRAY<"):
        element = parser(kind[len("ARRAY<") : -1])
        return lambda text: _array(text, element)
    if kind.startswith("DECIMAL"):
        return _decimal
    return _PARSERS[kind]


def _decimal(text: str) -> Decimal | None:
    value = Decimal(text)
    return value if value.is_finite() else None


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


_PARSERS: Final[dict[str, Parse]] = {
    "BOOLEAN": lambda text: text == "t",
    "SMALLINT": int,
    "INT": int,
    "BIGINT": int,
    "FLOAT": float,
    "DOUBLE": float,
    "DATE": _date,
    "TIMESTAMP": _moment,
    "TIMESTAMP_NTZ": _moment,
    "BINARY": lambda text: bytes.fromhex(text[2:]),
    "STRING": str,
}
_ITEM: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,{}"]+)', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def _array(text: str, element: Parse) -> list[Any]:
    """``{1,NULL,"a,b"}``, maybe with bounds before it."""
    body = text[text.index("{") + 1 : -1]
    if body.startswith("{"):
        raise ValueError(
            "an array of several dimensions: declare the column so (such as integer[][]), then it "
            "is read as text"
        )
    found = []
    for quoted, bare in _ITEM.findall(body):
        if bare:
            found.append(None if bare.upper() == "NULL" else element(bare))
        else:
            found.append(element(_ESCAPED.sub(r"\1", quoted)))
    return found
