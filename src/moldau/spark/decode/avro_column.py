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

from moldau.spark.decode.avro_unions import MEMBER, Path, Unions
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
        _ddl(_parse(Registered(reference, found.references[:index]), Unions()), named)
    return _ddl(_parse(found, Unions()), named)


def avro_decoder(decoding: Decoding, subject: str | None, kind: pa.DataType) -> Decode:
    from fastavro import schemaless_reader

    unions = Unions()
    reader = _parse(_reader_schema(decoding, subject), unions)
    writer = _writer_schemas(decoding, reader, unions)

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


def _writer_schemas(decoding: Decoding, reader: Any, unions: Unions) -> Callable[[int], Any]:
    registry = decoding.registry
    if registry is None:
        return lambda _: reader
    known = unions.known()
    return cache(lambda number: _parse(schema_by_id(registry, number), known))


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


def _parse(found: Registered, unions: Unions) -> Any:
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException, UnknownType

    names: dict[str, Any] = {}
    try:
        for reference in found.references:
            parse_schema(_plain(json.loads(reference), unions), names)
        return parse_schema(_plain(json.loads(found.schema), unions), names)
    except (ValueError, SchemaParseException, UnknownType) as error:
        raise OptionError(f"This is no Avro schema ({error}): {found.schema[:200]}") from error


def _plain(schema: Any, unions: Unions, path: Path = ()) -> Any:
    """Without the logical types that are left alone, and with unions that can be told apart.

    ``path`` leads to the schema from the named type that it is in.
    """
    if isinstance(schema, list):
        return unions.of_members([_plain_type(one, unions, path) for one in schema], path)
    return unions.member(_plain_type(schema, unions, path), path)


def _plain_type(schema: Any, unions: Unions, path: Path) -> Any:
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != "logicalType"}
    if schema.get("logicalType") not in (None, *_PLAIN_LOGICAL):
        kept["logicalType"] = schema["logicalType"]
    path = (schema["name"],) if "name" in schema else path
    for key in ("type", "items", "values"):
        if key in kept:
            kept[key] = _plain(kept[key], unions, (*path, key))
    if "fields" in kept:
        kept["fields"] = [
            {**one, "type": _plain(one["type"], unions, (*path, one["name"]))}
            for one in kept["fields"]
        ]
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
    kinds = [_ddl(one, named) for one in branches if one != "null"]
    members = [one for one in branches if isinstance(one, dict) and one.get(MEMBER)]
    if members:
        fields = [f"`member{index}`: {_member(kind)}" for index, kind in enumerate(kinds)]
        return f"STRUCT<{', '.join(fields)}>"
    if set(kinds) == {"INT", "BIGINT"}:
        return "BIGINT"
    if set(kinds) == {"FLOAT", "DOUBLE"}:
        return "DOUBLE"
    if not kinds:
        raise OptionError("An Avro union of nothing but null is no type of Spark")
    return kinds[0]


def _member(kind: str) -> str:
    """The type in the record that stands for it."""
    return kind.removeprefix("STRUCT<").removesuffix(">").partition(": ")[2]
