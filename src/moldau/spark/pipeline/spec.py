"""What a pipeline's file declares, checked: sources, steps and sinks that know their inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from moldau.spark.pipeline.problems import Kind, Lines, Problem
from moldau.toml_places import Path

OutputMode = Literal["append", "update", "complete"]
LakeFormat = Literal["delta", "iceberg"]
OnFailure = Literal["warn", "drop", "fail", "quarantine"]

QUARANTINE: Final = "quarantine"
"""The step of rows that are put aside: there is one if a rule does that."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A source, a step or a sink."""

    place: Path = field(default=(), repr=False, compare=False)
    """Where it is declared, such as ``("sources", 0)``."""
    expect: tuple[Expectation, ...] = ()
    """What its rows should be; sinks have none."""


@dataclass(frozen=True, kw_only=True)
class Expectation(Part):
    """A rule for each row: it passes where the check is true, not where that is NULL."""

    name: str
    check: str
    """An SQL expression over the columns of the source or step."""
    on_failure: OnFailure


@dataclass(frozen=True)
class TopicSource(Part):
    name: str
    options: Mapping[str, str] = field(repr=False)  # there may be passwords in it
    """Those of ``format("moldau")``."""
    streaming: bool = True


@dataclass(frozen=True)
class FileSource(Part):
    name: str
    path: str
    format: str
    schema: str | None
    options: Mapping[str, str]
    streaming: bool = True
    time: str | None = None
    """The column that tells when a row happened, for backfills."""
    between: tuple[int, int] | None = None
    """Only rows of this time, from and until, in milliseconds."""


@dataclass(frozen=True)
class TableSource(Part):
    """A table of a database or a query, read once at the start."""

    name: str
    database: str
    query: str
    schema: str | None = None
    """Needed if there may be no rows: Spark finds types by looking at them."""
    streaming: bool = False
    table: str | None = None
    """If it is one, and no query."""


@dataclass(frozen=True)
class LakeSource(Part):
    """A table of Delta Lake or Apache Iceberg."""

    name: str
    format: LakeFormat
    table: str
    """A folder (Delta), or catalog.namespace.table (Iceberg)."""
    options: Mapping[str, str] = field(default_factory=dict)
    warehouse: str | None = None
    streaming: bool = True


@dataclass(frozen=True)
class FormatSource(Part):
    """Whatever Spark finds under the name of a format."""

    name: str
    format: str
    schema: str | None
    options: Mapping[str, str] = field(repr=False)  # there may be passwords in it
    streaming: bool = True


@dataclass(frozen=True)
class ChangesSource(Part):
    """The changes of a table of PostgreSQL."""

    name: str
    options: Mapping[str, str] = field(repr=False)  # the address has a password in it
    """Those of ``format("moldau_changes")``."""
    streaming: bool = True

    @property
    def database(self) -> str:
        return self.options["url"]


@dataclass(frozen=True)
class SqlStep(Part):
    name: str
    sql: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class PythonStep(Part):
    name: str
    function: str
    """``module:function`` or ``file.py:function``."""
    inputs: tuple[str, ...]
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class WindowStep(Part):
    """Durations are in milliseconds, here and below."""

    name: str
    inputs: tuple[str, ...]
    time: str
    size: int
    slide: int | None
    watermark: int | None
    group_by: tuple[str, ...]
    aggregate: Mapping[str, str]


@dataclass(frozen=True)
class JoinStep(Part):
    name: str
    inputs: tuple[str, ...]
    """Left and right."""
    on: tuple[str, ...]
    how: str
    within: int | None
    watermark: int | None
    left_time: str
    right_time: str


@dataclass(frozen=True)
class DeduplicateStep(Part):
    name: str
    inputs: tuple[str, ...]
    keys: tuple[str, ...]
    time: str
    watermark: int | None


