"""``expect`` of sources and steps, and the step of the rows that are put aside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast, get_args

from moldau.spark.pipeline.problems import Problems
from moldau.spark.pipeline.spec import (
    QUARANTINE,
    Expectation,
    OnFailure,
    QuarantineStep,
    Sink,
    Source,
    Step,
)
from moldau.spark.pipeline.table import Table

QUARANTINE_COLUMNS: Final = ("time", "pipeline", "step", "reasons", "row")

_EXAMPLE: Final = '{ name = "positive amount", check = "amount > 0", on_failure = "drop" }'


def parse_expectations(table: Table) -> tuple[Expectation, ...]:
    given = table.values.get("expect", [])
    if not isinstance(given, list):
        table.complain("expect", f"expect of {table.what} must be a list, such as [{_EXAMPLE}]")
        return ()
    found: list[Expectation] = []
    for index, values in enumerate(given):
        path = (*table.path, "expect", index)
        rule = Table(values, path, f"expect of {table.what}", table.problems)
        if not isinstance(values, dict):
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


def quarantine_of(parts: Sequence[Source | Step], problems: Problems) -> QuarantineStep | None:
    """The step of the rows that are put aside, if there are rules that do that."""
    aside = [(part, rule) for part in parts for rule in part.expect if _puts_aside(rule)]
    if not aside:
        return None
    for part in parts:
        if part.name.lower() == QUARANTINE:
            problems.add(
                (*part.place, "name"),
                f"the name {QUARANTINE} is that of the rows that are put aside: take another one",
            )
    names = tuple(dict.fromkeys(part.name for part, _ in aside))
    return QuarantineStep(QUARANTINE, names, place=aside[0][1].place)


def check_quarantine(
    step: QuarantineStep, steps: Iterable[Step], sinks: Iterable[Sink], problems: Problems
) -> None:
    """Rows that are put aside go somewhere."""
    read = {name.lower() for one in steps for name in one.inputs}
    read |= {sink.input.lower() for sink in sinks}
    if step.name not in read:
        problems.add(
            (*step.place, "on_failure"),
            "rows are put aside, and no sink takes them: add [[sinks]] with from = "
            f'"{step.name}", such as topic = "{step.name}"',
        )


def _puts_aside(rule: Expectation) -> bool:
    return rule.on_failure == "quarantine"
