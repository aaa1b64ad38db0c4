"""Columns of sources and steps, as far as a file declares them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlglot import exp

from moldau.spark.options import read_options
from moldau.spark.pipeline.spec import (
    FileSource,
    FormatSource,
    Source,
    TableSource,
    TopicSource,
)
from moldau.spark.pipeline.sql.schemas import DIALECT, SchemaError, Type, read_schema

_RECORD: Final = {
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
}
_BEYOND_FOLDERS: Final = frozenset("*?[{:")
"""Signs of paths that mean many, or that are in another store."""
_MOST_FOLDERS: Final = 1000
"""Looking at more would take too long."""


@dataclass(frozen=True)
class Frame:
    """Names are compared as Spark does it, without regard to case."""

    types: dict[str, Type] = field(default_factory=dict)
    """By name, in the order of columns."""
    open: bool = False
    """Whether there may be others."""
    hidden: frozenset[str] = frozenset()
    """Those that ``*`` leaves out."""

    def has(self, name: str) -> bool:
        return name.lower() in self._folded or name.lower() in self.hidden

    def type_of(self, name: str) -> Type:
        return self._folded.get(name.lower())

    @property
    def _folded(self) -> dict[str, Type]:
        return {name.lower(): kind for name, kind in self.types.items()}


OPEN: Final = Frame(open=True)


def frame_of(source: Source, master: str) -> Frame:
    match source:
        case TopicSource():
            return _records(source)
        case FileSource(schema=str(schema)):
            frame = _declared(schema)
            partitioned = frame.open or _may_be_partitioned(source, master)
            return Frame(frame.types, partitioned, frozenset(("_metadata",)))
        case TableSource(schema=str(schema)):
            return _declared(schema)
        case _:
            return OPEN


def schemas_of(source: Source) -> dict[str, str]:
    """Those that a source declares in Spark's words, by their keys in the file."""
    match source:
        case TopicSource():
            options = read_options(source.options, streaming=source.streaming)
            columns = {"key_schema": options.key, "value_schema": options.value}
            return {
                key: one.schema
                for key, one in columns.items()
                if one.format == "json" and one.schema is not None
            }
        case FileSource(schema=str(schema)) | TableSource(schema=str(schema)):
            return {"schema": schema}
        case FormatSource(schema=str(schema)):
            return {"schema": schema}
        case _:
            return {}


def _declared(schema: str) -> Frame:
    kind = _read(schema)
    return Frame(fields(kind)) if kind is not None and is_struct(kind) else OPEN


def _read(schema: str) -> Type:
    try:
        return read_schema(schema)
    except SchemaError:
        return None  # which is told elsewhere


def fields(kind: exp.DataType) -> dict[str, Type]:
    return {one.name: one.args.get("kind") for one in kind.expressions}


def is_struct(kind: Type) -> bool:
    return kind is not None and kind.this == exp.DataType.Type.STRUCT and bool(kind.expressions)


def merged(frames: Iterable[Frame]) -> Frame:
    """All columns of several frames side by side."""
    types: dict[str, Type] = {}
    opened = False
    for frame in frames:
        opened = opened or frame.open
        for name, kind in frame.types.items():
            types[name] = None if name in types else kind
    return Frame(types, opened)


def _records(source: TopicSource) -> Frame:
    options = read_options(source.options, streaming=source.streaming)
    schemas = schemas_of(source)
    types: dict[str, Type] = {}
    for name in ("key", "value"):
        schema = schemas.get(f"{name}_schema")
        types[name] = None if schema is None else _read(schema)
    types |= {name: exp.DataType.build(kind, dialect=DIALECT) for name, kind in _RECORD.items()}
    if options.include_headers:
        types["headers"] = None
    return Frame(types)


def _may_be_partitioned(source: FileSource, master: str) -> bool:
    """Folders such as ``day=2026-01-01`` are columns, which a schema need not name.

    Only where this machine sees the folders that Spark will see is anything known of them.
    """
    path = source.path.removeprefix("file://")
    based = any(name.lower() == "basepath" for name in source.options)
    if not master.startswith("local") or based or _BEYOND_FOLDERS & set(path):
        return True
    if not Path(path).is_dir():
        return True
    for number, (_, folders, _) in enumerate(os.walk(path)):
        if number == _MOST_FOLDERS or any("=" in folder for folder in folders):
            return True
    return False
