"""Metrics of a pipeline in Prometheus' text format, by pipeline and sink."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from moldau.spark.pipeline.lags import Lag
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.runs.record import RunRecord

_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_NO_WATERMARK: Final = "1970-01-01T00:00:00"

Labels = Mapping[str, str]


class Family(NamedTuple):
    """A metric, with a value for each of several labels."""

    name: str
    kind: Literal["counter", "gauge", "summary"]
    doc: str
    samples: list[tuple[str, Labels, float]]
    """What comes after the name, if anything; labels; value."""


class Totals:
    """What the batches of a run add up to; written by one thread, read by others."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._last: dict[str, Progress] = {}
        self._expectations: dict[tuple[str, str, str], int] = defaultdict(int)
        """Rows that passed and failed, by part, rule and outcome."""
        self._owners: dict[str, str] = {}
        """Sinks by the part that they count for all: one that several read is counted once."""

    def add(self, progress: Progress) -> None:
        sums = self._sums[progress.sink]
        sums["batches"] += 1
        sums["seconds"] += progress.batch_ms / 1000
        sums["rows"] += progress.rows
        sums["late"] += progress.late_rows
        for part, rules in expectations_of(asdict(progress)).items():
            if self._owners.setdefault(part, progress.sink) == progress.sink:
                for rule, counts in rules.items():
                    for outcome, number in counts.items():
                        self._expectations[part, rule, outcome] += number
        self._last[progress.sink] = progress

    def families(
        self, record: RunRecord, lags: Mapping[str, Lag], letters: Mapping[str, int]
    ) -> Iterator[Family]:
        """``lags`` by source, ``letters`` by topic."""
        alive = {"running": 1.0}.get(record.state, 0.0)
        whole = {"pipeline": self._pipeline}
        yield Family("up", "gauge", "Whether its queries run.", [("", whole, alive)])
        yield Family(
            "restarts_total", "counter", "Attempts after failures.",
            [("", whole, float(record.restarts))],
        )  # fmt: skip
        for name, key, doc in _COUNTERS:
            yield Family(name, "counter", doc, self._by_sink(self._sum(key)))
        yield Family(
            "batch_seconds", "summary", "How long batches took.",
            [
                *self._by_sink(self._sum("seconds"), "_sum"),
                *self._by_sink(self._sum("batches"), "_count"),
            ],
        )  # fmt: skip
        for name, key, doc in _GAUGES:
            values = {sink: getattr(one, key, None) for sink, one in self._last.items()}
            yield Family(name, "gauge", doc, self._by_sink(values))
        yield Family(
            "last_batch_timestamp_seconds", "gauge", "When the last batch began.",
            self._by_sink({sink: _moment(one.time) for sink, one in self._last.items()}),
        )  # fmt: skip
        yield Family(
            "watermark_age_seconds", "gauge", "How far the watermark is behind the clock.",
            self._by_sink({sink: _age(one.watermark) for sink, one in self._last.items()}),
        )  # fmt: skip
        yield Family(
            "lag_records", "gauge", "Records of a source that were not read yet.",
            [("", {**whole, "source": name}, float(lag.records)) for name, lag in lags.items()],
        )  # fmt: skip
        yield Family(
            "lag_seconds", "gauge", "How old the oldest of them is.",
            [
                ("", {**whole, "source": name}, lag.seconds)
                for name, lag in lags.items()
                if lag.seconds is not None
            ],
        )  # fmt: skip

        yield Family(
            "dead_letters", "gauge", "Records in the topics of dead letters.",
            [("", {**whole, "topic": name}, float(number)) for name, number in letters.items()],
        )  # fmt: skip
        yield Family(
            "expectation_rows_total", "counter", "Rows that a rule was applied to, by outcome.",
            [
                (
                    "",
                    {**whole, "part": part, "expectation": rule, "outcome": outcome},
                    float(number),
                )
                for (part, rule, outcome), number in list(self._expectations.items())
            ],
        )  # fmt: skip

    def _sum(self, key: str) -> dict[str, float | None]:
        return {sink: sums[key] for sink, sums in list(self._sums.items()) if key in sums}

    def _by_sink(
        self, values: Mapping[str, float | None], suffix: str = ""
    ) -> list[tuple[str, Labels, float]]:
        return [
            (suffix, {"pipeline": self._pipeline, "sink": sink}, float(value))
            for sink, value in values.items()
            if value is not None
        ]


_COUNTERS: Final = (
    ("rows_total", "rows", "Rows read by streams, or written by batches."),
    ("late_rows_total", "late", "Rows left out because they were later than the watermark."),
)
_GAUGES: Final = (
    ("state_rows", "state_rows", "Rows that windows, joins and deduplication remember."),
    ("state_bytes", "state_bytes", "The memory that these rows take."),
    ("batch", "batch", "The number of the last batch."),
)


def render(families: Iterable[Family]) -> str:
    """Families without a sample are left out."""
    lines = []
    for family in families:
        name = f"moldau_pipeline_{family.name}"
        if family.samples:
            lines += [f"# HELP {name} {family.doc}", f"# TYPE {name} {family.kind}"]
        lines += [
            f"{name}{suffix}{{{_labels(labels)}}} {value:.17g}"
            for suffix, labels, value in family.samples
        ]
    return "\n".join(lines) + "\n"


def expectations_of(batch: Mapping[str, Any]) -> dict[str, dict[str, dict[str, int]]]:
    """How many rows passed and failed, by source or step and by rule, of a report."""
    found: dict[str, dict[str, dict[str, int]]] = batch.get("expectations") or {}
    return found


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _age(watermark: str | None) -> float | None:
    if watermark is None or watermark.startswith(_NO_WATERMARK):
        return None
    return max(0.0, time.time() - _moment(watermark))
