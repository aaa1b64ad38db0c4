"""``[[steps]]``: SQL, Python, windows, joins, deduplication."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from moldau.spark.pipeline.spec import (
    DeduplicateStep,
    JoinStep,
    PythonStep,
    SqlStep,
    Step,
    WindowStep,
)
from moldau.spark.pipeline.sql.names import tables_of
from moldau.spark.pipeline.table import Table

_KINDS: Final = ("sql", "python", "window", "join", "deduplicate")
_FUNCTION: Final = re.compile(r"[^:]+(\.py)?:[A-Za-z_]\w*")
_JOINS: Final = ("inner", "left", "right", "full", "left_semi", "left_anti")


def parse_step(table: Table, name: str) -> Step | None:
    kind = table.one_of(_KINDS, 'sql = "SELECT * FROM events"')
    if kind is None:
        table.allow((*_KINDS, "name", "from", "arguments", "expect"))
        return None
    return _PARSERS[kind](table, name)


def _sql(table: Table, name: str) -> SqlStep:
    table.allow(("name", "sql", "expect"))
    text = table.text("sql")
    return SqlStep(name, text, tuple(tables_of(text)))


def _python(table: Table, name: str) -> PythonStep:
    table.allow(("name", "python", "from", "arguments", "expect"))
    table.require("from", '"events"')
    function = table.text("python")
    if not _FUNCTION.fullmatch(function):
        table.complain(
            "python",
            f"python of {table.what} must be module:function or file.py:function, not {function!r}",
        )
    return PythonStep(name, function, table.texts("from"), table.mapping("arguments"))


def _window(table: Table, name: str) -> WindowStep:
    table.allow(("name", "window", "expect"))
    window = table.table("window")
    window.allow(("from", "time", "size", "slide", "watermark", "group_by", "aggregate"))
    window.require("from", '"events"')
    window.require("size", '"1m"')
    window.require("aggregate", '{ count = "count(*)" }')
    aggregate = window.texts_by_name("aggregate")
    if "aggregate" in window and not aggregate:
        window.complain("aggregate", f'{window.what} has no aggregate, such as count = "count(*)"')
    size, slide = window.duration("size"), window.duration("slide")
    if size and slide and slide > size:
        window.complain("slide", f"slide of {window.what} is longer than its size: rows are lost")
    return WindowStep(
        name,
        (window.text("from"),),
        window.text("time", "timestamp"),
        size or 1,
        slide,
        _watermark(window),
        window.texts("group_by"),
        aggregate,
    )


def _watermark(table: Table) -> int | None:
    """None if there is none: one that is no duration is told, and not missed as well."""
    found = table.duration("watermark")
    return 1 if found is None and "watermark" in table else found


def _join(table: Table, name: str) -> JoinStep:
    table.allow(("name", "join", "expect"))
    join = table.table("join")
    keys = ("left", "right", "on", "how", "within", "watermark", "left_time", "right_time")
    join.allow(keys)
    join.require("left", '"clicks"')
    join.require("right", '"users"')
    join.require("on", '["user"]')
    if "watermark" in join and "within" not in join:
        join.complain("watermark", f'watermark of {join.what} needs within, such as within = "10m"')
    return JoinStep(
        name,
        (join.text("left"), join.text("right")),
        join.texts("on"),
        join.word("how", _JOINS, "inner"),
        join.duration("within"),
        _watermark(join),
        join.text("left_time", "timestamp"),
        join.text("right_time", "timestamp"),
    )


def _deduplicate(table: Table, name: str) -> DeduplicateStep:
    table.allow(("name", "deduplicate", "expect"))
    distinct = table.table("deduplicate")
    distinct.allow(("from", "keys", "time", "watermark"))
    distinct.require("from", '"events"')
    distinct.require("keys", '["id"]')
    return DeduplicateStep(
        name,
        (distinct.text("from"),),
        distinct.texts("keys"),
        distinct.text("time", "timestamp"),
        _watermark(distinct),
    )


_PARSERS: Final[dict[str, Callable[[Table, str], Step]]] = {
    "sql": _sql,
    "python": _python,
    "window": _window,
    "join": _join,
    "deduplicate": _deduplicate,
}
