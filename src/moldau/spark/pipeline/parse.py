"""A pipeline from the text of its file, or every mistake in it with its line."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from moldau.spark.pipeline.graph import check_idle, check_sinks, check_watermarks, ordered
from moldau.spark.pipeline.masters import master_problem
from moldau.spark.pipeline.parameters import parameters, substitute, with_brokers
from moldau.spark.pipeline.parse_expectations import (
    check_quarantine,
    parse_expectations,
    quarantine_of,
)
from moldau.spark.pipeline.parse_running import metrics_problem, parse_restart
from moldau.spark.pipeline.parse_sinks import parse_sink
from moldau.spark.pipeline.parse_sources import parse_source
from moldau.spark.pipeline.parse_steps import parse_step
from moldau.spark.pipeline.problems import Lines, PipelineError, Problem, Problems
from moldau.spark.pipeline.spec import Pipeline, Sink, Source, Step, Trigger
from moldau.spark.pipeline.table import Table
from moldau.toml_places import Path

_TOP: Final = (
    *("name", "description", "metrics", "spark", "trigger", "restart", "parameters"),
    *("sources", "steps", "sinks"),
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_AT_LINE: Final = re.compile(r" \(at line (\d+), column \d+\)")


def parse_pipeline(
    text: str,
    file: str,
    *,
    given: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Pipeline:
    """``given``: parameters that are not as in the file; ``PipelineError`` has all mistakes."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(file, [syntax_problem(error, text)]) from None
    problems = Problems()
    values = parameters(document.get("parameters", {}), given or {}, problems)
    document = substitute(document, values, environment or {}, problems)
    document = with_brokers(document, environment or {})
    lines = Lines(text)
    pipeline = replace(_Parser(document, file, problems).pipeline(), lines=lines)
    if problems.found:
        raise PipelineError(
            file,
            [Problem(lines.of(path, word), message) for path, message, word in problems.found],
        )
    return pipeline


