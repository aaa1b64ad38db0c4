"""Windows in silence: the last one comes, over a restart as well, and what is late is counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession
from tests.client.conftest import NewTopicFactory
from tests.spark.pipelines import MINUTE, START, rows
from tests.spark.records import produce
from tests.support.target import Target

from moldau.spark.pipeline.idle import IDLE_FILE, IdleClock
from moldau.spark.pipeline.load import load_pipeline
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.problems import PipelineError
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.run import Run
from moldau.spark.pipeline.spec import Pipeline

FILE = """
    name = "idle"
    [spark]
    checkpoint = "{checkpoint}"
    [trigger]
    every = "200ms"
    idle = "1s"
    [[sources]]
    name = "s"
    topic = "{topic}"
    bootstrap_servers = "{bootstrap}"
    starting_offsets = "earliest"
    [[steps]]
    name = "once"
    deduplicate = {{ from = "s", keys = ["value"], watermark = "10m" }}
    [[steps]]
    name = "counted"
    window = {{ from = "once", size = "1m", aggregate.n = "count(*)" }}
    [[sinks]]
    from = "counted"
    database = "sqlite:///{database}"
    table = "counted"
    keys = ["window_start"]
"""


def run_until(
    pipeline: Pipeline, spark: SparkSession, enough: Callable[[list[Progress]], bool]
) -> list[Progress]:
    reports: list[Progress] = []

    def report(progress: Progress) -> None:
        reports.append(progress)
        if enough(reports):
            running.stop()

    running = Run(pipeline, spark, report)
    running.wait()
    return reports


def test_the_last_window_before_silence_arrives(
    moldau: Target,
    topics: NewTopicFactory,
    spark: SparkSession,
    tmp_path: Path,
    checkpoint: str,
) -> None:
    topic, database = topics(), tmp_path / "d.db"
    text = FILE.format(
        topic=topic, bootstrap=moldau.bootstrap, database=database, checkpoint=checkpoint
    )
    pipeline = parse_pipeline(dedent(text), "p.toml")

    def send(*moments: int) -> None:
        values = [{"value": b"%d" % moment, "timestamp": moment} for moment in moments]
        produce(moldau.bootstrap, topic, values)

    def windows() -> list[tuple[str, int]]:
        if not database.exists():
            return []
        return rows(database, "SELECT window_start, n FROM counted ORDER BY 1")

    send(START, START + 1, START + MINUTE)
    # Stopped before it was quiet for long: nothing is complete yet, and the restart knows of it.
    reports = run_until(pipeline, spark, lambda seen: sum(one.rows for one in seen) == 3)
    assert windows() == []
    reports = run_until(pipeline, spark, lambda _: len(windows()) == 2)
    expected = [("2026-01-01 00:00:00.000000", 2), ("2026-01-01 00:01:00.000000", 1)]
    assert windows() == expected
    assert sum(one.rows for one in reports) == 0  # the clock's own rows are none of the pipeline's

    # Later than the silence allows: left out, and counted.
    send(START + 2)
    reports = run_until(pipeline, spark, lambda seen: any(one.late_rows for one in seen))
    assert sum(one.late_rows for one in reports) == 1
    assert windows() == expected


def test_a_run_that_ends_by_itself_waits_for_nothing(tmp_path: Path) -> None:
    pipeline = parse_pipeline(
        dedent(FILE.format(topic="t", bootstrap="b:1", database="d", checkpoint=tmp_path)), "p.toml"
    )
    from moldau.spark.pipeline.run import once

    assert once(pipeline).trigger.idle == 1000  # the checkpoint has the clock's offset
    clock = IdleClock(once(pipeline))
    clock.look([])
    assert not (tmp_path / IDLE_FILE).exists()


class Query:
    """What a running query says of itself."""

    def __init__(self, *, reading: bool = False) -> None:
        self.status = {"isTriggerActive": reading, "isDataAvailable": reading}


def progress(rows: int = 0, *, lag: int | None = 0, state: int = 1) -> Progress:
    return Progress("s", 0, "t", rows, 0.0, 0, lag=lag, state_rows=state)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    moment = [1000.0]
    monkeypatch.setattr("moldau.spark.pipeline.idle.time.monotonic", lambda: moment[0])
    monkeypatch.setattr("moldau.spark.pipeline.idle.time.time", lambda: moment[0])
    return moment


def test_silence_is_that_of_brokers_not_of_a_pipeline_that_is_behind(
    tmp_path: Path, now: list[float]
) -> None:
    text = dedent(FILE.format(topic="t", bootstrap="b:1", database="d", checkpoint=tmp_path))
    clock = IdleClock(parse_pipeline(text, "p.toml"))

    def ticks(*queries: Query) -> bool:
        file = tmp_path / IDLE_FILE
        before = file.read_text() if file.exists() else None
        clock.look(queries)
        return file.exists() and file.read_text() != before

    now[0] += 60
    assert not ticks(Query())  # nobody has reported yet
    clock.saw(progress(5, lag=100))
    now[0] += 60
    assert not ticks(Query())  # records wait to be read
    clock.saw(progress(5))
    now[0] += 60
    assert not ticks(Query(reading=True))  # a batch takes its time
    now[0] += 0.5
    assert not ticks(Query())
    now[0] += 0.6
    assert ticks(Query())
    assert json.loads((tmp_path / IDLE_FILE).read_text()) == {"idle": int((now[0] - 1) * 1000)}
    now[0] += 0.6
    assert not ticks(Query())
    now[0] += 0.6
    assert ticks(Query())  # windows may end later than the last tick
    clock.saw(progress(state=0))
    now[0] += 60
    assert not ticks(Query())  # nothing is open
    clock.saw(progress(1, state=0))
    now[0] += 1.1
    assert ticks(Query())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('every = "200ms"', "available_now = true", "idle is for pipelines that go on: leave out"),
        ('idle = "1s"', 'idle = "soon"', "idle of [trigger]: "),
        (', watermark = "10m"', "", "idle closes windows in silence, and no step has a watermark"),
    ],
)
def test_mistakes(old: str, new: str, message: str) -> None:
    text = dedent(FILE.format(topic="t", bootstrap="b:1", database="d", checkpoint="c"))
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(text.strip().replace(old, new), "p.toml")
    assert any(line.startswith(f"p.toml:6: {message}") for line in caught.value.lines()), (
        caught.value.lines()
    )


def test_the_alerts_pipeline_has_it() -> None:
    assert load_pipeline("alerts").trigger.idle == MINUTE
    assert load_pipeline("rollup").trigger.idle is None
