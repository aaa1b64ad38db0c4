"""``[[sources]]``: topics, files, tables of databases and lakehouses, changes, any format."""

from __future__ import annotations

import re
from typing import Final, cast

from moldau.spark.changes.options import changes_options
from moldau.spark.options import OptionError, read_options
from moldau.spark.pipeline.blame import (
    CHANGES_OPTIONS,
    SOURCE_OPTIONS,
    in_keys,
    in_keys_of_changes,
)
from moldau.spark.pipeline.spec import (
    ChangesSource,
    FileSource,
    FormatSource,
    LakeFormat,
    LakeSource,
    Source,
    TableSource,
    TopicSource,
)
from moldau.spark.pipeline.table import Table, as_option

DEFAULT_BOOTSTRAP: Final = "localhost:9092"

_KINDS: Final = (
    "topic",
    "topics",
    "pattern",
    "files",
    "table",
    "query",
    "changes",
    "delta",
    "iceberg",
)
_COMMON: Final = ("name", "options", "streaming", "expect")
_KEYS: Final = {
    "topic": (*SOURCE_OPTIONS, *_COMMON),
    "files": ("format", "schema", "time", *_COMMON),
    "table": ("database", "schema", "name", "expect"),
    "delta": _COMMON,
    "iceberg": ("warehouse", *_COMMON),
    "format": ("schema", *_COMMON),
    "changes": (*CHANGES_OPTIONS, "name", "expect"),
}
_FORMATS: Final = ("parquet", "json", "csv", "orc", "text")
_TABLE_NAME: Final = re.compile(r"\w+(\.\w+){2,}")


def parse_source(table: Table, name: str, *, batch: bool) -> Source | None:
    # Of files it says what is in them.
    kinds = _KINDS if "files" in table else (*_KINDS, "format")
    kind = table.one_of(kinds, 'topic = "events"')
    if kind is None:
        every = {key for keys in _KEYS.values() for key in keys}
        table.allow({*_KINDS, "format", *every})
        return None
    if kind == "files":
        table.allow((kind, *_KEYS["files"]))
        return _files(table, name, batch=batch)
    if kind == "changes":
        table.allow(_KEYS["changes"])
        return _changes(table, name, batch=batch)
    if kind in ("table", "query"):
        table.allow((kind, *_KEYS["table"]))
        return _table(table, name, kind)
    if kind in ("delta", "iceberg", "format"):
        table.allow((kind, *_KEYS[kind]))
        if kind == "format":
            return _format(table, name, batch=batch)
        return _lake(table, name, cast("LakeFormat", kind), batch=batch)
    table.allow((kind, *_KEYS["topic"]))
    return _topic(table, name, kind, batch=batch)


def _topic(table: Table, name: str, kind: str, *, batch: bool) -> TopicSource:
    streaming = table.boolean("streaming", not batch) and not batch
    options = table.texts_by_name("options")
    for key, option in SOURCE_OPTIONS.items():
        if key in table:
            options[option] = as_option(table.values[key])
    options.setdefault("kafka.bootstrap.servers", DEFAULT_BOOTSTRAP)
    if kind == "pattern":
        subscribing, chosen = "subscribePattern", table.text(kind)
    else:
        subscribing, chosen = "subscribe", ",".join(table.texts(kind))
    options[subscribing] = chosen
    if table.values[kind] == []:
        table.complain(kind, f"{kind} of {table.what} must name a topic")
    elif chosen:
        keys = {**SOURCE_OPTIONS, kind: subscribing}
        try:
            read_options(options, streaming=streaming)
        except OptionError as error:
            said, blamed = in_keys(str(error), keys, table.mapping("options").__contains__)
            at = blamed if blamed in table else "options" if "options" in table else None
            table.complain(at, f"{table.what}: {said}")
    return TopicSource(name, options, streaming)


def _files(table: Table, name: str, *, batch: bool) -> FileSource:
    streaming = table.boolean("streaming", not batch) and not batch
    schema = table.optional_text("schema")
    if streaming and schema is None:
        table.complain(
            "files",
            f'{table.what} is a stream of files and needs their schema, such as schema = "id '
            'BIGINT, name STRING"; with streaming = false the files are read once, and their '
            "schema is inferred",
        )
    return FileSource(
        name,
        table.text("files"),
        table.word("format", _FORMATS, "parquet"),
        schema,
        table.texts_by_name("options"),
        streaming,
        table.optional_text("time"),
    )


def _table(table: Table, name: str, kind: str) -> TableSource:
    table.require("database", '"sqlite:///people.db"')
    # Whoever writes the file may run any query.
    query = f"SELECT * FROM {table.text(kind)}" if kind == "table" else table.text(kind)  # noqa: S608
    return TableSource(
        name,
        table.address("database"),
        query,
        table.optional_text("schema"),
        table=table.text(kind) if kind == "table" else None,
    )


def _lake(table: Table, name: str, kind: LakeFormat, *, batch: bool) -> LakeSource:
    place = table.text(kind)
    if kind == "iceberg":
        check_table_name(table, place)
    return LakeSource(
        name,
        kind,
        place,
        table.texts_by_name("options"),
        table.optional_text("warehouse"),
        table.boolean("streaming", not batch) and not batch,
    )


def check_table_name(table: Table, name: str) -> None:
    if name and not _TABLE_NAME.fullmatch(name):
        table.complain(
            "iceberg",
            f"iceberg of {table.what} is {name!r}: write catalog.namespace.table, such as "
            '"lake.sales.orders"',
        )


def _format(table: Table, name: str, *, batch: bool) -> FormatSource:
    return FormatSource(
        name,
        table.text("format"),
        table.optional_text("schema"),
        table.texts_by_name("options"),
        table.boolean("streaming", not batch) and not batch,
    )


def _changes(table: Table, name: str, *, batch: bool) -> ChangesSource:
    if batch:
        table.complain(
            "changes",
            f"{table.what}: changes are a stream, and [trigger] batch = true has none; a table "
            'that is read once is table = "…"',
        )
    table.require("database", '"postgresql://user@host/name"')
    options = {
        option: ",".join(table.texts(key)) if key == "keys" else as_option(table.values[key])
        for key, option in CHANGES_OPTIONS.items()
        if key in table
    }
    if options.get("mode", "log") == "log":
        options.setdefault("slot", _slot(name))
    try:
        if "url" in options:
            changes_options(options)
    except OptionError as error:
        said, blamed = in_keys_of_changes(str(error))
        table.complain(blamed if blamed in table else None, f"{table.what}: {said}")
    return ChangesSource(name, options)


def _slot(name: str) -> str:
    """What the names of a source's slots begin with, if the file does not say it."""
    return "moldau_" + re.sub(r"[^a-z0-9_]", "_", name.lower())[:40]
