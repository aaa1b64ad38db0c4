"""``[[sources]]``: topics, files, tables of a database."""

from __future__ import annotations

from typing import Final

from moldau.spark.options import OptionError, read_options
from moldau.spark.pipeline.blame import SOURCE_OPTIONS, in_keys
from moldau.spark.pipeline.spec import FileSource, Source, TableSource, TopicSource
from moldau.spark.pipeline.table import Table, as_option

DEFAULT_BOOTSTRAP: Final = "localhost:9092"

_KINDS: Final = ("topic", "topics", "pattern", "files", "table", "query")
_COMMON: Final = ("name", "options", "streaming", "expect")
_KEYS: Final = {
    "topic": (*SOURCE_OPTIONS, *_COMMON),
    "files": ("format", "schema", "time", *_COMMON),
    "table": ("database", "schema", "name", "expect"),
}
_FORMATS: Final = ("parquet", "json", "csv", "orc", "text")


def parse_source(table: Table, name: str, *, batch: bool) -> Source | None:
    kind = table.one_of(_KINDS, 'topic = "events"')
    if kind is None:
        every = {key for keys in _KEYS.values() for key in keys}
        table.allow({*_KINDS, *every})
        return None
    if kind == "files":
        table.allow((kind, *_KEYS["files"]))
        return _files(table, name, batch=batch)
    if kind in ("table", "query"):
        table.allow((kind, *_KEYS["table"]))
        return _table(table, name, kind)
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
        options["subscribePattern"] = table.text("pattern")
    else:
        options["subscribe"] = ",".join(table.texts(kind))
    try:
        read_options(options, streaming=streaming)
    except OptionError as error:
        said, blamed = in_keys(str(error), SOURCE_OPTIONS, table.mapping("options").__contains__)
        at = blamed if blamed in table else _blamed(table, str(error))
        table.complain(at, f"{table.what}: {said}")
    return TopicSource(name, options, streaming)


def _blamed(table: Table, message: str) -> str | None:
    """The key of the file that the data source's complaint is about."""
    for key, option in (*SOURCE_OPTIONS.items(), ("topics", "subscribe"), ("topic", "subscribe")):
        if key in table and f"{option}" in message:
            return key
    return "options" if "options" in table else None


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
        table.text("database"),
        query,
        table.optional_text("schema"),
        table=table.text(kind) if kind == "table" else None,
    )
