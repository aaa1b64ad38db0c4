"""The ready-made pipelines, each run as it is on small data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from tests.client.conftest import NewTopicFactory
from tests.spark.pipelines import MINUTE, START, rows, run_once
from tests.spark.records import committed_rows, consume, produce
from tests.support.target import Target

from moldau.mailalert.alert import Alert, Severity, decode_alert
from moldau.spark.pipeline.load import load_pipeline

HOUR = 60 * MINUTE


def test_rollup_counts_per_key_and_minute(
    moldau: Target,
    topics: NewTopicFactory,
    spark: SparkSession,
    tmp_path: Path,
    checkpoint: str,
) -> None:
    topic, to, database = topics(), topics(), tmp_path / "r.db"
    records = [
        {"key": b"ab"[number % 2 :][:1], "value": str(number).encode(),
         "timestamp": START + number * 1000}
        for number in range(120)
    ]  # fmt: skip
    # An hour later nobody waits for the first minutes any more.
    records.append({"key": b"a", "value": b"1", "timestamp": START + HOUR})
    produce(moldau.bootstrap, topic, records)
    given = {"bootstrap": moldau.bootstrap, "topic": topic, "to": to,
             "database": f"sqlite:///{database}"}  # fmt: skip
    run_once(load_pipeline("rollup", given), spark, checkpoint)
    names = "window_start, key, count, per_second, average, minimum, maximum, p50, p95, p99"
    expected = [
        ("2026-01-01 00:00:00.000000", "a", 30, 0.5, 29.0, 0.0, 58.0, 28.0, 56.0, 58.0),
        ("2026-01-01 00:00:00.000000", "b", 30, 0.5, 30.0, 1.0, 59.0, 29.0, 57.0, 59.0),
        ("2026-01-01 00:01:00.000000", "a", 30, 0.5, 89.0, 60.0, 118.0, 88.0, 116.0, 118.0),
        ("2026-01-01 00:01:00.000000", "b", 30, 0.5, 90.0, 61.0, 119.0, 89.0, 117.0, 119.0),
    ]
    query = f"SELECT {names} FROM rollup ORDER BY window_start, key"
    assert rows(database, query) == expected
    found = consume(moldau.bootstrap, to, 1)
    assert sorted((row.key or b"", json.loads(row.value or b"")["p99"]) for row in found) == [
        (b"a", 58.0), (b"a", 118.0), (b"b", 59.0), (b"b", 119.0)
    ]  # fmt: skip


def test_alerts_become_digests_that_are_alerts(
    moldau: Target,
    topics: NewTopicFactory,
    spark: SparkSession,
    tmp_path: Path,
    checkpoint: str,
) -> None:
    topic, to, database = topics(), topics(), tmp_path / "a.db"
    disk = Alert("disk full", "/data", ("ops@example.org",), Severity.WARNING, time_ms=START)
    values = [
        disk.encode(),
        Alert("disk full", "/logs", ("ops@example.org",), time_ms=START + 1000).encode(),
        Alert("disk full", "/data", time_ms=START + 2000).encode(),
        b'{"subject": "login", "dedupe_key": "d", "time": "2026-01-01T00:01:00Z"}',
        b'{"subject": "login", "dedupe_key": "d", "time": "2026-01-01T00:02:00Z"}',
        b'{"subject": " "}',
        b"no JSON",
        Alert("tick", time_ms=START + HOUR).encode(),
    ]
    produce(moldau.bootstrap, topic, [{"value": value} for value in values[:-1]])
    produce(moldau.bootstrap, topic, [{"value": values[-1]}])
    given = {"bootstrap": moldau.bootstrap, "topic": topic, "to": to,
             "database": f"sqlite:///{database}"}  # fmt: skip
    pipeline = load_pipeline("alerts", given)
    run_once(pipeline, spark, checkpoint)
    # Later than the watermark: left out.
    produce(moldau.bootstrap, topic, [{"value": disk.encode()}])
    reports = run_once(pipeline, spark, checkpoint)
    assert sum(one.late_rows for one in reports) == 2  # once for each sink
    digests = [decode_alert(row.value, 0) for row in consume(moldau.bootstrap, to, 1)]
    end = START + 5 * MINUTE
    expected = [
        Alert("disk full", "/data", (), Severity.ERROR, "disk full@2026-01-01T00:00:00", end),
        Alert("disk full (2 alerts)", "/data\n/logs", ("ops@example.org",), Severity.ERROR,
              "disk full@2026-01-01T00:00:00", end),
        Alert("login", "", (), Severity.ERROR, "login@2026-01-01T00:00:00", end),
    ]  # fmt: skip
    assert sorted(digests, key=lambda alert: alert.subject) == expected
    query = "SELECT subject, recipients, count, severity FROM alert_digests"
    assert sorted(rows(database, query)) == [
        ("disk full", "", 1, "error"),
        ("disk full", "ops@example.org", 2, "error"),
        ("login", "", 1, "error"),
    ]


def test_an_archive_is_replayed_with_its_timestamps(
    moldau: Target,
    topics: NewTopicFactory,
    spark: SparkSession,
    tmp_path: Path,
    checkpoint: str,
) -> None:
    topic, to = topics(partitions=2), topics()
    records: list[dict[str, Any]] = [
        {"key": b"%d" % number, "value": None if number == 7 else b"%d" % number,
         "timestamp": START + number * 6 * HOUR, "headers": [("n", b"%d" % number)]}
        for number in range(10)
    ]  # fmt: skip
    produce(moldau.bootstrap, topic, records)
    directory = tmp_path / "archive"
    given = {"bootstrap": moldau.bootstrap, "topics": topic, "directory": str(directory)}
    run_once(load_pipeline("archive", given), spark, checkpoint)
    assert sorted(file.parent.name for file in directory.rglob("*.parquet")) == [
        "day=2026-01-01", "day=2026-01-02", "day=2026-01-03"
    ]  # fmt: skip
    given = {"bootstrap": moldau.bootstrap, "directory": str(directory), "topic": topic,
             "to": to, "rate": "50", "until": "2026-01-03 00:30:00"}  # fmt: skip
    reports = run_once(load_pipeline("replay", given), spark, checkpoint)
    assert [(one.sink, one.batch, one.rows) for one in reports] == [("records", 0, 9)]
    found = consume(moldau.bootstrap, to, 1)
    assert [(row.key, row.value, row.timestamp, row.headers) for row in found] == [
        (one["key"], one["value"], one["timestamp"], tuple(one["headers"])) for one in records[:9]
    ]


def test_a_mirror_has_every_record_once(
    moldau: Target,
    topics: NewTopicFactory,
    kafka: Target,
    spark: SparkSession,
    checkpoint: str,
) -> None:
    topic = topics(partitions=2)
    copied = NewTopic(topic, 2, 1, config={"retention.ms": "-1"})
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([copied])[topic].result(60)
    given = {"source": moldau.bootstrap, "target": kafka.bootstrap, "topics": topic}
    pipeline = load_pipeline("mirror", given)
    for part in range(2):
        records = [
            {"key": b"k", "value": b"%d-%d" % (part, number), "partition": number % 2,
             "timestamp": START + number, "headers": [("n", b"%d" % number)]}
            for number in range(20)
        ]  # fmt: skip
        produce(moldau.bootstrap, topic, records)
        run_once(pipeline, spark, checkpoint)
    original = consume(moldau.bootstrap, topic, 2)
    copy = committed_rows(kafka.bootstrap, topic, 2, len(original))
    # Markers of transactions take offsets of their own.
    assert [row._replace(offset=0) for row in copy] == [row._replace(offset=0) for row in original]
