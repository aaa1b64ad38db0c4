"""The SQL of a pipeline, parsed and looked up in what its sources declare."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path as FilePath
from typing import Any, Final

import sqlglot
from sqlglot import Token, TokenType
from sqlglot.errors import ParseError, SqlglotError

from moldau.spark.options import OptionError, read_options
from moldau.spark.pipeline.graph import kind_of
from moldau.spark.pipeline.parse_expectations import QUARANTINE_COLUMNS
from moldau.spark.pipeline.problems import Problem, did_you_mean
from moldau.spark.pipeline.spec import (
    DeduplicateStep,
    FileSource,
    FormatSink,
    JoinStep,
    LakeSink,
    ParquetSink,
    Pipeline,
    PythonStep,
    QuarantineStep,
    Sink,
    Source,
    SqlStep,
    Step,
    TableSink,
    TopicSink,
    TopicSource,
    WindowStep,
)
from moldau.spark.pipeline.sql.frames import OPEN, Frame, frame_of, schemas_of
from moldau.spark.pipeline.sql.functions import function_problem
from moldau.spark.pipeline.sql.resolve import Resolver
from moldau.spark.pipeline.sql.schemas import DIALECT, SchemaError, read_schema
from moldau.toml_places import Path

_PLAIN: Final = re.compile(r"\w+")
"""A column's name, and nothing that Spark would take apart."""
_MOMENT: Final = re.compile(
    r"\s*(?:(?P<day>[+-]?\d{4,6}(?:-\d{1,2}(?:-\d{1,2})?)?)(?:[^\d-].*)?|T?\d{1,2}:.*"
    r"|(?:epoch|now|today|tomorrow|yesterday)\b.*)\s*",
    re.IGNORECASE | re.DOTALL,
)
_READABLE: Final = (
    (re.compile(r"\bwindow(?=\s*\()", re.IGNORECASE), "wind0w"),
    (re.compile(r"\bX\s+(?=')", re.IGNORECASE), "X"),
)
"""What Spark reads and sqlglot does not: a function that it takes for a clause, and a form."""
_SHIFT: Final = re.compile(r">>>(?=\s*[\w(`'\"+~-])")
"""A third such form, between operands: types may end so, too."""
_MOMENTS: Final = frozenset(("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"))
_BRACKETS: Final = {
    TokenType.L_PAREN: TokenType.R_PAREN,
    TokenType.L_BRACKET: TokenType.R_BRACKET,
}


@dataclass
class Checked:
    problems: list[Problem] = field(default_factory=list)
    """What Spark would refuse."""
    unread: list[Problem] = field(default_factory=list)
    """SQL that sqlglot cannot read: mistakes as a rule, but only Spark knows."""
    frames: dict[str, Frame] = field(default_factory=dict)
    """By name in lower case."""

    def columns(self, name: str) -> list[str] | None:
        """None if only Spark knows them all."""
        frame = self.frames.get(name.lower(), OPEN)
        return None if frame.open else list(frame.types)


def check_sql(pipeline: Pipeline) -> Checked:
    return _Check(pipeline).run()


class _UnbalancedError(Exception):
    def __init__(self, token: Token) -> None:
        super().__init__(token)
        self.token = token


