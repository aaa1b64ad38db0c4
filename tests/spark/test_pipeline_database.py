"""Rows of batches in a database: each batch once, whatever comes again."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession
from tests.unit.mailalert.conftest import postgres

from moldau.spark.pipeline.database import read_query, write_batch
from moldau.spark.pipeline.spec import TableSink

__all__ = ["postgres"]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/d.db"
    found: str = request.getfixturevalue("postgres").url(f"p{uuid.uuid4().hex[:12]}")
    return found


def table(url: str, name: str) -> list[tuple[Any, ...]]:
    return sorted(read_query(url, f"SELECT * FROM {name}")[1])


def test_batches_are_written_once_and_rows_replaced_by_key(url: str, spark: SparkSession) -> None:
    first = spark.createDataFrame([("a", 1), ("b", 2), ("a", 3)], "k STRING, n INT").coalesce(1)
    second = spark.createDataFrame([("b", 4), ("c", 5)], "k STRING, n INT")
    sink = TableSink("s", "in", url, "plain")
    for batch, frame in ((0, first), (0, first), (1, second), (1, second), (0, first)):
        write_batch(sink, frame, "query", batch)
    assert table(url, "plain") == [("a", 1), ("a", 3), ("b", 2), ("b", 4), ("c", 5)]
    # Another query has other batches: a checkpoint that was removed begins anew.
    write_batch(sink, second, "other", 0)
    assert len(table(url, "plain")) == 7
    keyed = TableSink("s", "in", url, "keyed", keys=("k",))
    for batch, frame in ((2, first), (3, second)):
        write_batch(keyed, frame, "query", batch)
    assert table(url, "keyed") == [("a", 3), ("b", 4), ("c", 5)]
    whole = TableSink("s", "in", url, "plain", output_mode="complete")
    write_batch(whole, second, "query", 4)
    assert table(url, "plain") == [("b", 4), ("c", 5)]


def test_a_batch_that_fails_leaves_nothing(url: str, spark: SparkSession) -> None:
    frame = spark.range(5).selectExpr("id", "assert_true(id < 4) AS x").coalesce(1)
    sink = TableSink("s", "in", url, "failing")
    with pytest.raises(Exception, match="is not true"):
        write_batch(sink, frame, "failing", 0)
    write_batch(sink, spark.range(1).selectExpr("id", "'' AS x"), "failing", 0)
    assert table(url, "failing") == [(0, "")]


def test_types(url: str, spark: SparkSession) -> None:
    frame = spark.sql("""
        SELECT 1L AS i, 1.5D AS d, true AS b, 'ü' AS s, X'00ff' AS bin, DATE'2026-01-02' AS day,
               TIMESTAMP'2026-10-25 00:30:00.000123Z' AS at, CAST('1.25' AS DECIMAL(9, 2)) AS dec,
               array(1, 2) AS list, named_struct('x', 1) AS struct, CAST(NULL AS TIMESTAMP) AS none
    """)
    write_batch(TableSink("s", "in", url, "types"), frame, None, 0)
    engine = sa.create_engine(url)
    found = sa.Table("types", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        [row] = connection.execute(sa.select(found)).all()
    engine.dispose()
    assert tuple(row[:6]) == (1, 1.5, True, "ü", b"\x00\xff", date(2026, 1, 2))
    at = row.at if row.at.tzinfo else row.at.replace(tzinfo=UTC)
    assert at == datetime(2026, 10, 25, 0, 30, 0, 123, tzinfo=UTC)
    assert row.dec == Decimal("1.25")
    assert (json.loads(row.list), json.loads(row.struct), row.none) == ([1, 2], {"x": 1}, None)
