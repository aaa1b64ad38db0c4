"""The columns of the source: the connector's, with key and value as their formats say."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from moldau.spark.decode import spark_type
from moldau.spark.options import OptionError, ReadOptions

HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)


def full_schema(options: ReadOptions) -> StructType:
    """All columns of a read with these options."""
    fields: list[tuple[str, DataType]] = [
        ("key", spark_type("key", options)),
        ("value", spark_type("value", options)),
        ("topic", StringType()),
        ("partition", IntegerType()),
        ("offset", LongType()),
        ("timestamp", TimestampType()),
        ("timestampType", IntegerType()),
    ]
    if options.include_headers:
        fields.append(("headers", HEADERS))
    return StructType([StructField(name, kind) for name, kind in fields])


def check_schema(wanted: StructType, options: ReadOptions) -> StructType:
    """The schema that a user gave with ``.schema(...)``: some columns, in any order."""
    known = {field.name: field.dataType for field in full_schema(options).fields}
    for field in wanted.fields:
        kind = known.get(field.name)
        if kind is None:
            raise OptionError(_no_column(field.name, list(known)))
        if not _same(kind, field.dataType):
            raise OptionError(
                f"Column {field.name} is of type {kind.simpleString()}, "
                f"not {field.dataType.simpleString()}; select it as it is and cast it"
            )
    return wanted


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark compares the first batch with, to the letter."""
    found: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return found


def _same(one: DataType, other: DataType) -> bool:
    """Equal but for what may be null."""
    return bool(_simple(one.jsonValue()) == _simple(other.jsonValue()))


def _simple(value: Any) -> Any:
    if isinstance(value, dict):
        skipped = ("nullable", "containsNull", "valueContainsNull", "metadata")
        return {key: _simple(part) for key, part in value.items() if key not in skipped}
    if isinstance(value, list):
        return [_simple(part) for part in value]
    return value


def _no_column(name: str, known: list[str]) -> str:
    if name == "headers":
        return "Column headers needs the option includeHeaders=true"
    close = get_close_matches(name, known, n=1)
    hint = f": did you mean {close[0]}?" if close else f"; there are {', '.join(known)}"
    return f"There is no column {name}{hint}"
