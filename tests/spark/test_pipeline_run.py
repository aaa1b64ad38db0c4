"""Pipelines at work: sources, steps and sinks on small data, in the session of all tests."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.client.conftest import NewTopicFactory
from tests.spark.pipelines import START, rows, run_once
from tests.spark.records import produce
from tests.support.target import Target

from moldau.client.admin import Admin
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.run import PipelineFailedError, Run
from moldau.spark.pipeline.spec import Pipeline


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Callable[..., list[Progress]]:
    """Runs a pipeline until there is nothing more to read; what it reported."""

    def run_it(text: str) -> list[Progress]:
        pipeline = parse_pipeline(dedent(text), str(tmp_path / "p.toml"))
        return run_once(pipeline, spark, str(tmp_path / "checkpoint"))

    return run_it


def test_steps_of_every_kind(
    moldau: Target, topics: NewTopicFactory, run: Any, tmp_path: Path
) -> None:
    """Twice: the second run goes on where the first one ended."""
    clicks, users = topics(partitions=2), topics()
    database = tmp_path / "d.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE cities (city TEXT, country TEXT)")
        connection.execute("INSERT INTO cities VALUES ('Praha', 'CZ'), ('Wien', 'AT')")
    connection.close()
    (tmp_path / "more.py").write_text(
        "def shout(frame, suffix):\n"
        "    return frame.selectExpr('*', f\"concat(upper(city), '{suffix}') AS loud\")\n"
    )
    file = f'''
        name = "all"
        [[sources]]
        name = "clicks"
        topic = "{clicks}"
        bootstrap_servers = "{moldau.bootstrap}"
        starting_offsets = "earliest"
        value_format = "json"
        value_schema = "id BIGINT, user STRING"
        [[sources]]
        name = "users"
        topic = "{users}"
        bootstrap_servers = "{moldau.bootstrap}"
        starting_offsets = "earliest"
        value_format = "string"
        [[sources]]
        name = "cities"
        database = "sqlite:///{database}"
        table = "cities"
        [[steps]]
        name = "visits"
        sql = "SELECT value.id AS id, value.user AS user, timestamp AS time FROM clicks"
        [[steps]]
        name = "people"
        sql = "SELECT CAST(key AS STRING) AS user, value AS city, timestamp AS time FROM users"
        [[steps]]
        name = "once"
        deduplicate = {{ from = "visits", keys = ["id"], time = "time", watermark = "1m" }}
        [[steps]]
        name = "known"
        join = {{ left = "once", right = "people", on = ["user"], within = "1h", watermark = "1m", left_time = "time", right_time = "time" }}
        [[steps]]
        name = "placed"
        join = {{ left = "known", right = "cities", on = ["city"], how = "left" }}
        [[steps]]
        name = "loud"
        python = "more.py:shout"
        from = "placed"
        arguments = {{ suffix = "!" }}
        [[sinks]]
        from = "visits"
        parquet = "{tmp_path}/visits"
        [[sinks]]
        from = "loud"
        database = "sqlite:///{database}"
        table = "loud"
    '''  # noqa: E501

    def click(*numbers: int) -> None:
        produce(moldau.bootstrap, clicks, [
            {"value": json.dumps({"id": number, "user": f"u{number % 3}"}).encode(),
             "partition": number % 2, "timestamp": START + number}
            for number in numbers
        ])  # fmt: skip

    produce(moldau.bootstrap, users, [
        {"key": b"u0", "value": b"Praha", "timestamp": START},
        {"key": b"u1", "value": b"Linz", "timestamp": START},
    ])  # fmt: skip
    click(*range(6), *range(3))
    reports = run(file)
    click(6, 7, 0)
    reports += run(file)
    # Both sinks have one query, which has read the users as well.
    assert sum(one.rows for one in reports if one.sink == "visits") == 14
    assert {one.lag for one in reports} == {0}
    found = rows(database, "SELECT id, user, city, country, loud FROM loud")
    praha, linz = ("u0", "Praha", "CZ", "PRAHA!"), ("u1", "Linz", None, "LINZ!")
    expected = [(number, *(praha, linz)[number % 3]) for number in
                range(8) if number % 3 < 2]  # fmt: skip
    assert sorted(found) == sorted(expected)
    last = max(one.batch for one in reports if one.sink == "loud")
    assert rows(database, "SELECT batch FROM moldau_batches") == [(last,)]
    spark = SparkSession.active()
    ids = sorted(row.id for row in spark.read.parquet(f"{tmp_path}/visits").collect())
    assert ids == sorted((*range(6), *range(3), 6, 7, 0))


def test_a_failing_query_fails_the_pipeline(
    moldau: Target, topics: NewTopicFactory, run: Any
) -> None:
    topic = topics()
    produce(moldau.bootstrap, topic, [{"value": b"x"}])
    file = f'''
        name = "failing"
        [[sources]]
        name = "s"
        topic = "{topic}"
        bootstrap_servers = "{moldau.bootstrap}"
        starting_offsets = "earliest"
        [[steps]]
        name = "bad"
        sql = "SELECT assert_true(length(value) > 1, 'too short') AS value FROM s"
        [[sinks]]
        from = "bad"
        console = true
    '''
    with pytest.raises(PipelineFailedError, match=r"(?s)sink bad: .*too short"):
        run(file)


def test_a_run_that_was_stopped_goes_on(
    moldau: Target, topics: NewTopicFactory, spark: SparkSession, tmp_path: Path, checkpoint: str
) -> None:
    topic, database = topics(), tmp_path / "d.db"
    file = f'''
        name = "stopped"
        [spark]
        checkpoint = "{checkpoint}"
        [trigger]
        every = "100ms"
        [[sources]]
        name = "s"
        topic = "{topic}"
        bootstrap_servers = "{moldau.bootstrap}"
        starting_offsets = "earliest"
        group_id = "{topic}-readers"
        [[steps]]
        name = "numbers"
        sql = "SELECT CAST(CAST(value AS STRING) AS INT) AS n FROM s"
        [[sinks]]
        from = "numbers"
        database = "sqlite:///{database}"
        table = "numbers"
    '''
    pipeline = parse_pipeline(dedent(file), "p.toml")
    for part in range(2):
        produce(moldau.bootstrap, topic, [{"value": b"%d" % (part * 5 + n)} for n in range(5)])
        reports = run_until(pipeline, spark, rows=5)
        assert sum(one.rows for one in reports) == 5
    assert sorted(rows(database, "SELECT n FROM numbers")) == [(n,) for n in range(10)]
    with Admin(bootstrap_servers=moldau.bootstrap) as admin:
        committed = admin.list_group_offsets(f"{topic}-readers")
    assert {at.partition: found.offset for at, found in committed.items()} == {0: 10}


def test_what_comes_once_it_runs_is_read(
    moldau: Target, topics: NewTopicFactory, spark: SparkSession, tmp_path: Path
) -> None:
    """It begins with the newest records, and says that it runs when it knows where these end."""
    topic, database = topics(), tmp_path / "d.db"
    file = f'''
        name = "newest"
        [spark]
        checkpoint = "{tmp_path}/checkpoint"
        [[sources]]
        name = "s"
        topic = "{topic}"
        bootstrap_servers = "{moldau.bootstrap}"
        starting_offsets = "latest"
        [[steps]]
        name = "values"
        sql = "SELECT CAST(value AS STRING) AS value FROM s"
        [[sinks]]
        from = "values"
        database = "sqlite:///{database}"
        table = "records"
    '''
    produce(moldau.bootstrap, topic, [{"value": b"before"}])

    def report(progress: Progress) -> None:
        if progress.rows:
            running.stop()

    def more() -> None:
        produce(moldau.bootstrap, topic, [{"value": b"after"}])

    running = Run(parse_pipeline(dedent(file), "p.toml"), spark, report)
    running.wait(begun=more)
    assert rows(database, "SELECT value FROM records") == [("after",)]


def run_until(pipeline: Pipeline, spark: SparkSession, rows: int) -> list[Progress]:
    """Stop a pipeline that would go on for ever when it has read so many rows."""
    reports: list[Progress] = []

    def report(progress: Progress) -> None:
        reports.append(progress)
        if sum(one.rows for one in reports) >= rows:
            running.stop()

    running = Run(pipeline, spark, report)
    running.wait()
    return reports
