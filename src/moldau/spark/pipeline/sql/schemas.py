"""Schemas as Spark writes them, such as ``id BIGINT, name STRING``: their columns and types.

sqlglot leaves out without a word what it does not know of a schema, so that columns would be missed
that are there.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sqlglot import exp
from sqlglot.errors import SqlglotError

from moldau.spark.pipeline.problems import did_you_mean

Type = exp.DataType | None
"""None if it is not known."""

DIALECT: Final = "spark"

_TOKEN: Final = re.compile(
    r"""(?P<quoted>`(?:[^`]|``)*`)|(?P<word>\w+)|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|\S"""
)
_WHOLE: Final = re.compile(r"\s*(struct|array|map)\s*<", re.IGNORECASE)
_PLAIN: Final = frozenset(
    (
        *("BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG"),
        *("FLOAT", "REAL", "DOUBLE", "DECIMAL", "DEC", "NUMERIC", "STRING", "CHAR", "CHARACTER"),
        *("VARCHAR", "BINARY", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"),
        *("INTERVAL", "VOID", "VARIANT", "GEOMETRY", "GEOGRAPHY"),
    )
)
_NESTED: Final = {"ARRAY": 1, "MAP": 2}
"""How many types are in them."""
_UNITS: Final = frozenset(("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "TO"))
_ZONE: Final = frozenset(("WITHOUT", "TIME", "ZONE"))
_WORDS: Final = {"INTERVAL": _UNITS, "TIME": _ZONE, "TIMESTAMP": _ZONE}
"""What may follow such a type's name."""
_OPTIONS: Final = frozenset(("NOT", "COMMENT", "DEFAULT", "GENERATED"))
"""What may follow a column's type."""


class SchemaError(ValueError):
    """A text that Spark would not take for a schema."""

    def __init__(self, message: str, word: str) -> None:
        super().__init__(message)
        self.word = word
        """Where it was noticed."""


class _Token(NamedTuple):
    text: str
    is_name: bool
    begin: int
    end: int


def read_schema(text: str) -> Type:
    """A struct of the columns, or the type that the text is; ``SchemaError`` if it is neither."""
    reader = _Reader(text)
    found = reader.type() if _WHOLE.match(text) else reader.struct()
    reader.end()
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [
            _Token(one[0], one["quoted"] is not None or one["word"] is not None, *one.span())
            for one in _TOKEN.finditer(text)
        ]
        self._at = 0

    def struct(self, closing: str = "") -> exp.DataType:
        """Columns up to the closing bracket, which is left where it is, or to the end."""
        columns = []
        while True:
            name = self._name()
            self._skip(":")
            columns.append(
                exp.ColumnDef(this=exp.to_identifier(name), kind=self._type_of_column(closing))
            )
            if self._next() == closing:
                return exp.DataType(this=exp.DataType.Type.STRUCT, expressions=columns, nested=True)
            self._expect(",")

    def type(self) -> Type:
        first = self._take("a type")
        kind = first.text.upper()
        if kind == "STRUCT":
            self._expect("<")
            found = self.struct(">")
            self._expect(">")
            return found
        if kind in _NESTED:
            self._expect("<")
            for number in range(_NESTED[kind]):
                if number:
                    self._expect(",")
                self.type()
            self._expect(">")
        elif kind not in _PLAIN:
            hint = did_you_mean(kind, (*_PLAIN, *_NESTED, "STRUCT"))
            raise SchemaError(
                f"{first.text} is no type"
                + (f": {hint}" if hint.startswith("did you mean") else ""),
                first.text,
            )
        elif self._next() == "(":
            self._arguments()
        while self._next().upper() in _WORDS.get(kind, ()):
            self._at += 1
        if kind == "STRING" and self._next().upper() == "COLLATE":
            self._at += 1
            self._take("a collation")
        return self._known(first.begin)

    def end(self) -> None:
        if self._next():
            raise SchemaError(f"{self._next()!r} is one too many", self._next())

    def _type_of_column(self, closing: str) -> Type:
        found = self.type()
        if self._next().upper() in _OPTIONS:
            depth = 0
            while (sign := self._next()) and (depth or sign not in (",", closing)):
                depth += (sign == "(") - (sign == ")")
                self._at += 1
        return found

    def _arguments(self) -> None:
        """Numbers, as of ``DECIMAL(10, 2)``; of places on Earth also the word ANY."""
        self._expect("(")
        self._take("a number")
        while self._next() == ",":
            self._at += 1
            self._take("a number")
        self._expect(")")

    def _known(self, begin: int) -> Type:
        """What sqlglot makes of the type that was read since; None of those that it cannot."""
        text = self._text[begin : self._tokens[self._at - 1].end]
        if re.search(r"\bvoid\b", text, re.IGNORECASE):
            return None
        try:
            return exp.DataType.build(text, dialect=DIALECT)
        except (SqlglotError, ValueError):
            return None

    def _name(self) -> str:
        token = self._take("a column")
        if token.text.startswith("`"):
            return token.text[1:-1].replace("``", "`")
        return token.text

    def _take(self, what: str) -> _Token:
        if self._at == len(self._tokens) or not self._tokens[self._at].is_name:
            found = self._next()
            where = f"before {found!r}" if found else "at the end"
            raise SchemaError(f"{what} is missing {where}", found)
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, sign: str) -> None:
        if self._next() != sign:
            found = self._next()
            where = f"before {found!r}" if found else "at the end"
            raise SchemaError(f"{sign!r} is missing {where}", found)
        self._at += 1

    def _skip(self, sign: str) -> None:
        self._at += self._next() == sign

    def _next(self) -> str:
        """Empty at the end."""
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""
