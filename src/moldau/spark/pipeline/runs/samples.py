"""Metrics of a pipeline in Prometheus' text format, by pipeline and sink."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from moldau.model import TopicPartition
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
        self.lags: Mapping[str, Lag] = {}
        """By source, as the brokers have it now."""

    def add(self, progress: Progress) -> None:
        sums = self._sums[progress.sink]
        sums["batches"] += 1
        sums["seconds"] += progress.batch_ms / 1000
        sums["rows"] += progress.rows
        sums["late"] += progress.late_rows
        for name, value in counted(progress).items():
            sums[name] += value
        self._last[progress.sink] = progress

    def offsets(self) -> dict[TopicPartition, int]:
        """The next ones to read, of the sink that is the furthest behind."""
        found: dict[TopicPartition, int] = {}
        for progress in list(self._last.values()):
            for topic, offsets in progress.offsets.items():
                for number, offset in offsets.items():
                    partition = TopicPartition(topic, int(number))
                    found[partition] = min(offset, found.get(partition, offset))
        return found

    def families(self, record: RunRecord) -> Iterator[Family]:
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
        lags = dict(self.lags)
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
    ("dead_letters_total", "dead_letters", "Records that went to a dead-letter topic."),
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


def counted(progress: Progress) -> dict[str, int]:
    """What only some pipelines count: dead letters."""
    found: Any = asdict(progress).get("dead_letters")
    return {"dead_letters": found} if isinstance(found, int) else {}


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _age(watermark: str | None) -> float | None:
    if watermark is None or watermark.startswith(_NO_WATERMARK):
        return None
    return max(0.0, time.time() - _moment(watermark))
