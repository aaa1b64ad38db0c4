"""A day in the life of a pipeline, made up: load that comes and goes, a failure, a restart."""

from __future__ import annotations

import math
import random
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from moldau.spark.pipeline.lags import Lag
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.runs.history import History
from moldau.spark.pipeline.spec import Pipeline

FILE = """\
name = "visits"
description = "visits of pages per minute, with their titles"

[spark]
master = "spark://cluster:7077"

[[sources]]
name = "visits"
topic = "visits"
value_format = "json"
value_schema = "page STRING, visitor BIGINT, country STRING"

[[sources]]
name = "pages"
files = "pages/"
format = "json"
schema = "page STRING, title STRING, section STRING"
streaming = false

[[steps]]
name = "seen"
sql = "SELECT value.page AS page, value.visitor AS visitor, timestamp FROM visits"

[[steps]]
name = "once"
deduplicate = { from = "seen", keys = ["page", "visitor"], watermark = "10m" }

[[steps]]
name = "known"
join = { left = "once", right = "pages", on = ["page"], how = "left" }

[[steps]]
name = "per_minute"
[steps.window]
from = "known"
size = "1m"
group_by = ["section", "page"]
aggregate = { visits = "count(*)", visitors = "approx_count_distinct(visitor)" }

[[sinks]]
name = "archive"
from = "seen"
parquet = "archive/"

[[sinks]]
name = "topic"
from = "per_minute"
topic = "visits-per-minute"
key = "page"
value = "to_json(struct(*))"

[[sinks]]
name = "table"
from = "per_minute"
database = "postgresql+psycopg://moldau@db/visits"
table = "visits_per_minute"
keys = ["window_start", "page"]
"""
START = datetime(2026, 11, 16, 6, 0, tzinfo=UTC).timestamp()
STEP = 20.0
BATCHES = 1800
AWAY = range(1050, 1110)
"""Batches that there were none of: the brokers were away."""


def pipeline() -> Pipeline:
    return parse_pipeline(FILE, "visits.toml")


def make_history(place: Path, *, seed: int = 7) -> None:
    chance = random.Random(seed)
    history = History(place)
    history.event("starting", moment(START - 9))
    history.event("running", moment(START - 2))
    lag = 0.0
    letters = 0
    for batch in range(BATCHES):
        at = START + batch * STEP
        load = 22_000 * (1.15 - math.cos((batch + 100) / BATCHES * 2 * math.pi))
        load *= chance.uniform(0.85, 1.15)
        if batch in AWAY:
            lag += load
            if batch == AWAY[0]:
                error = "visits.toml:7: sink archive: No broker of 10.0.0.7:9092 can be reached."
                history.event("restarting", moment(at), error=error)
            if batch == AWAY[-1]:
                history.event("starting", moment(at))
                history.event("running", moment(at + 8))
            continue
        rows = min(load + lag, 90_000)
        lag = max(0.0, load + lag - rows)
        letters += int(rows * 0.00002 * chance.random())
        if batch % 2:
            behind = Lag(int(lag + load * 0.1), 2 + lag / 1500)
            history.watched({"visits": behind}, {"visits.bad": letters}, moment(at))
        for sink, speed in (("archive", 21_000), ("topic", 14_000), ("table", 11_500)):
            seconds = 0.35 + rows / speed * chance.uniform(0.9, 1.25)
            progress = Progress(
                sink=sink,
                batch=batch,
                time=moment(at),
                rows=int(rows),
                rows_per_second=round(rows / seconds, 1),
                batch_ms=int(seconds * 1000),
                watermark=moment(at - 600 - chance.uniform(0, 30) - lag / 3000),
                lag=int(lag + (load * 0.1 if sink == "table" else 0)),
                state_rows=0 if sink == "archive" else int(180_000 + load * 6),
                state_bytes=0 if sink == "archive" else int((180_000 + load * 6) * 210),
                late_rows=int(chance.random() < 0.02) * chance.randrange(1, 40),
            )
            line = {**asdict(progress), "expectations": expectations(int(rows), chance)}
            line.pop("offsets")
            history._append(line)


def expectations(rows: int, chance: random.Random) -> dict[str, dict[str, dict[str, int]]]:
    """Of every sink: they read the same rows."""
    found = {}
    for rule, share in (("page is known", 0.004), ("visitor is positive", 0.0002)):
        failed = int(rows * share * chance.uniform(0.5, 1.5))
        found[rule] = {"passed": rows - failed, "failed": failed}
    return {"seen": found}


def moment(at: float) -> str:
    text = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
