"""Columns of JSON, parsed by Arrow many rows at a time; what it cannot do, value by value.

Each value is wrapped into an object on a line of its own: a value that is no JSON, or is several,
is an error of its line and cannot shift the rows after it.
"""

from __future__ import annotations

import io
from typing import Final

import pyarrow as pa
import pyarrow.json

from moldau.spark.decode.columns import Decode, DecodeError, Values
from moldau.spark.decode.json_values import json_values

_BEGIN: Final = b'{"value":'
_END: Final = b"}\n"


_FEW: Final = 32
"""So few values that it is no matter if they are read one by one."""


def json_decoder(kind: pa.DataType) -> Decode:
    """Decodes to a type; fields that it does not name are skipped, missing ones are null."""
    if not _by_arrow(kind):
        return lambda values: json_values(values, kind)
    fast = _arrow_decoder(kind)

    def decode(values: Values) -> pa.Array:
        try:
            return fast(values)
        except (DecodeError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
            if len(values) > _FEW:
                raise  # the caller halves the column
            return json_values(values, kind)

    return decode


def _arrow_decoder(kind: pa.DataType) -> Decode:
    parsing = pyarrow.json.ParseOptions(
        explicit_schema=pa.schema([("value", _readable(kind))]), unexpected_field_behavior="ignore"
    )

    def decode(values: Values) -> pa.Array:
        lines = _lines([b"null" if value is None else value for value in values])
        reading = pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        table = pyarrow.json.read_json(
            io.BytesIO(lines), read_options=reading, parse_options=parsing
        )
        if table.num_rows != len(values):
            raise DecodeError("this is more than one JSON value")
        column = table.column(0).combine_chunks().cast(kind)
        column.validate(full=True)  # strings are not looked at before
        return column

    return decode


def _by_arrow(kind: pa.DataType) -> bool:
    """Returns whether Arrow reads such values as Spark does, if it reads them."""
    if pa.types.is_nested(kind):
        children = (kind.field(index).type for index in range(kind.num_fields))
        return not pa.types.is_map(kind) and all(map(_by_arrow, children))
    # It would take base64 for the bytes themselves, and drop zones of local times.
    return not pa.types.is_binary(kind) and not (pa.types.is_timestamp(kind) and kind.tz is None)


def _lines(values: list[bytes]) -> bytes:
    lines = _BEGIN + (_END + _BEGIN).join(values) + _END
    if lines.count(b"\n") != len(values):
        # Outside of strings a line's end is a space, and inside of them it may not be.
        return _lines([value.replace(b"\n", b" ") for value in values])
    return lines


def _readable(kind: pa.DataType) -> pa.DataType:
    """The type to parse to before the cast: Arrow reads no dates, but their midnights."""
    if pa.types.is_date(kind):
        return pa.timestamp("s")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_readable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_readable(kind.value_type))
    return kind
