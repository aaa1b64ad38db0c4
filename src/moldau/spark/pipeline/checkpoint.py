"""What a pipeline's checkpoint tells without Spark: last batches, offsets, the last report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from moldau.model import TopicPartition
from moldau.spark.pipeline.progress import Progress

PROGRESS_FILE: Final = "progress.json"
QUERIES_FILE: Final = "queries.json"

Offsets = dict[TopicPartition, int]
Planned = Mapping[str, Sequence[Offsets]]
"""Where the next run goes on, by sink, for each source that its query reads.

Topics of two clusters may have one name, and nobody but Spark knows which source is which.
"""


@dataclass(frozen=True)
class SinkState:
    """How far the query of a sink is."""

    sink: str
    batch: int | None = None
    """The last one that is done."""
    planned: int | None = None
    """The last one that was begun."""
    watermark_ms: int | None = None
    offsets: Offsets = field(default_factory=dict)
    """The next ones to read, of all topics."""
    progress: Progress | None = None


@dataclass(frozen=True)
class KnownQuery:
    """A query that several sinks share, as the checkpoint has it."""

    sinks: tuple[str, ...]
    frontier: tuple[str, ...]
    """The frames that it streams, in the order of their state."""
    left: tuple[str, ...] = ()
    """Sinks that it had once, and that have missed batches since."""


Queries = Mapping[str, KnownQuery]
"""By their folders."""


def query_checkpoint(checkpoint: str, folder: str) -> str:
    return f"{checkpoint.rstrip('/')}/{folder}"


def folder_of(queries: Queries, sink: str) -> str:
    """Where the query of a sink has its checkpoint: a query for one sink has the sink's name."""
    return next((folder for folder, one in queries.items() if sink in one.sinks), sink)


def read_queries(checkpoint: Path) -> Queries:
    try:
        return parse_queries((checkpoint / QUERIES_FILE).read_text("utf-8"))
    except FileNotFoundError:
        return {}


def parse_queries(text: str) -> Queries:
    """``ValueError`` if it is damaged: to go on without it would be to read everything again."""
    try:
        return {
            folder: KnownQuery(*(tuple(one[name]) for name in ("sinks", "frontier", "left")))
            for folder, one in json.loads(text).items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(f"{QUERIES_FILE} of the checkpoint is damaged") from None


def format_queries(queries: Queries) -> str:
    return json.dumps({folder: asdict(one) for folder, one in queries.items()}, indent=2)


def read_state(checkpoint: Path, sink: str) -> SinkState:
    directory = checkpoint / folder_of(read_queries(checkpoint), sink)
    planned, done = _last(directory / "offsets"), _last(directory / "commits")
    if planned is None:
        return SinkState(sink, progress=_read_progress(checkpoint, sink))
    # A batch that was begun and not ended has offsets that nobody has written yet.
    file = directory / "offsets" / str(planned if done is None else min(planned, done))
    watermark, lines = _parse_offsets(file.read_text("utf-8")) if file.exists() else (None, [])
    offsets: Offsets = {}
    for line in lines if done is not None else ():
        offsets.update(line)
    return SinkState(sink, done, planned, watermark, offsets, _read_progress(checkpoint, sink))


def planned_offsets(checkpoint: Path, sink: str) -> list[Offsets]:
    """Where the last batch that was begun ends: what the next run goes on from."""
    offsets = checkpoint / folder_of(read_queries(checkpoint), sink) / "offsets"
    planned = _last(offsets)
    if planned is None:
        return []
    return _parse_offsets((offsets / str(planned)).read_text("utf-8"))[1]


def slots_of(file: Path) -> set[str]:
    """Replication slots in a file of Spark's offset log, of sources that read changes."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError:
        return set()
    found = (_json(line).get("slot") for line in lines[2:])
    return {slot for slot in found if isinstance(slot, str)}


def write_progress(checkpoint: Path, reports: dict[str, Progress]) -> None:
    """The last report of each sink, for ``moldau pipeline status``."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    growing = checkpoint / f".{PROGRESS_FILE}"
    growing.write_text(json.dumps({sink: asdict(one) for sink, one in reports.items()}), "utf-8")
    growing.replace(checkpoint / PROGRESS_FILE)


def _read_progress(checkpoint: Path, sink: str) -> Progress | None:
    try:
        found = json.loads((checkpoint / PROGRESS_FILE).read_text("utf-8"))
        return Progress(**found[sink])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _last(directory: Path) -> int | None:
    if not directory.is_dir():
        return None
    numbers = [int(file.name) for file in directory.iterdir() if file.name.isdecimal()]
    return max(numbers, default=None)


def _parse_offsets(text: str) -> tuple[int | None, list[Offsets]]:
    """Spark's offset log: a version, the batch's metadata, then a line for each source."""
    lines = text.splitlines()
    watermark = _json(lines[1]).get("batchWatermarkMs") if len(lines) > 1 else None
    found = [
        {
            TopicPartition(topic, int(number)): int(offset)
            for topic, partitions in _json(line).items()
            if isinstance(partitions, dict)
            for number, offset in partitions.items()
        }
        for line in lines[2:]
    ]
    return watermark or None, [offsets for offsets in found if offsets]


def _json(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
