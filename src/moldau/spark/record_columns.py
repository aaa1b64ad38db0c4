"""Which columns a row may have to become a record, checked on the driver before a job runs."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from moldau.spark.options import OptionError

_COLUMNS: Final[dict[str, tuple[type[DataType], ...]]] = {
    "key": (BinaryType, StringType),
    "value": (BinaryType, StringType),
    "topic": (StringType,),
    "partition": (IntegerType,),
    "timestamp": (TimestampType, TimestampNTZType),
    "headers": (ArrayType,),
}


def check_columns(schema: StructType, topic: str | None) -> None:
    """Refuse rows that are no records, before the job runs."""
    kinds = {field.name: field.dataType for field in schema.fields}
    for name, kind in kinds.items():
        if name not in _COLUMNS:
            raise OptionError(
                f"Column {name} is no part of a record; select from {', '.join(_COLUMNS)}"
            )
        if not isinstance(kind, _COLUMNS[name]):
            wanted = " or ".join(one.typeName() for one in _COLUMNS[name])
            raise OptionError(
                f"Column {name} is of type {kind.simpleString()}, not {wanted}: cast it"
            )
    if "value" not in kinds:
        raise OptionError("Column value is missing: cast what to write AS value")
    if "topic" not in kinds and topic is None:
        raise OptionError("Rows have no column topic: the option topic says where they go")
