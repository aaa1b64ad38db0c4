"""Which Spark type a format makes of bytes, and the function that does it."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from moldau.spark.decode.columns import Decode, Values
from moldau.spark.options import OptionError, ReadOptions

Column = Literal["key", "value"]


def spark_type(column: Column, options: ReadOptions) -> DataType:
    """The type of the column; a schema that cannot be read is an ``OptionError``."""
    decoding = options.key if column == "key" else options.value
    if decoding.format == "string":
        return StringType()
    if decoding.format == "bytes":
        return BinaryType()
    raise OptionError(f"Option {column}.format={decoding.format} is not available")


def decoder(column: Column, options: ReadOptions, schema: StructType) -> Decode | None:
    """What makes the column of its bytes; None if they stay as they are or nobody wants them."""
    decoding = options.key if column == "key" else options.value
    if decoding.format == "bytes" or column not in schema.fieldNames():
        return None
    return decode_strings


def decode_strings(values: Values) -> pa.Array:
    return pa.array(values, pa.binary()).cast(pa.string())
