"""``[[sinks]]``: topics, Parquet, tables of databases and lakehouses, formats, the console."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from moldau.spark.options import OptionError, write_options
from moldau.spark.pipeline.blame import SINK_OPTIONS, in_keys
from moldau.spark.pipeline.parse_sources import DEFAULT_BOOTSTRAP, check_table_name
from moldau.spark.pipeline.paths import local_directory
from moldau.spark.pipeline.spec import (
    ConsoleSink,
    FormatSink,
    LakeFormat,
    LakeSink,
    OutputMode,
    ParquetSink,
    Sink,
    TableSink,
    TopicSink,
)
from moldau.spark.pipeline.table import Table

_KINDS: Final = (
    "topic",
    "topic_from",
    "parquet",
    "table",
    "delta",
    "iceberg",
    "format",
    "console",
)
_COMMON: Final = ("name", "from", "output_mode")
_COLUMNS: Final = ("key", "value", "headers", "timestamp", "partition")
_LAKE: Final = ("keys", "partition_by", "schema_evolution", "compact", "options", *_COMMON)
_KEYS: Final = {
    "topic": (
        *_COLUMNS,
        "bootstrap_servers",
        "exactly_once",
        "rate",
        "create",
        "options",
        *_COMMON,
    ),
    "parquet": ("partition_by", "compact", *_COMMON),
    "table": ("database", "keys", *_COMMON),
    "delta": _LAKE,
    "iceberg": ("warehouse", *_LAKE),
    "format": ("options", "partition_by", *_COMMON),
    "console": ("rows", *_COMMON),
}


def parse_sink(table: Table, name: str, *, batch: bool) -> Sink | None:
    table.require("from", '"events"')
    kind = table.one_of(_KINDS, 'topic = "results"')
    if kind is None:
        table.allow({*_KINDS, *(key for keys in _KEYS.values() for key in keys)})
        return None
    group = "topic" if kind == "topic_from" else kind
    table.allow((kind, *_KEYS[group]))
    mode = cast("OutputMode", table.word("output_mode", ("append", "update", "complete"), "append"))
    if mode != "append" and batch:
        table.complain("output_mode", "output_mode is for streams, and [trigger] says batch = true")
    return _PARSERS[group](table, name, mode)


def _topic(table: Table, name: str, mode: OutputMode) -> TopicSink:
    options = table.texts_by_name("options")
    options.setdefault(
        "kafka.bootstrap.servers", table.text("bootstrap_servers", DEFAULT_BOOTSTRAP)
    )
    if table.boolean("exactly_once"):
        options["exactlyOnce"] = "true"
        if mode != "append":
            table.complain("exactly_once", f"exactly_once of {table.what} needs output_mode append")
    columns = {key: table.text(key) for key in _COLUMNS if key in table}
    if "topic_from" in table:
        columns["topic"] = table.text("topic_from")
    elif topic := table.text("topic"):
        options["topic"] = topic
    if columns and "value" not in columns:
        given = ", ".join(columns)
        table.complain(
            None,
            f'{table.what} has {given} but no value: add it, such as value = "to_json(struct(*))"',
        )
    if mode == "complete":
        table.complain(
            "output_mode", "a topic takes output_mode append or update: records are not replaced"
        )
    try:
        write_options(options)
    except OptionError as error:
        said, blamed = in_keys(str(error), SINK_OPTIONS, table.mapping("options").__contains__)
        key = blamed if blamed in table else "options" if "options" in table else None
        table.complain(key, f"{table.what}: {said}")
    return TopicSink(
        name,
        table.text("from"),
        options,
        columns,
        mode,
        table.number("rate"),
        table.boolean("create", True),
    )


def _parquet(table: Table, name: str, mode: OutputMode) -> ParquetSink:
    path, compact = table.text("parquet"), table.boolean("compact")
    if mode != "append":
        table.complain("output_mode", "Parquet takes output_mode append: files are not replaced")
    if compact and local_directory(path) is None:
        table.complain(
            "compact", f"compact needs a directory that this machine has, not {path}: leave it out"
        )
    return ParquetSink(name, table.text("from"), path, table.texts("partition_by"), compact, mode)


def _table(table: Table, name: str, mode: OutputMode) -> TableSink:
    table.require("database", '"sqlite:///results.db"')
    return TableSink(
        name,
        table.text("from"),
        table.address("database"),
        table.text("table"),
        _keys(table, mode),
        mode,
    )


def _keys(table: Table, mode: OutputMode) -> tuple[str, ...]:
    keys = table.texts("keys")
    if mode == "update" and not keys:
        table.complain(
            "output_mode",
            f'{table.what} with output_mode update needs keys, such as keys = ["window_start"]: '
            "the columns that tell which row is replaced",
        )
    return keys


def _lake(table: Table, name: str, mode: OutputMode) -> LakeSink:
    kind: LakeFormat = "delta" if "delta" in table else "iceberg"
    if kind == "iceberg":
        check_table_name(table, table.text(kind))
    return LakeSink(
        name,
        table.text("from"),
        kind,
        table.text(kind),
        _keys(table, mode),
        table.texts("partition_by"),
        table.boolean("schema_evolution"),
        table.boolean("compact"),
        table.texts_by_name("options"),
        table.optional_text("warehouse"),
        mode,
    )


def _format(table: Table, name: str, mode: OutputMode) -> FormatSink:
    if mode != "append":
        table.complain("output_mode", "format takes output_mode append: rows are only added")
    return FormatSink(
        name,
        table.text("from"),
        table.text("format"),
        table.texts_by_name("options"),
        table.texts("partition_by"),
        mode,
    )


def _console(table: Table, name: str, mode: OutputMode) -> ConsoleSink:
    if not table.boolean("console", True):
        table.complain("console", "console must be true; leave the sink out to print nothing")
    return ConsoleSink(name, table.text("from"), int(table.number("rows") or 20), mode)


_PARSERS: Final[dict[str, Callable[[Table, str, OutputMode], Sink]]] = {
    "topic": _topic,
    "parquet": _parquet,
    "table": _table,
    "delta": _lake,
    "iceberg": _lake,
    "format": _format,
    "console": _console,
}
