"""``NAME.test.toml``: cases with the rows that are given and those that are expected."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path as FilePath
from typing import Any, Final

from moldau.spark.pipeline.parse import syntax_problem
from moldau.spark.pipeline.problems import (
    Lines,
    PipelineError,
    Problem,
    Problems,
    did_you_mean,
)
from moldau.spark.pipeline.spec import Pipeline, TopicSource
from moldau.spark.pipeline.table import Table, as_option
from moldau.toml_places import Path

Row = Mapping[str, Any]
Rows = Mapping[str, tuple[Row, ...]]

_KEYS: Final = (
    *("name", "given", "expect", "sinks", "dead_letters"),
    *("parameters", "until", "ordered", "fails"),
)


class Cell(str):
    """A text of a CSV file: it is of the type that it is compared with, or read as."""

    __slots__ = ()


@dataclass(frozen=True)
class Case:
    name: str
    file: str
    line: int
    given: Rows = field(default_factory=dict)
    """By source."""
    expect: Rows = field(default_factory=dict)
    """By source or step."""
    sinks: Rows = field(default_factory=dict)
    dead_letters: Rows = field(default_factory=dict)
    """By source."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    until: datetime | None = None
    """Windows that end later are still open."""
    ordered: bool = False
    fails: str | None = None
    """A part of the sentence with which the pipeline ends."""
    lines: Mapping[Path, int] = field(default_factory=dict, compare=False, repr=False)
    """Of the rows that are expected, by key and name."""


def file_of_tests(pipeline_file: str) -> FilePath:
    """Where the tests of a pipeline are: beside its file."""
    return FilePath(pipeline_file).with_suffix(".test.toml")


def load_cases(file: FilePath, pipeline: Pipeline) -> list[Case]:
    """``PipelineError`` has all mistakes; ``FileNotFoundError`` if there is no such file."""
    text = file.read_text("utf-8")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(str(file), [syntax_problem(error, text)]) from None
    lines, problems = Lines(text), Problems()
    cases = list(_Reader(document, file, pipeline, lines, problems).cases())
    if problems.found:
        raise PipelineError(
            str(file),
            [Problem(lines.of(path, word), message) for path, message, word in problems.found],
        )
    return cases


class _Reader:
    def __init__(
        self,
        document: dict[str, Any],
        file: FilePath,
        pipeline: Pipeline,
        lines: Lines,
        problems: Problems,
    ) -> None:
        self._top = Table(document, (), "the file", problems)
        self._file = file
        self._lines = lines
        sources = [one.name for one in pipeline.sources]
        letters = [
            one.name
            for one in pipeline.sources
            if isinstance(one, TopicSource) and "deadLetterTopic" in one.options
        ]
        self._names = {
            "given": ("source", sources),
            "expect": ("source or step", [one.name for one in pipeline.parts]),
            "sinks": ("sink", [one.name for one in pipeline.sinks]),
            "dead_letters": ("source with dead_letter_topic", letters),
        }

    def cases(self) -> Iterator[Case]:
        top = self._top
        top.allow(("tests",))
        tests = top.values.get("tests", [])
        if not isinstance(tests, list) or not tests:
            top.complain(
                "tests" if tests else None, "there is no test: tests are written [[tests]]"
            )
            return
        seen: set[str] = set()
        for index, values in enumerate(tests):
            path = ("tests", index)
            name = values.get("name") if isinstance(values, dict) else None
            what = f"[[tests]] {name}" if isinstance(name, str) else "[[tests]]"
            table = Table(values, path, what, top.problems)
            table.allow(_KEYS)
            table.require("name", '"visits are counted per minute"')
            if not any(key in table for key in ("expect", "sinks", "dead_letters", "fails")):
                table.complain(None, f"{what} expects nothing: add [tests.expect]")
            if table.text("name") in seen:
                table.complain("name", f"two tests are called {name}: names are unique")
            seen.add(table.text("name"))
            yield self._case(table)

    def _case(self, table: Table) -> Case:
        groups = {key: self._rows(table, key) for key in self._names}
        return Case(
            table.text("name"),
            str(self._file),
            self._lines.of(table.path),
            groups["given"],
            groups["expect"],
            groups["sinks"],
            groups["dead_letters"],
            {name: as_option(value) for name, value in table.mapping("parameters").items()},
            self._moment(table, "until"),
            table.boolean("ordered"),
            table.optional_text("fails"),
            {
                (key, name): self._lines.of((*table.path, key, name))
                for key, rows in groups.items()
                for name in rows
            },
        )

    def _rows(self, table: Table, key: str) -> dict[str, tuple[Row, ...]]:
        what, names = self._names[key]
        found: dict[str, tuple[Row, ...]] = {}
        known = {name.lower(): name for name in names}
        for name, rows in table.mapping(key).items():
            if name.lower() not in known:
                hint = did_you_mean(name, names)
                table.problems.add(
                    (*table.path, key, name), f"{table.what}: there is no {what} {name}: {hint}"
                )
                continue
            place = Place(table, (*table.path, key, name), f"{key} {name} of {table.what}")
            found[known[name.lower()]] = tuple(self._read(rows, place))
        return found

    def _read(self, rows: Any, place: Place) -> Iterator[Row]:
        if isinstance(rows, str):
            yield from self._from_file(rows, place)
            return
        if not isinstance(rows, list):
            place.complain('is a list of rows, such as [{ id = 1 }], or a file, such as "rows.csv"')
            return
        for row in rows:
            if isinstance(row, dict):
                yield row
            else:
                place.complain(f"has a row that is no table: {row!r}")

    def _from_file(self, name: str, place: Place) -> Iterator[Row]:
        path = self._file.parent / name
        if path.suffix not in (".csv", ".jsonl", ".ndjson"):
            place.complain(f"is in {name}, which should end with .jsonl or .csv")
            return
        try:
            text = path.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            said = error.strerror if isinstance(error, OSError) else "this is no text in UTF-8"
            place.complain(f"cannot be read from {path}: {said}")
            return
        if path.suffix == ".csv":
            for row in csv.DictReader(text.splitlines()):
                yield {column: Cell(cell) for column, cell in row.items() if column}
        else:
            yield from _json_lines(text, place, path)

    def _moment(self, table: Table, key: str) -> datetime | None:
        value = table.values.get(key)
        found = None if value is None else as_moment(value)
        if value is not None and found is None:
            table.complain(key, f"{key} of {table.what} is no time, such as 2026-01-31T12:00:00Z")
        return found


@dataclass(frozen=True)
class Place:
    """Rows in the file, to complain of."""

    table: Table
    path: Path
    what: str

    def complain(self, said: str) -> None:
        self.table.problems.add(self.path, f"{self.what} {said}")


def _json_lines(text: str, place: Place, path: FilePath) -> Iterator[Row]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            place.complain(f"cannot be read: {path}:{number}: {error}")
            return
        if isinstance(row, dict):
            yield row
        else:
            place.complain(f"cannot be read: {path}:{number}: this is no object")


def as_moment(value: Any) -> datetime | None:
    """Times without a zone are UTC, days their midnights; milliseconds are taken, too."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, UTC)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
