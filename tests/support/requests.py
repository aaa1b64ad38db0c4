"""Protocol messages from plain dictionaries, and the error codes of an answer.

request("create_topics", 7, topics=[{"name": "a", "num_partitions": 1, ...}])
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta


def request(api: str, version: int, **fields: Any) -> Any:
    """The request of that API and version; fields left out take the schema's default."""
    return _build(load_entity_schema(api, version, EntityType.request), fields)


def error_names(response: Any) -> list[str]:
    """Every error code of an answer, from the outside in."""
    return [code.name.upper() for code in _error_codes(response)]


def _build(kind: type, values: Mapping[str, Any]) -> Any:
    hints = typing.get_type_hints(kind)
    unknown = values.keys() - hints.keys()
    assert not unknown, f"{kind.__name__} has no {unknown}"
    return kind(**{name: _value(hints[name], value) for name, value in values.items()})


def _value(hint: Any, value: Any) -> Any:
    if isinstance(value, list):
        item = next(iter(_dataclasses(hint)), None)
        return tuple(
            _build(item, each) if item and isinstance(each, dict) else each for each in value
        )
    if isinstance(value, dict):
        return _build(next(_dataclasses(hint)), value)
    if isinstance(value, dt.timedelta):
        return i32Timedelta.parse(value)
    return value


def _dataclasses(hint: Any) -> Iterator[type]:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        yield hint
    for argument in typing.get_args(hint):
        yield from _dataclasses(argument)


def _error_codes(message: Any) -> Iterator[Any]:
    if isinstance(message, tuple):
        for each in message:
            yield from _error_codes(each)
    elif dataclasses.is_dataclass(message):
        for field in dataclasses.fields(message):
            value = getattr(message, field.name)
            if field.name in ("error_code", "partition_error_code"):
                yield ErrorCode(value)
            else:
                yield from _error_codes(value)
