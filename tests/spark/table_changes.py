"""Tables of PostgreSQL whose changes are read, and streams of them as Spark's planner has them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.support.postgres import Postgres

from moldau.spark.changes.catalog import read_table, schema_of
from moldau.spark.changes.connection import connect
from moldau.spark.changes.options import changes_options
from moldau.spark.changes.stream import ChangeStream, change_stream

EVERYTHING = ReadAllAvailable()
Database = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(wal_level="logical", max_replication_slots="40") as found:
        yield found


@pytest.fixture
def url(server: Postgres) -> str:
    return server.url(f"c{uuid.uuid4().hex[:12]}")


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        yield connection


def to_topic(
    database: str, topic: str = "t", server: str = "h:1", *, table: str = "t", source: str = ""
) -> str:
    """A pipeline of a table's changes. ``source``: more keys of its source, from line 6 on."""
    return f"""\
{_feed(database, table, source)}
topic = "{topic}"
bootstrap_servers = "{server}"
key = "CAST(id AS STRING)"
value = "to_json(struct(*))"
"""


def to_folder(database: str, place: Path, *, table: str = "t", source: str = "") -> str:
    """The same into Parquet files; with its checkpoint in the place, too."""
    return f"""\
{_feed(database, table, source)}
parquet = "{place}/out"
[spark]
checkpoint = "{place}/c"
"""


def _feed(database: str, table: str, source: str) -> str:
    return f"""\
name = "feed"
[[sources]]
name = "rows"
changes = '{table}'
database = "{database}"
{source}
[[sinks]]
from = "rows"
name = "out\""""


def stream_of(spark: SparkSession, url: str, table: str, **options: str) -> ChangeStream:
    """As the planner has it, in this process."""
    checked = changes_options({"url": url, "dbtable": table, **options})
    with connect(checked.url) as connection:
        schema = schema_of(read_table(connection, table), checked)
    return change_stream(checked, spark.createDataFrame([], schema).schema)


def read(stream: ChangeStream, start: Any, end: Any) -> list[dict[str, Any]]:
    return [
        row
        for partition in stream.partitions(start, end)
        for batch in stream.read(partition)
        for row in batch.to_pylist()
    ]


def following(stream: ChangeStream, start: Any) -> Any:
    """Where the next batch ends, however long PostgreSQL takes to have written its log."""
    deadline = time.monotonic() + 60
    while (end := stream.latestOffset(start, EVERYTHING)) == start:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return end


def rows_until(stream: ChangeStream, start: Any, count: int) -> tuple[list[dict[str, Any]], Any]:
    """So many rows after this place, and where they end."""
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        end = following(stream, start)
        rows += read(stream, start, end)
        start = end
    return rows, start
