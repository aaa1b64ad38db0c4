"""What is drawn of a pipeline: boxes with columns, and which reads from which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from moldau.spark.options import read_options
from moldau.spark.pipeline.spec import (
    ChangesSource,
    ConsoleSink,
    DeduplicateStep,
    FileSource,
    JoinStep,
    Part,
    Pipeline,
    PythonStep,
    Sink,
    SqlStep,
    TableSink,
    TableSource,
    TopicSink,
    TopicSource,
    WindowStep,
)

if TYPE_CHECKING:
    from moldau.spark.pipeline.sql.frames import Frame

Kind = Literal["source", "step", "sink"]

_BESIDE: Final = ("topic", "partition", "offset", "timestampType")
"""Columns that every record has, and few pipelines use."""
_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


@dataclass(frozen=True)
class Column:
    name: str
    type: str = ""
    """Empty if only Spark knows."""


@dataclass(frozen=True)
class Box:
    kind: Kind
    name: str
    label: str
    """What it is, in a few words."""
    columns: tuple[Column, ...] = ()
    more: str = ""
    """What is to be said of other columns."""
    streaming: bool = True


@dataclass(frozen=True)
class Drawing:
    title: str
    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]
    """From and to, by the boxes' numbers."""


def drawing_of(pipeline: Pipeline, frames: Mapping[str, Frame]) -> Drawing:
    """``frames``: by name in lower case, as far as columns are known without Spark."""
    boxes: list[Box] = []
    numbers: dict[str, int] = {}
    edges: list[tuple[int, int]] = []
    flowing: set[str] = set()

    def add(box: Box, inputs: tuple[str, ...]) -> None:
        edges.extend((numbers[name.lower()], len(boxes)) for name in dict.fromkeys(inputs))
        if box.kind != "sink":
            numbers[box.name.lower()] = len(boxes)
        if box.streaming:
            flowing.add(box.name.lower())
        boxes.append(box)

    for source in pipeline.sources:
        columns, more = _columns_of(source.name, frames)
        if isinstance(source, TopicSource):
            columns, more = _record_columns(source, columns)
        add(Box("source", source.name, _source(source), columns, more, source.streaming), ())
    for step in pipeline.steps:
        columns, more = _columns_of(step.name, frames)
        streams = any(name.lower() in flowing for name in step.inputs)
        add(Box("step", step.name, _step(step), columns, more, streams), step.inputs)
    for sink in pipeline.sinks:
        streams = sink.input.lower() in flowing
        add(Box("sink", sink.name, _sink(sink), _written(sink), "", streams), (sink.input,))
    return Drawing(pipeline.name, tuple(boxes), tuple(edges))


def _columns_of(name: str, frames: Mapping[str, Frame]) -> tuple[tuple[Column, ...], str]:
    frame = frames.get(name.lower())
    if frame is None:
        return (), ""
    columns = tuple(
        column for name, kind in frame.types.items() for column in _flattened(name, kind)
    )
    if not frame.open:
        return columns, ""
    return columns, "and others" if columns else "columns: only Spark knows"


def _flattened(name: str, kind: Any) -> list[Column]:
    """The fields of a struct, one by one."""
    if kind is None:
        return [Column(name)]
    inner = [
        (one.name, one.args.get("kind"))
        for one in kind.expressions
        if kind.this.name == "STRUCT" and one.name
    ]
    if not inner:
        return [Column(name, _type(kind))]
    return [Column(f"{name}.{field}", "" if of is None else _type(of)) for field, of in inner]


def _type(kind: Any) -> str:
    text: str = kind.sql(dialect="spark").lower()
    return text


def _record_columns(
    source: TopicSource, columns: tuple[Column, ...]
) -> tuple[tuple[Column, ...], str]:
    options = read_options(source.options, streaming=source.streaming)
    formats = {"key": options.key.format, "value": options.value.format}
    shown = [
        Column(one.name, one.type or {"bytes": "binary"}.get(kind, kind))
        if (kind := formats.get(one.name)) is not None
        else one
        for one in columns
        if one.name not in _BESIDE
    ]
    return tuple(shown), "and topic, partition, offset …" if columns else ""


def _source(source: Part) -> str:
    match source:
        case TopicSource():
            pattern = source.options.get("subscribePattern")
            names = source.options.get("subscribe", "").replace(",", ", ")
            return f"topics {pattern}" if pattern is not None else f"topic {names}"
        case FileSource():
            return f"{source.format} files in {source.path}"
        case TableSource():
            what = "query" if source.table is None else f"table {source.table}"
            return f"{what} ({_dialect(source.database)})"
        case ChangesSource():
            return f"changes of {source.options['dbtable']} ({_dialect(source.database)})"
        case _:
            return _anything(source, "Source")


def _step(step: Part) -> str:
    match step:
        case SqlStep():
            return "SQL"
        case PythonStep():
            return f"Python {step.function}"
        case WindowStep():
            slide = "" if step.slide is None else f" every {_short(step.slide)}"
            return f"window of {_short(step.size)}{slide}{_late(step.watermark)}"
        case JoinStep():
            within = "" if step.within is None else f" within {_short(step.within)}"
            return f"{step.how} join on {', '.join(step.on)}{within}{_late(step.watermark)}"
        case DeduplicateStep():
            return f"deduplicate by {', '.join(step.keys)}{_late(step.watermark)}"
        case _:
            return _anything(step, "Step")


def _sink(sink: Part) -> str:
    match sink:
        case TopicSink():
            topic = sink.options.get("topic", "by row")
            once = sink.options.get("exactlyOnce", "").lower() == "true"
            return f"topic {topic}{', exactly once' if once else ''}"
        case TableSink():
            keys = f", by {', '.join(sink.keys)}" if sink.keys else ""
            return f"table {sink.table} ({_dialect(sink.database)}){keys}"
        case ConsoleSink():
            return "console"
        case _:
            return _anything(sink, "Sink")


def _written(sink: Sink) -> tuple[Column, ...]:
    if not isinstance(sink, TopicSink):
        return ()
    return tuple(Column(name, f"= {text}") for name, text in sink.columns.items())


def _anything(part: Any, ending: str) -> str:
    """A part of another kind by its class, and the first of what says where it is."""
    name = type(part).__name__.removesuffix(ending).lower()
    values = (
        {one.name: getattr(part, one.name) for one in fields(part)} if is_dataclass(part) else {}
    )
    where = next((values[key] for key in ("path", "table", "format") if values.get(key)), "")
    return f"{name} {where}".strip()


def _dialect(database: str) -> str:
    """Of an address, in which there may be a password."""
    return database.partition(":")[0].partition("+")[0]


def _late(watermark: int | None) -> str:
    return "" if watermark is None else f", {_short(watermark)} late"


def _short(milliseconds: int) -> str:
    size, unit = next(
        (size, unit) for unit, size in _UNITS if milliseconds % size == 0 and milliseconds >= size
    )
    return f"{milliseconds // size} {unit}"
