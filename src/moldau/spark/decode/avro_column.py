"""Columns of Avro with Confluent's framing: a zero byte, the schema's number, then the value.

With a registry each value is read with the schema it was written with and resolved to the reader's,
which is the given one or the newest of the subject. Without, the given schema is both.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from struct import Struct
from typing import Any, Final

import pyarrow as pa

from moldau.spark.decode.columns import Decode, DecodeError, Values
from moldau.spark.decode.registry import Registered, latest_schema, schema_by_id
from moldau.spark.options import Decoding, OptionError

_FRAME: Final = Struct(">bI")
_PLAIN_LOGICAL: Final = ("uuid", "time-millis", "time-micros")
"""Logical types that are read as what they are stored as: Spark has no better type for them."""

_PRIMITIVES: Final = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "string": "STRING",
}
_LOGICAL: Final = {
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
}


def avro_type(decoding: Decoding, subject: str | None) -> str:
    """The reader's schema as a Spark type, in DDL."""
    found = _reader_schema(decoding, subject)
    named: dict[str, str] = {}
    for index, reference in enumerate(found.references):
        _ddl(_parse(Registered(reference, found.references[:index])), named)
    return _ddl(_parse(found), named)


def avro_decoder(decoding: Decoding, subject: str | None, kind: pa.DataType) -> Decode:
    from fastavro import schemaless_reader

    reader = _parse(_reader_schema(decoding, subject))
    writer = _writer_schemas(decoding, reader)

    def read(value: bytes | None) -> Any:
        if value is None:
            return None
        if len(value) < _FRAME.size or value[0] != 0:
            raise DecodeError("these bytes do not begin as a registry's serializer writes them")
        _, number = _FRAME.unpack_from(value)
        stream = io.BytesIO(value)
        stream.seek(_FRAME.size)
        schema = writer(number)
        try:
            found = schemaless_reader(stream, schema, reader)
        except Exception as error:  # fastavro raises what its input makes it stumble over
            raise DecodeError(f"no value of Avro schema {number} ({error!r})") from error
        if stream.tell() != len(value):
            raise DecodeError(f"there is more than a value of Avro schema {number}")
        return found

    def decode(values: Values) -> pa.Array:
        return pa.array([read(value) for value in values], kind)

    return decode


def _writer_schemas(decoding: Decoding, reader: Any) -> Callable[[int], Any]:
    registry = decoding.registry
    if registry is None:
        return lambda _: reader
    return cache(lambda number: _parse(schema_by_id(registry, number)))


def _reader_schema(decoding: Decoding, subject: str | None) -> Registered:
    if decoding.schema is not None:
        return Registered(decoding.schema, ())
    if subject is None:
        raise OptionError(
            "Option value.subject (or key.subject) must name the registry's subject, unless one "
            "topic is subscribed to"
        )
    assert decoding.registry is not None
    return latest_schema(decoding.registry, subject)


def _parse(found: Registered) -> Any:
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException, UnknownType

    names: dict[str, Any] = {}
    try:
        for reference in found.references:
            parse_schema(_plain(json.loads(reference)), names)
        return parse_schema(_plain(json.loads(found.schema)), names)
    except (ValueError, SchemaParseException, UnknownType) as error:
        raise OptionError(f"This is no Avro schema ({error}): {found.schema[:200]}") from error


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != "logicalType"}
    if schema.get("logicalType") not in (None, *_PLAIN_LOGICAL):
        kept["logicalType"] = schema["logicalType"]
    for key in ("type", "items", "values"):
        if key in kept:
            kept[key] = _plain(kept[key])
    if "fields" in kept:
        kept["fields"] = [{**one, "type": _plain(one["type"])} for one in kept["fields"]]
    return kept


def _ddl(schema: Any, named: dict[str, str]) -> str:
    if isinstance(schema, list):
        return _union(schema, named)
    if isinstance(schema, str):
        return _PRIMITIVES.get(schema) or _named(schema, named)
    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"DECIMAL({schema['precision']},{schema.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    match schema["type"]:
        case "record" | "error":
            named[schema["name"]] = ""
            fields = [f"`{one['name']}`: {_ddl(one['type'], named)}" for one in schema["fields"]]
            named[schema["name"]] = f"STRUCT<{', '.join(fields)}>"
            return named[schema["name"]]
        case "array":
            return f"ARRAY<{_ddl(schema['items'], named)}>"
        case "map":
            return f"MAP<STRING, {_ddl(schema['values'], named)}>"
        case "enum" | "fixed":
            named[schema["name"]] = "STRING" if schema["type"] == "enum" else "BINARY"
            return named[schema["name"]]
        case other:
            return _ddl(other, named)


def _named(name: str, named: dict[str, str]) -> str:
    found = named.get(name)
    if not found:
        raise OptionError(f"The Avro type {name} refers to itself: Spark has no such types")
    return found


def _union(branches: list[Any], named: dict[str, str]) -> str:
    kinds = {_ddl(one, named) for one in branches if one != "null"}
    for wider in ({"INT", "BIGINT"}, {"FLOAT", "DOUBLE"}):
        if kinds == wider:
            return "BIGINT" if "BIGINT" in wider else "DOUBLE"
    if len(kinds) != 1:
        raise OptionError(
            f"An Avro union of {', '.join(sorted(kinds)) or 'nothing'} is no type of Spark; only "
            "null, int with long, and float with double may stand beside a type"
        )
    return kinds.pop()