class _Parser:
    def __init__(self, document: dict[str, Any], file: str, problems: Problems) -> None:
        self._top = Table(document, (), "the file", problems)
        self._file = file
        self._problems = problems
        self._declared: list[str] = []
        """Names of sources and steps, also of those with mistakes: one is enough for each."""

    def pipeline(self) -> Pipeline:
        top = self._top
        top.allow(_TOP)
        top.require("name", '"rollup"')
        for key in ("sources", "sinks"):
            if key not in top:
                top.complain(None, f"a pipeline needs {key}: add [[{key}]]")
        trigger = self._trigger()
        sources = self._sources(trigger.batch)
        steps = self._steps()
        sinks = self._sinks(trigger.batch)
        self._check_names(sources, steps)
        self._add_quarantine(sources, steps, sinks)
        name = top.text("name", "pipeline")
        _check_folder(top, name)
        spark = self._table("spark", "[spark]")
        spark.allow(("master", "checkpoint", "queries", "config"))
        pipeline = Pipeline(
            name=name,
            file=self._file,
            description=top.text("description"),
            master=spark.text("master", "local[*]"),
            checkpoint=spark.text("checkpoint", f"checkpoints/{name}"),
            separate=spark.word("queries", ("shared", "separate"), "shared") == "separate",
            config=spark.texts_by_name("config"),
            trigger=trigger,
            restart=parse_restart(self._table("restart", "[restart]"), batch=trigger.batch),
            metrics=top.optional_text("metrics"),
            sources=tuple(sources.values()),
            steps=ordered(self._declared, steps, self._problems),
            sinks=tuple(sinks.values()),
        )
        if (problem := master_problem(pipeline)) is not None:
            spark.complain("master", problem)
        if (problem := metrics_problem(pipeline.metrics)) is not None:
            top.complain("metrics", problem)
        check_sinks(sinks, self._declared, self._problems)
        check_watermarks(
            pipeline, {step.name: path for path, step in steps.items()}, self._problems
        )
        check_idle(pipeline, self._problems)
        return pipeline

    def _table(self, key: str, what: str) -> Table:
        return Table(self._top.values.get(key, {}), (key,), what, self._problems)

    def _trigger(self) -> Trigger:
        table = self._table("trigger", "[trigger]")
        kinds = ("every", "available_now", "batch")
        table.allow((*kinds, "idle"))
        if set(table.values) - {"idle"}:
            table.one_of(kinds, 'every = "10s"')
        return Trigger(
            table.duration("every"),
            table.boolean("available_now"),
            table.boolean("batch"),
            table.duration("idle"),
        )

    def _tables(self, key: str) -> Iterator[tuple[Table, str]]:
        """The tables of ``[[key]]`` with their names."""
        tables = self._top.values.get(key, [])
        if not isinstance(tables, list):
            self._top.complain(key, f"{key} are written [[{key}]], with two brackets")
            return
        for index, values in enumerate(tables):
            name = values.get("name") if isinstance(values, dict) else None
            what = f"[[{key}]] {name}" if isinstance(name, str) else f"[[{key}]]"
            if isinstance(name, str) and key != "sinks":
                self._declared.append(name)
            yield Table(values, (key, index), what, self._problems), str(name or "")

    def _sources(self, batch: bool) -> dict[Path, Source]:
        found = {}
        for table, name in self._tables("sources"):
            table.require("name", '"events"')
            if (source := parse_source(table, name, batch=batch)) is not None:
                rules = parse_expectations(table)
                found[table.path] = replace(source, place=table.path, expect=rules)
        return found

    def _steps(self) -> dict[Path, Step]:
        found = {}
        for table, name in self._tables("steps"):
            table.require("name", '"cleaned"')
            if (step := parse_step(table, name)) is not None:
                rules = parse_expectations(table)
                found[table.path] = replace(step, place=table.path, expect=rules)
        return found

    def _sinks(self, batch: bool) -> dict[Path, Sink]:
        found: dict[Path, Sink] = {}
        for table, name in self._tables("sinks"):
            sink = parse_sink(table, name or table.text("from"), batch=batch)
            if sink is None:
                continue
            if any(other.name == sink.name for other in found.values()):
                table.complain(
                    None,
                    f"two sinks are called {sink.name}: give this one a name, such as name = "
                    f'"{sink.name}-2"; its checkpoint is kept under it',
                )
            _check_folder(table, sink.name)
            found[table.path] = replace(sink, place=table.path)
        return found

    def _add_quarantine(
        self, sources: Mapping[Path, Source], steps: dict[Path, Step], sinks: Mapping[Path, Sink]
    ) -> None:
        parts = [*sources.values(), *steps.values()]
        step = quarantine_of(parts, self._problems)
        if step is not None:
            check_quarantine(step, steps.values(), sinks.values(), self._problems)
            self._declared.append(step.name)
            steps[step.place] = step

    def _check_names(self, sources: Mapping[Path, Source], steps: Mapping[Path, Step]) -> None:
        named = {**sources, **steps}
        counts = Counter(one.name.lower() for one in named.values())
        for path, one in named.items():
            if one.name and not _NAME.fullmatch(one.name):
                self._problems.add(
                    (*path, "name"),
                    f"the name {one.name!r} cannot stand in SQL: use letters, digits and _",
                )
            if one.name and counts[one.name.lower()] > 1:
                counts[one.name.lower()] = 0
                self._problems.add(
                    (*path, "name"), f"the name {one.name} is given twice: names are unique"
                )


def _check_folder(table: Table, name: str) -> None:
    """A folder of the checkpoint has the name, and commands take it for one or for a file."""
    if "/" in name or name in (".", "..") or not name.isprintable():
        table.complain(
            "name", f"the name {name!r} is that of a folder, too: use letters, digits, - and _"
        )


def syntax_problem(error: tomllib.TOMLDecodeError, text: str) -> Problem:
    """What is wrong with a file that is no TOML, and where."""
    message = str(error)
    found = _AT_LINE.search(message)
    line = int(found[1]) if found else text.count("\n") + 1
    return Problem(line, f"this is no TOML: {_AT_LINE.sub('', message)}")
