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
from pyspark.sql import DataFrame, SparkSession
from tests.unit.mailalert.conftest import postgres

from moldau.spark.pipeline.database import read_query
from moldau.spark.pipeline.sinks import database, database_rows
from moldau.spark.pipeline.sinks.batch import Batch, SinkError
from moldau.spark.pipeline.sinks.database import write_batch
from moldau.spark.pipeline.spec import TableSink

__all__ = ["postgres"]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/d.db"
    found: str = request.getfixturevalue("postgres").url(f"p{uuid.uuid4().hex[:12]}")
    return found


@pytest.fixture
def query() -> str:
    """An id that no other test has: what a process has begun is remembered."""
    return uuid.uuid4().hex


def table(url: str, name: str) -> list[tuple[Any, ...]]:
    return sorted(read_query(url, f"SELECT * FROM {name}")[1])


def tables(url: str) -> set[str]:
    engine = sa.create_engine(url)
    try:
        return set(sa.inspect(engine).get_table_names())
    finally:
        engine.dispose()


def execute(url: str, *statements: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))
    engine.dispose()


def pairs(spark: SparkSession, *rows: tuple[str, int]) -> DataFrame:
    return spark.createDataFrame(rows, "k STRING, n INT").coalesce(1)


def test_batches_are_written_once_and_rows_replaced_by_key(
    url: str, spark: SparkSession, query: str
) -> None:
    first = pairs(spark, ("a", 1), ("b", 2), ("a", 3))
    second = spark.createDataFrame([("b", 4), ("c", 5)], "k STRING, n INT")
    sink = TableSink("s", "in", url, "plain")
    for number, frame in ((0, first), (0, first), (1, second), (1, second), (0, first)):
        write_batch(sink, frame, Batch(query, number))
    assert table(url, "plain") == [("a", 1), ("a", 3), ("b", 2), ("b", 4), ("c", 5)]
    # Another query has other batches: a checkpoint that was removed begins anew.
    write_batch(sink, second, Batch(f"{query}-2", 0))
    assert len(table(url, "plain")) == 7
    # And so has another sink of the same query.
    keyed = TableSink("keyed", "in", url, "keyed", keys=("k",))
    for number, frame in ((0, first), (1, second), (1, second)):
        write_batch(keyed, frame, Batch(query, number))
    assert table(url, "keyed") == [("a", 3), ("b", 4), ("c", 5)]
    whole = TableSink("s", "in", url, "plain", output_mode="complete")
    write_batch(whole, second, Batch(query, 4))
    assert table(url, "plain") == [("b", 4), ("c", 5)]
    assert write_batch(sink, second, None) == 2
    assert tables(url) == {"plain", "keyed", "moldau_batches"}


@pytest.mark.parametrize("unique", [True, False])
def test_keys_of_a_table_that_is_there(
    url: str, spark: SparkSession, query: str, unique: bool
) -> None:
    """With an index the rows are updated, and what the sink does not write is left alone."""
    key = "PRIMARY KEY" * unique
    execute(
        url,
        f"CREATE TABLE kept (k VARCHAR(9) {key}, n INT, note VARCHAR(9))",
        "INSERT INTO kept VALUES ('a', 1, 'mine'), ('z', 9, 'mine')",
    )
    sink = TableSink("s", "in", url, "kept", keys=("k",))
    write_batch(sink, pairs(spark, ("a", 2), ("b", 3), ("a", 4)), Batch(query, 0))
    note = "mine" if unique else None
    assert table(url, "kept") == [("a", 4, note), ("b", 3, None), ("z", 9, "mine")]


def test_a_batch_that_fails_leaves_nothing(url: str, spark: SparkSession, query: str) -> None:
    frame = spark.range(0, 5, 1, 2).selectExpr("id", "assert_true(id < 4) AS x")
    sink = TableSink("s", "in", url, "failing")
    with pytest.raises(Exception, match="is not true"):
        write_batch(sink, frame, Batch(query, 0))
    assert not {name for name in tables(url) if "staging" in name}
    write_batch(sink, spark.range(1).selectExpr("id", "'' AS x"), Batch(query, 0))
    assert table(url, "failing") == [(0, "")]


def test_types(url: str, spark: SparkSession) -> None:
    frame = spark.sql("""
        SELECT 1L AS i, 1.5D AS d, true AS b, 'ü' AS s, X'00ff' AS bin, DATE'2026-01-02' AS day,
               TIMESTAMP'2026-10-25 00:30:00.000123Z' AS at, CAST('1.25' AS DECIMAL(9, 2)) AS dec,
               array(1, 2) AS list, named_struct('x', 1) AS struct, CAST(NULL AS TIMESTAMP) AS none
    """)
    write_batch(TableSink("s", "in", url, "types"), frame, None)
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


