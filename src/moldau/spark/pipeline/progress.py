"""What Spark reports after each batch, in few numbers: for the live view, ``--json`` and status."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True)
class Progress:
    """One batch of one sink."""

    sink: str
    batch: int
    time: str
    rows: int
    """Read by a stream; written, if it is none."""
    rows_per_second: float
    batch_ms: int
    watermark: str | None = None
    lag: int | None = None
    """Records that were there and not in the batch."""
    state_rows: int = 0
    """Rows that windows, joins and deduplication remember."""
    state_bytes: int = 0
    """The memory that these rows take."""
    late_rows: int = 0
    """Rows left out because they were later than the watermark."""
    offsets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Where the batch ends, by topic and partition."""


def progress_of(sink: str, report: Mapping[str, Any]) -> Progress:
    """From the JSON of a ``StreamingQueryProgress``.

    Through Spark Connect rates are those of the sources only, and offsets are JSON in JSON.
    """
    operators = report.get("stateOperators") or []
    sources = [_source(one) for one in report.get("sources") or ()]
    rates = [report, *sources] if "processedRowsPerSecond" not in report else [report]
    return Progress(
        sink=sink,
        batch=int(report["batchId"]),
        time=report["timestamp"],
        rows=sum(source.get("numInputRows", 0) for source in sources),
        rows_per_second=round(sum(one.get("processedRowsPerSecond") or 0.0 for one in rates), 1),
        batch_ms=int((report.get("durationMs") or {}).get("triggerExecution", 0)),
        watermark=(report.get("eventTime") or {}).get("watermark"),
        lag=_lag(sources),
        state_rows=sum(int(one.get("numRowsTotal", 0)) for one in operators),
        state_bytes=sum(int(one.get("memoryUsedBytes", 0)) for one in operators),
        late_rows=sum(int(one.get("numRowsDroppedByWatermark", 0)) for one in operators),
        offsets=_offsets(sources),
    )


def written(sink: str, rows: int, seconds: float) -> Progress:
    """The one batch of a sink that is written once, without a stream."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    rate = round(rows / seconds, 1) if seconds else 0.0
    return Progress(sink, 0, now, rows, rate, int(seconds * 1000))


def _source(report: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(report)
    for name in ("endOffset", "latestOffset"):
        if isinstance(found.get(name), str):
            with suppress(ValueError):  # a source with offsets of another kind
                found[name] = json.loads(found[name])
    return found


def _offsets(sources: Any) -> dict[str, dict[str, int]]:
    """Of topics: other sources have other ways to say where they are."""
    ends = [source.get("endOffset") for source in sources]
    return {
        topic: offsets
        for end in ends
        if isinstance(end, dict)
        for topic, offsets in end.items()
        if isinstance(offsets, dict)
    }


def _lag(sources: Any) -> int | None:
    """Of all topics together; sources that are no topics have no offsets to compare."""
    behind: int | None = None
    for source in sources:
        end, latest = source.get("endOffset"), source.get("latestOffset")
        if not isinstance(end, dict) or not isinstance(latest, dict):
            continue
        for topic, offsets in latest.items():
            if isinstance(offsets, dict):
                read = end.get(topic, {})
                distance = sum(at - read.get(number, 0) for number, at in offsets.items())
                behind = (behind or 0) + max(0, distance)
    return behind
