"""Values as people write them in TOML, JSON and CSV, in the types of Spark's columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from pyspark.sql import Row as SparkRow
from pyspark.sql import types as T  # noqa: N812 - everybody calls it so

from moldau.spark.pipeline.problems import did_you_mean
from moldau.spark.pipeline.samples.cases import Cell, Row, as_moment


class SampleError(ValueError):
    """A row that cannot be taken."""


def parsed(schema: str) -> T.StructType:
    """A schema in Spark's words."""
    found = T.StructType.fromDDL(schema)
    assert isinstance(found, T.StructType)
    return found


def typed(rows: Iterable[Row], schema: T.StructType) -> list[tuple[Any, ...]]:
    names = {name.lower(): name for name in schema.names}
    found = []
    for row in rows:
        by_name = {}
        for name, value in row.items():
            if name.lower() not in names:
                raise SampleError(f"there is no column {name}: {did_you_mean(name, schema.names)}")
            by_name[names[name.lower()]] = value
        found.append(
            tuple(_value(by_name.get(one.name), one.dataType, one.name) for one in schema.fields)
        )
    return found


def inferred(rows: Sequence[Row]) -> list[SparkRow]:
    """Rows for Spark to find the types of; all have the same columns."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [SparkRow(**{name: _guess(row.get(name)) for name in names}) for row in rows]


def _guess(value: Any) -> Any:
    if isinstance(value, Cell):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
        return str(value) or None
    if isinstance(value, dict):
        return SparkRow(**{name: _guess(item) for name, item in value.items()})
    if isinstance(value, list):
        return [_guess(item) for item in value]
    return value


def _value(value: Any, kind: T.DataType, name: str) -> Any:
    if value is None or (isinstance(value, Cell) and not value):
        return None
    if isinstance(value, Cell) and isinstance(kind, (T.StructType, T.ArrayType, T.MapType)):
        value = json.loads(value)
    try:
        return _convert(value, kind, name)
    except (ValueError, TypeError, InvalidOperation, AttributeError):
        raise SampleError(f"{value!r} of column {name} is no {kind.simpleString()}") from None


def _convert(value: Any, kind: T.DataType, name: str) -> Any:
    match kind:
        case T.StructType():
            return typed([value], kind)[0]
        case T.ArrayType():
            return [_value(item, kind.elementType, name) for item in value]
        case T.MapType():
            return {
                _value(key, kind.keyType, name): _value(item, kind.valueType, name)
                for key, item in value.items()
            }
        case T.TimestampType() | T.TimestampNTZType():
            moment = _required(as_moment(value))
            return moment if isinstance(kind, T.TimestampType) else moment.replace(tzinfo=None)
        case T.DateType():
            return date.fromisoformat(str(value))
        case T.BooleanType():
            return value if isinstance(value, bool) else {"true": True, "false": False}[str(value)]
        case T.IntegralType():
            return _whole(value)
        case T.FractionalType():
            return Decimal(str(value)) if isinstance(kind, T.DecimalType) else float(value)
        case T.BinaryType():
            return str(value).encode()
        case T.StringType():
            return str(_required(value if isinstance(value, str) else None))
        case _:
            return value


def _required(value: Any) -> Any:
    if value is None:
        raise ValueError
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError
    return int(value)
