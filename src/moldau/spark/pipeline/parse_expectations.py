"""``expect`` of sources and steps, and ``[quarantine]``: where rows go that fail such a rule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, cast, get_args

from moldau.spark.pipeline.parse_sinks import parse_sink
from moldau.spark.pipeline.problems import Problems
from moldau.spark.pipeline.spec import QUARANTINE, Expectation, OnFailure, Sink, TopicSink
from moldau.spark.pipeline.table import Table

_EXAMPLE: Final = '{ name = "positive amount", check = "amount > 0", on_failure = "drop" }'
_OWN: Final = ("from", "name", "output_mode", "key", "value", "headers", "timestamp", "partition")
"""Keys of sinks that are settled here."""

QUARANTINE_COLUMNS: Final = ("time", "pipeline", "step", "reasons", "row")
_VALUE: Final = "to_json(struct(time, pipeline, step, reasons, parse_json(row) AS row))"


def parse_expectations(table: Table) -> tuple[Expectation, ...]:
    given = table.values.get("expect", [])
    if not isinstance(given, list):
        table.complain("expect", f"expect of {table.what} must be a list, such as [{_EXAMPLE}]")
        return ()
    found: list[Expectation] = []
    for index, values in enumerate(given):
        path = (*table.path, "expect", index)
        rule = Table(values, path, f"expect of {table.what}", table.problems)
        if not rule.values:
            continue
        rule.allow(("name", "check", "on_failure"))
        rule.require("name", '"positive amount"')
        rule.require("check", '"amount > 0"')
        rule.require("on_failure", '"drop"')
        name = rule.text("name")
        if any(name == other.name for other in found):
            rule.complain("name", f"{rule.what} has two rules {name}: names are unique")
        action = rule.word("on_failure", get_args(OnFailure), "warn")
        found.append(
            Expectation(
                place=path,
                name=name,
                check=rule.text("check", "true"),
                on_failure=cast("OnFailure", action),
            )
        )
    return tuple(found)


def parse_quarantine(
    values: Any, rules: Iterable[Expectation], problems: Problems, *, batch: bool
) -> Sink | None:
    """The sink of rows that are put aside; ``values`` is None if the file has no such table."""
    aside = [rule for rule in rules if rule.on_failure == "quarantine"]
    if values is None:
        for rule in aside:
            problems.add(
                (*rule.place, "on_failure"),
                f"rule {rule.name} puts rows aside, and nothing says where: add [quarantine], with "
                'topic = "quarantine", or table and database, or parquet',
            )
        return None
    own = Table(values, ("quarantine",), "[quarantine]", problems)
    if not aside:
        own.complain(None, '[quarantine] is never used: no rule has on_failure = "quarantine"')
    for key in (*_OWN, "topic_from"):
        if key in own:
            own.complain(key, f"[quarantine] has no key {key}: its rows are the same everywhere")
            return None
    given = {**own.values, "from": QUARANTINE}
    sink = parse_sink(Table(given, own.path, own.what, problems), "quarantine", batch=batch)
    if isinstance(sink, TopicSink):
        sink = replace(sink, columns={"key": "step", "value": _VALUE})
    return None if sink is None else replace(sink, place=own.path)
