"""A range of time, into the same sinks, beside the pipeline that goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession
from tests.client.conftest import NewTopicFactory
from tests.spark.java_options import JAVA_OPTIONS
from tests.spark.pipelines import MINUTE, START, rows, run_once
from tests.spark.records import produce
from tests.support.target import Target

from moldau.client.admin import Admin
from moldau.spark.pipeline.backfill import Range, narrowed, notes, prepared
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.problems import PipelineError
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.run import run_pipeline

DAY = 24 * 60 * MINUTE

FILE = """
    name = "filled"
    [spark]
    checkpoint = "{checkpoint}"
    [[sources]]
    name = "s"
    topic = "{topic}"
    bootstrap_servers = "{bootstrap}"
    starting_offsets = "latest"
    group_id = "{topic}-readers"
    max_offsets_per_trigger = {most}
    [[steps]]
    name = "counted"
    [steps.window]
    from = "s"
    size = "1h"
    watermark = "10m"
    group_by = ["partition"]
    aggregate = {{ n = "count(*)" }}
    [[sinks]]
    from = "counted"
    database = "sqlite:///{database}"
    table = "counted"
    keys = ["window_start", "partition"]
"""
QUERY = "SELECT window_start, partition, n FROM counted ORDER BY 1, 2"


def fill(bootstrap: str, topic: str, days: int) -> None:
    """A record for each minute of some days, by turns in two partitions."""
    produce(bootstrap, topic, [
        {"value": b"%d" % number, "partition": number % 2, "timestamp": START + number * MINUTE}
        for number in range(days * 24 * 60)
    ])  # fmt: skip


def expected(first: int, last: int) -> list[tuple[str, int, int]]:
    return [
        (f"2026-01-{1 + hour // 24:02d} {hour % 24:02d}:00:00.000000", partition, 30)
        for hour in range(first, last)
        for partition in range(2)
    ]


def files(folder: str) -> dict[str, bytes]:
    place = Path(folder)
    return {
        str(file.relative_to(place)): file.read_bytes()
        for file in sorted(place.rglob("*"))
        if file.is_file() and "backfill" not in str(file.relative_to(place))
    }


def test_a_range_is_read_and_the_pipeline_goes_on_as_before(
    moldau: Target,
    topics: NewTopicFactory,
    spark: SparkSession,
    tmp_path: Path,
    checkpoint: str,
) -> None:
    topic, database = topics(partitions=2), tmp_path / "d.db"
    fill(moldau.bootstrap, topic, days=3)
    text = FILE.format(
        topic=topic, bootstrap=moldau.bootstrap, database=database, checkpoint=checkpoint, most=9999
    )
    pipeline = parse_pipeline(dedent(text), "p.toml")
    run_once(pipeline, spark, checkpoint)  # it begins at the end, and has nothing to read
    before = files(checkpoint)
    assert before
    with Admin(bootstrap_servers=moldau.bootstrap) as admin:
        committed = admin.list_group_offsets(f"{topic}-readers")
    wanted = Range(START + DAY, START + 2 * DAY)
    for times in range(2):
        reports: list[Progress] = []
        ranged = narrowed(prepared(pipeline, wanted), wanted)
        run_pipeline(ranged, spark, reports.append)
        # Of both ends, too: every window is complete, and there are no others.
        assert rows(database, QUERY) == expected(24, 48)
        assert sum(one.rows for one in reports) == (0 if times else 24 * 60)
    assert files(checkpoint) == before
    with Admin(bootstrap_servers=moldau.bootstrap) as admin:
        assert admin.list_group_offsets(f"{topic}-readers") == committed
    assert (Path(checkpoint) / "backfill-20260102-20260103" / "backfill.json").exists()


@pytest.mark.timeout(1200)
def test_a_range_goes_on_after_a_kill(
    moldau: Target, topics: NewTopicFactory, tmp_path: Path, checkpoint: str
) -> None:
    topic, database = topics(partitions=2), tmp_path / "d.db"
    fill(moldau.bootstrap, topic, days=2)
    text = FILE.format(
        topic=topic, bootstrap=moldau.bootstrap, database=database, checkpoint=checkpoint, most=200
    )
    (tmp_path / "p.toml").write_text(dedent(text))
    command = [sys.executable, "-m", "moldau.cli", "pipeline", "run", "p.toml", "--json",
               "--from", "2026-01-01T12:00:00Z", "--until", "2026-01-02T00:00:00Z"]  # fmt: skip
    environment = {**os.environ, "JDK_JAVA_OPTIONS": JAVA_OPTIONS}
    read = 0
    for killed in (True, False):
        child = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        assert child.stdout is not None
        assert child.stderr is not None
        with child:
            for line in child.stdout:
                read += json.loads(line)["rows"]
                if killed:
                    os.killpg(child.pid, signal.SIGKILL)
                    break
            said = child.stderr.read().decode()
        if not killed:
            assert child.returncode == 0, said
            assert "sink counted: rows replace those with the same window_start, partition" in said
    # A batch that was under way may have been read twice.
    assert 12 * 60 <= read <= 12 * 60 + 400
    assert rows(database, QUERY) == expected(12, 24)


def test_files_have_a_column_of_time(spark: SparkSession, tmp_path: Path, checkpoint: str) -> None:
    (tmp_path / "archive").mkdir()
    lines = [{"id": day, "at": f"2026-01-0{day}T00:00:00Z"} for day in range(1, 6)]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (tmp_path / "archive" / "rows.json").write_text(text)
    file = f"""
        name = "files"
        [spark]
        checkpoint = "{checkpoint}"
        [[sources]]
        name = "archive"
        files = "{tmp_path}/archive"
        format = "json"
        schema = "id BIGINT, at TIMESTAMP"
        time = "at"
        [[sinks]]
        from = "archive"
        database = "sqlite:///{tmp_path}/d.db"
        table = "archive"
    """
    pipeline = parse_pipeline(dedent(file), "p.toml")
    wanted = Range(START + DAY, START + 3 * DAY)
    for _ in range(2):
        run_pipeline(narrowed(prepared(pipeline, wanted), wanted), spark)
        assert sorted(rows(tmp_path / "d.db", "SELECT id FROM archive")) == [(2,), (3,)]
    assert list(notes(pipeline)) == ["sink archive: rows are added to those that are there"]
    text = dedent(file)
    wrong = parse_pipeline(text.replace('time = "at"\n', ""), "p.toml")
    with pytest.raises(PipelineError, match=r"p.toml:5: source archive needs time for a backfill"):
        prepared(wrong, wanted)


@pytest.mark.parametrize(
    ("source", "sink", "why"),
    [
        ('delta = "table"', "", "p.toml:5: source more would be read from its beginning"),
        (
            'files = "f"\nstreaming = false',
            'output_mode = "complete"',
            "p.toml:14: sink out: output",
        ),
    ],
)
def test_what_a_backfill_would_double_or_lose_is_refused(source: str, sink: str, why: str) -> None:
    text = f"""\
name = "p"
[[sources]]
name = "records"
topic = "t"
[[sources]]
name = "more"
{source}
[[sinks]]
name = "out"
from = "records"
database = "sqlite:///d.db"
table = "out"
{sink}
"""
    with pytest.raises(PipelineError) as refused:
        prepared(parse_pipeline(text, "p.toml"), Range(START, START + DAY))
    assert why in str(refused.value)


def test_folders_are_named_by_the_range() -> None:
    assert Range(START, START + DAY).folder == "backfill-20260101-20260102"
    assert Range(START + 1, START + 1000).folder == (
        "backfill-20260101T000000.001Z-20260101T000001Z"
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--from", "2026-01-01"], "give --from and --until"),
        (["--from", "2026-01-02", "--until", "2026-01-01"], "is not after"),
        (["--from", "x", "--until", "2026-01-01"], "is not a point in time"),
    ],
)
def test_ranges_that_are_none(
    given: list[str], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    from moldau.cli import main

    assert main(["pipeline", "run", "mirror", *given]) == 2
    assert sentence in capfd.readouterr().err
