"""Which Spark type a format makes of bytes, and the function that does it."""

from __future__ import annotations

import re
from typing import Final, Literal

import pyarrow as pa

from moldau.spark.decode.columns import Decode, Values
from moldau.spark.options import Decoding, OptionError, ReadOptions

Column = Literal["key", "value"]

_WHOLE_TYPE: Final = re.compile(r"\s*(struct|array|map)\s*<", re.IGNORECASE)


def column_type(column: Column, options: ReadOptions) -> str:
    """The type of the column, in DDL; a schema that cannot be read is an ``OptionError``."""
    decoding = _decoding(column, options)
    match decoding.format:
        case "bytes":
            return "BINARY"
        case "string":
            return "STRING"
        case "json":
            schema = decoding.schema or ""
            return schema if _WHOLE_TYPE.match(schema) else f"STRUCT<{schema}>"
        case "avro":
            from moldau.spark.decode.avro_column import avro_type

            return avro_type(decoding, _subject(column, options))


def decoder(column: Column, options: ReadOptions, kind: pa.DataType) -> Decode | None:
    """What makes a column of this type of its bytes; None if they stay as they are."""
    decoding = _decoding(column, options)
    match decoding.format:
        case "bytes":
            return None
        case "string":
            return decode_strings
        case "json":
            from moldau.spark.decode.json_column import json_decoder

            if re.search(r"map<(?!string)", str(kind)):
                raise OptionError(f"Option {column}.schema: keys of maps in JSON are strings")
            return json_decoder(kind)
        case "avro":
            from moldau.spark.decode.avro_column import avro_decoder

            return avro_decoder(decoding, _subject(column, options), kind)


def decode_strings(values: Values) -> pa.Array:
    return pa.array(values, pa.binary()).cast(pa.string())


def _decoding(column: Column, options: ReadOptions) -> Decoding:
    return options.key if column == "key" else options.value


def _subject(column: Column, options: ReadOptions) -> str | None:
    """As registry clients name it: after the topic, if there is one."""
    given = _decoding(column, options).subject
    topics = options.subscription.topics or tuple(
        {partition.topic for partition in options.subscription.partitions}
    )
    return given or (f"{topics[0]}-{column}" if len(topics) == 1 else None)