@pytest.fixture
def server(postgres: Any) -> str:
    found: str = postgres.url(f"p{uuid.uuid4().hex[:12]}")
    return found


def test_executors_write_side_by_side(server: str, spark: SparkSession, query: str) -> None:
    """Each row knows the connection that it came over: triggers see what the server sees."""
    execute(
        server,
        "CREATE TABLE writers (pid INT, application VARCHAR(200))",
        """CREATE FUNCTION note() RETURNS trigger AS $$ BEGIN
           INSERT INTO writers VALUES (pg_backend_pid(), TG_TABLE_NAME); RETURN NULL; END $$
           LANGUAGE plpgsql""",
        """CREATE FUNCTION watch() RETURNS event_trigger AS $$
           DECLARE made record; BEGIN
           FOR made IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP
             IF made.object_identity LIKE '%moldau_staging_%' AND made.object_type = 'table' THEN
               EXECUTE 'CREATE TRIGGER noted AFTER INSERT ON ' || made.object_identity
                    || ' FOR EACH STATEMENT EXECUTE FUNCTION note()';
             END IF;
           END LOOP; END $$ LANGUAGE plpgsql""",
        """CREATE EVENT TRIGGER watching ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
           EXECUTE FUNCTION watch()""",
    )
    sink = TableSink("s", "in", server, "many", keys=("id",))
    rows = spark.range(0, 5000, 1, 4).selectExpr("id", "named_struct('n', id) AS more")
    assert write_batch(sink, rows, Batch(query, 0)) == 5000
    assert read_query(server, "SELECT count(*), sum(id) FROM many")[1] == [(5000, 12497500)]
    [(connections,)] = read_query(server, "SELECT count(DISTINCT pid) FROM writers")[1]
    assert connections == 4  # one for each task, and none of the driver's


def test_staging_tables_of_crashed_runs_are_removed(
    server: str, spark: SparkSession, query: str
) -> None:
    batch = Batch(query, 0)
    mine, other = batch.writer("s"), Batch("other", 0).writer("s")
    execute(
        server,
        f"CREATE TABLE moldau_staging_{mine}_00000000 (n INT)",
        f"CREATE TABLE moldau_staging_{other}_00000000 (n INT)",
    )
    write_batch(TableSink("s", "in", server, "t"), spark.range(1), batch)
    assert tables(server) == {"t", "moldau_batches", f"moldau_staging_{other}_00000000"}


def test_attempts_that_do_not_count_are_left(
    server: str, spark: SparkSession, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task whose success was not heard of runs again: its rows are there twice, and count once.

    And rows that a server has lost are missed.
    """
    original = database_rows.fill_from_executors

    def twice(url: str, staging: sa.Table, frame: DataFrame) -> dict[int, int]:
        original(url, staging, frame)
        return original(url, staging, frame)

    sink = TableSink("s", "in", server, "t")
    monkeypatch.setattr(database, "fill_from_executors", twice)
    assert write_batch(sink, spark.range(10), Batch(query, 0)) == 10
    assert len(table(server, "t")) == 10

    def losing(url: str, staging: sa.Table, frame: DataFrame) -> dict[int, int]:
        found = original(url, staging, frame)
        execute(url, f"DELETE FROM {staging.name} WHERE id = 3")
        return found

    monkeypatch.setattr(database, "fill_from_executors", losing)
    with pytest.raises(SinkError, match=r"has 9 of 10 rows .* The batch was not written"):
        write_batch(sink, spark.range(10), Batch(query, 1))
    assert len(table(server, "t")) == 10


def test_texts_become_what_the_table_has(server: str, spark: SparkSession, query: str) -> None:
    execute(server, "CREATE TABLE docs (id UUID, doc JSONB, name VARCHAR(3))")
    sink = TableSink("s", "in", server, "docs")
    rows = "SELECT '7f8d0c1e-9f0b-4f0e-8a51-0d8f2a4f1c11' AS id, named_struct('x', 1) AS doc, "
    write_batch(sink, spark.sql(f"{rows} 'abc' AS name"), Batch(query, 0))
    assert read_query(server, "SELECT doc->>'x', name FROM docs")[1] == [("1", "abc")]
    with pytest.raises(sa.exc.DataError, match="too long"):  # and not cut off
        write_batch(sink, spark.sql(f"{rows} 'abcd' AS name"), Batch(query, 1))
