"""The columns of the source: the connector's, with key and value as their formats say."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final, get_args

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from moldau.spark.decode.formats import Column, column_type, decoder
from moldau.spark.options import OptionError, ReadOptions

_HEADERS: Final = "array<struct<key:string,value:binary>>"
_FIXED: Final = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}


def full_schema(options: ReadOptions) -> str:
    """All columns of a read with these options, in DDL: the planner's process cannot parse it."""
    columns = {
        "key": column_type("key", options),
        "value": column_type("value", options),
        **_FIXED,
        **_optional(options),
    }
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def check_schema(wanted: StructType, options: ReadOptions) -> StructType:
    """The schema of a read, maybe given with ``.schema(...)``: some columns, in any order."""
    fixed = {**_FIXED, **_optional(options)}
    for name, column in (("key", options.key), ("value", options.value)):
        plain = {"bytes": "binary", "string": "string"}.get(column.format)
        if plain is not None:
            fixed[name] = plain
    for field in wanted.fields:
        if field.name not in fixed and field.name not in get_args(Column):
            raise OptionError(_no_column(field.name, [*get_args(Column), *fixed]))
        kind = field.dataType.simpleString()
        if kind != fixed.get(field.name, kind):
            raise OptionError(
                f"Column {field.name} is of type {fixed[field.name]}, not {kind}; read it as it "
                "is and cast it"
            )
    arrow = arrow_schema(wanted)
    for name in get_args(Column):
        if name in arrow.names:
            decoder(name, options, arrow.field(name).type)
    return wanted


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark compares the first batch with, to the letter."""
    try:
        found: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # PySpark before 4.2 means UTC without being told
        found = to_arrow_schema(schema)
    return found


def _optional(options: ReadOptions) -> dict[str, str]:
    return {"headers": _HEADERS} if options.include_headers else {}


def _no_column(name: str, known: list[str]) -> str:
    if name == "headers":
        return "Column headers needs the option includeHeaders=true"
    close = get_close_matches(name, known, n=1)
    hint = f": did you mean {close[0]}?" if close else f"; there are {', '.join(known)}"
    return f"There is no column {name}{hint}"