class _Check:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._found = Checked()

    def run(self) -> Checked:
        pipeline, frames = self._pipeline, self._found.frames
        for source in pipeline.sources:
            self._schemas(source)
            frames[source.name.lower()] = frame_of(source, pipeline.master)
            self._expectations(source, f"source {source.name}")
        for step in pipeline.steps:
            frames[step.name.lower()] = self._step(step)
            self._expectations(step, f"step {step.name}")
        for sink in pipeline.sinks:
            self._sink(sink, frames.get(sink.input.lower(), OPEN))
        return self._found

    def _schemas(self, source: Source) -> None:
        for key, text in schemas_of(source).items():
            try:
                read_schema(text)
            except SchemaError as error:
                place = self._pipeline.declared(source, key, "options")
                said = f"source {source.name}: {key} is no schema: {error}"
                self._found.unread.append(self._pipeline.problem(place, said, error.word or None))
        if isinstance(source, TopicSource):
            self._avro(source)

    def _avro(self, source: TopicSource) -> None:
        options = read_options(source.options, streaming=source.streaming)
        for key, one in (("key_schema", options.key), ("value_schema", options.value)):
            if one.format == "avro" and one.schema is not None:
                from moldau.spark.decode.avro_column import avro_type  # and Arrow

                try:
                    avro_type(one, None)
                except OptionError as error:
                    place = self._pipeline.declared(source, key, "options")
                    self._complain(place, f"source {source.name}: {key}: {error}")

    def _expectations(self, part: Source | Step, what: str) -> None:
        frame = self._found.frames[part.name.lower()]
        for rule in part.expect:
            place = (*rule.place, "check")
            self._expression(place, rule.check, frame, f"{what}, rule {rule.name}")
        if isinstance(part, FileSource) and part.time is not None:
            self._names((*part.place, "time"), [part.time], frame, what)

    def _step(self, step: Step) -> Frame:
        inputs = [self._found.frames.get(name.lower(), OPEN) for name in step.inputs]
        place = (*step.place, kind_of(step))
        what = f"step {step.name}"
        match step:
            case SqlStep():
                return self._query(step, place, what)
            case PythonStep():
                folder = FilePath(self._pipeline.file).parent
                if (problem := function_problem(step.function, folder)) is not None:
                    self._complain(place, f"{what}: {problem}")
                return OPEN
            case WindowStep():
                self._names((*place, "time"), [step.time], inputs[0], what)
                before = len(self._found.problems)
                self._names((*place, "group_by"), step.group_by, inputs[0], what)
                mistyped = len(self._found.problems) > before
                for name, text in step.aggregate.items():
                    self._expression((*place, "aggregate", name), text, inputs[0], what)
                names = ("window_start", "window_end", *step.group_by, *step.aggregate)
                # Those after it are not to blame for a name that is mistyped here.
                opened = mistyped or not all(map(_PLAIN.fullmatch, names))
                return Frame(dict.fromkeys(names), opened)
            case JoinStep():
                return self._join(step, place, inputs[0], inputs[1])
            case DeduplicateStep():
                self._names((*place, "keys"), step.keys, inputs[0], what)
                if step.watermark is not None:
                    self._names((*place, "time"), [step.time], inputs[0], what)
                return inputs[0]
            case QuarantineStep():
                return Frame(dict.fromkeys(QUARANTINE_COLUMNS))

    def _query(self, step: SqlStep, place: Path, what: str) -> Frame:
        tree = self._parse(step.sql, place, what)
        if tree is None or "|>" in step.sql:
            return OPEN
        resolver = Resolver(self._found.frames)
        frame = resolver.query(tree, {})
        self._unknown(resolver, place, what)
        # Those after it are not to blame for a name that is mistyped here.
        return Frame(frame.types, open=True) if resolver.unknown else frame

    def _expression(self, place: Path, text: str, frame: Frame, what: str) -> None:
        tree = self._parse(f"SELECT {text}", place, what)
        selects = getattr(tree, "selects", ())
        if len(selects) == 1:
            resolver = Resolver(self._found.frames)
            resolver.expression(tree, frame)
            self._unknown(resolver, place, what)

    def _join(self, step: JoinStep, place: Path, left: Frame, right: Frame) -> Frame:
        what = f"step {step.name}"
        for frame, name, time in (
            (left, step.inputs[0], step.left_time),
            (right, step.inputs[1], step.right_time),
        ):
            self._names((*place, "on"), step.on, frame, f"{what}, {name}")
            if step.within is not None:
                side = "left_time" if frame is left else "right_time"
                self._names((*place, side), [time], frame, f"{what}, {name}")
        if step.how in ("left_semi", "left_anti"):
            return left
        types = dict(left.types)
        for name, kind in right.types.items():
            if name not in step.on:
                twice = step.within is not None and name in types
                types[f"{step.inputs[1]}_{name}" if twice else name] = kind
        return Frame(types, left.open or right.open)

    def _sink(self, sink: Sink, frame: Frame) -> None:
        what = f"sink {sink.name}"
        match sink:
            case TopicSink():
                for name, text in sink.columns.items():
                    key = "topic_from" if name == "topic" else name
                    self._expression((*sink.place, key), text, frame, what)
            case ParquetSink() | FormatSink():
                self._names((*sink.place, "partition_by"), sink.partition_by, frame, what)
                columns = {name.lower() for name in frame.types}
                if not frame.open and columns and columns <= set(map(str.lower, sink.partition_by)):
                    self._complain(
                        (*sink.place, "partition_by"),
                        f"{what}: partition_by has all columns, and files would have none",
                    )
            case LakeSink():
                self._names((*sink.place, "partition_by"), sink.partition_by, frame, what)
                self._names((*sink.place, "keys"), sink.keys, frame, what)
            case TableSink():
                self._names((*sink.place, "keys"), sink.keys, frame, what)

    def _names(self, place: Path, names: Iterable[str], frame: Frame, what: str) -> None:
        for name in names:
            if not frame.open and _PLAIN.fullmatch(name) and not frame.has(name):
                hint = did_you_mean(name, frame.types)
                self._complain(place, f"{what}: there is no column {name}: {hint}", name)

    def _unknown(self, resolver: Resolver, place: Path, what: str) -> None:
        for one in dict.fromkeys(resolver.unknown):
            self._complain(place, f"{what}: {one.message}", one.name)

    def _parse(self, text: str, place: Path, what: str) -> Any:
        """None if sqlglot cannot read it."""
        try:
            self._tokens(text, place, what)
            for form, instead in _READABLE:
                text = form.sub(instead, text)
            trees = _trees(text)
        except ParseError as error:
            first: dict[str, Any] = error.errors[0] if error.errors else {}
            line = self._pipeline.lines.inside(place, first.get("line") or 1)
            near = first.get("highlight") or "its end"
            self._found.unread.append(Problem(line, f"{what}: this is no SQL, near {near!r}"))
            return None
        except _UnbalancedError as error:
            line = self._pipeline.lines.inside(place, error.token.line)
            sign = error.token.text
            self._found.problems.append(
                Problem(line, f"{what}: this is no SQL: {sign!r} has no counterpart")
            )
            return None
        except SqlglotError as error:
            self._found.unread.append(
                self._pipeline.problem(place, f"{what}: this is no SQL: {str(error)[:200]}")
            )
            return None
        return trees[0] if len(trees) == 1 else None

    def _tokens(self, text: str, place: Path, what: str) -> None:
        """What sqlglot lets pass and Spark never does: brackets, and ``TIMESTAMP 'x'``."""
        tokens = sqlglot.tokenize(text, dialect=DIALECT)
        opened: list[Token] = []
        for token in tokens:
            if token.token_type in _BRACKETS:
                opened.append(token)
            elif token.token_type in _BRACKETS.values():
                before = opened.pop() if opened else token
                if _BRACKETS.get(before.token_type) != token.token_type:
                    raise _UnbalancedError(token)
        if opened:
            raise _UnbalancedError(opened[-1])
        for word, value in itertools.pairwise(tokens):
            kind = word.text.upper()
            typed = kind in _MOMENTS and value.token_type == TokenType.STRING
            if typed and not _is_moment(value.text):
                self._complain(
                    place, f"{what}: {kind} '{value.text}' is no time: write 2026-01-31 12:00:00"
                )

    def _complain(self, place: Path, message: str, word: str | None = None) -> None:
        self._found.problems.append(self._pipeline.problem(place, message, word))


def _trees(text: str) -> list[Any]:
    try:
        found = sqlglot.parse(text, dialect=DIALECT)
    except SqlglotError:
        shifted = _SHIFT.sub(">>", text)
        if shifted == text:
            raise
        found = sqlglot.parse(shifted, dialect=DIALECT)
    return [tree for tree in found if tree is not None]


def _is_moment(text: str) -> bool:
    found = _MOMENT.fullmatch(text)
    if found is None:
        return False
    parts: Sequence[int] = [int(part) for part in re.findall(r"\d+", found["day"] or "")]
    if len(parts) != 3:
        return not parts or len(parts) == 1 or 1 <= parts[1] <= 12
    try:
        date(min(9999, max(1, parts[0])), parts[1], parts[2])
    except ValueError:
        return parts[1:] == [2, 29]  # of years that Python does not have
    return True