@dataclass(frozen=True)
class QuarantineStep(Part):
    """Rows that were put aside, of all sources and steps with such rules."""

    name: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class TopicSink(Part):
    name: str
    input: str
    options: Mapping[str, str] = field(repr=False)  # there may be passwords in it
    """Those of ``format("moldau")``."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """SQL expressions by column of a record; empty if rows are records, or become JSON."""
    output_mode: OutputMode = "append"
    rate: float | None = None
    """Records per second at most."""
    create: bool = True
    """Whether the cluster may create the topic, with as many partitions as it thinks fit."""


@dataclass(frozen=True)
class ParquetSink(Part):
    name: str
    input: str
    path: str
    partition_by: tuple[str, ...] = ()
    compact: bool = False
    output_mode: OutputMode = "append"


@dataclass(frozen=True)
class TableSink(Part):
    name: str
    input: str
    database: str
    table: str
    keys: tuple[str, ...] = ()
    """Rows replace those with the same values in these columns."""
    output_mode: OutputMode = "append"


@dataclass(frozen=True)
class LakeSink(Part):
    """A table of Delta Lake or Apache Iceberg."""

    name: str
    input: str
    format: LakeFormat
    table: str
    """A folder (Delta), or catalog.namespace.table (Iceberg)."""
    keys: tuple[str, ...] = ()
    """Rows replace those with the same values in these columns."""
    partition_by: tuple[str, ...] = ()
    schema_evolution: bool = False
    """Whether columns may be added to the table."""
    compact: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    warehouse: str | None = None
    """The folder of an Iceberg catalog that is not declared elsewhere."""
    output_mode: OutputMode = "append"


@dataclass(frozen=True)
class FormatSink(Part):
    """Whatever Spark finds under the name of a format."""

    name: str
    input: str
    format: str
    options: Mapping[str, str] = field(repr=False)  # there may be passwords in it
    partition_by: tuple[str, ...] = ()
    output_mode: OutputMode = "append"


@dataclass(frozen=True)
class ConsoleSink(Part):
    name: str
    input: str
    rows: int = 20
    output_mode: OutputMode = "append"


Source = TopicSource | FileSource | TableSource | LakeSource | FormatSource | ChangesSource
Step = SqlStep | PythonStep | WindowStep | JoinStep | DeduplicateStep | QuarantineStep
Sink = TopicSink | ParquetSink | TableSink | LakeSink | FormatSink | ConsoleSink


@dataclass(frozen=True)
class Trigger:
    """Micro-batches until stopped, or all there is now (``available_now``), or no stream at all."""

    every: int | None = None
    available_now: bool = False
    batch: bool = False
    idle: int | None = None
    """After so long without records windows close by the clock."""

    @property
    def ends(self) -> bool:
        """Whether it ends by itself."""
        return self.available_now or self.batch


@dataclass(frozen=True)
class Restart:
    """What is done after failures that may pass by themselves."""

    attempts: int | None = None
    """In a row; None: until it is stopped."""
    backoff: int = 1_000
    """Before the first of them, doubled with each."""
    max_backoff: int = 300_000
    reset_after: int = 600_000
    """After so long without a failure they are counted anew."""


@dataclass(frozen=True)
class Pipeline:
    name: str
    file: str
    description: str = ""
    master: str = "local[*]"
    checkpoint: str = ""
    separate: bool = False
    """Whether each sink has a streaming query of its own."""
    config: Mapping[str, str] = field(default_factory=dict)
    trigger: Trigger = Trigger()
    restart: Restart | None = None
    """None: a failure is the end."""
    metrics: str | None = None
    """Where Prometheus finds them, as ``host:port``."""
    sources: tuple[Source, ...] = ()
    steps: tuple[Step, ...] = ()
    """Each after its inputs."""
    sinks: tuple[Sink, ...] = ()
    backfill: bool = False
    """Whether it is run for a range of time, which has an end: all windows are complete then."""
    lines: Lines = field(default=Lines(""), repr=False, compare=False)

    def problem(
        self, path: Path, message: str, word: str | None = None, kind: Kind = "wrong"
    ) -> Problem:
        """What is wrong with the value at a path of the file."""
        return Problem(self.lines.of(path, word), message, kind)

    def declared(self, part: Part, *keys: str) -> Path:
        """The first of these keys that the file itself has for a part, or else the part."""
        paths = [(*part.place, key) for key in keys]
        return next(filter(self.lines.has, paths), part.place)

    @property
    def streaming(self) -> bool:
        return any(source.streaming for source in self.sources)

    @property
    def remote(self) -> bool:
        """Whether the driver is a Spark Connect server."""
        return self.master.startswith("sc://")

    @property
    def shown_master(self) -> str:
        """Without the parameters of a Spark Connect server: one is its token."""
        return self.master.partition(";")[0] if self.remote else self.master

    @property
    def parts(self) -> tuple[Source | Step, ...]:
        """All that has rows."""
        return (*self.sources, *self.steps)

    @property
    def database_parts(self) -> tuple[TableSource | ChangesSource | TableSink, ...]:
        """Sources and sinks that have the address of a database."""
        tables = (TableSource, TableSink, ChangesSource)
        return tuple(one for one in (*self.sources, *self.sinks) if isinstance(one, tables))
