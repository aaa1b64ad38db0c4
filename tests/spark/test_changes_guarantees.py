"""What streams of changes promise when PostgreSQL, its tables and its slots are not as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.table_changes import (
    EVERYTHING,
    Database,
    database,
    following,
    read,
    rows_until,
    server,
    stream_of,
    to_folder,
    to_topic,
    url,
)
from tests.support.postgres import Postgres
from tests.support.waiting import eventually

from moldau.spark.changes.connection import connect
from moldau.spark.changes.options import ChangesError, DatabaseAwayError, changes_options
from moldau.spark.changes.pgoutput import lsn_number
from moldau.spark.changes.source import ChangesDataSource
from moldau.spark.decode.registry import RegistryError, check_registry
from moldau.spark.options import OptionError
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.preflight.everything import preflight
from moldau.spark.pipeline.problems import PipelineError

__all__ = ["database", "server", "url"]

PLAIN = "CREATE TABLE t (id INT PRIMARY KEY, n INT)"


def operations(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["_op"], row["id"], row["n"]) for row in rows]


def test_a_slot_moves_only_behind_batches_that_are_done(
    spark: SparkSession, url: str, database: Database, checkpoint: str
) -> None:
    database.execute(PLAIN)
    spark.dataSource.register(ChangesDataSource)
    places: list[tuple[int, list[int]]] = []
    written: dict[int, list[Any]] = {}
    fails = {2}

    def take(frame: DataFrame, number: int) -> None:
        rows = [(row["_lsn"], row["id"]) for row in frame.collect()]
        found = database.execute(
            "SELECT confirmed_flush_lsn::text FROM pg_replication_slots "
            "WHERE database = current_database()"
        ).fetchone()
        assert found is not None
        places.append((lsn_number(found[0]), [lsn for lsn, _ in rows]))
        assert written.setdefault(number, rows) == rows
        if number in fails:
            fails.remove(number)
            raise RuntimeError("the sink is away")

    def run() -> None:
        options = {"url": url, "dbtable": "t", "snapshot": "false", "maxRowsPerTrigger": "1"}
        frame = spark.readStream.format("moldau_changes").options(**options).load()
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    for number in range(4):
        database.execute("INSERT INTO t VALUES (%s, 0)", (number,))
    with pytest.raises(Exception, match="the sink is away"):
        run()
    run()
    changed = [rows for _, rows in sorted(written.items()) if rows]
    assert [[number for _, number in rows] for rows in changed] == [[0], [1], [2], [3]]
    assert len(places) == len(written) + 1
    for confirmed, lsns in places:
        assert all(confirmed <= lsn for lsn in lsns)
    assert places[-1][0] > changed[1][0][0]  # and it does move


def test_a_slot_that_was_given_up_is_told(spark: SparkSession, tmp_path: Path) -> None:
    sizes = {"max_wal_size": "32MB", "min_wal_size": "32MB", "max_slot_wal_keep_size": "1MB"}
    with Postgres(wal_level="logical", **sizes) as small:
        address = small.url("kept")
        with psycopg.connect(address.replace("+psycopg", ""), autocommit=True) as database:
            database.execute(PLAIN)
            stream = stream_of(spark, address, "t", slot="moldau_rows")
            start = following(stream, stream.initialOffset())
            database.execute("CREATE TABLE other (x TEXT)")

            def is_lost() -> bool:
                for _ in range(4):
                    database.execute("INSERT INTO other SELECT repeat('x', 500000)")
                    database.execute("SELECT pg_switch_wal()")
                database.execute("CHECKPOINT")
                found = database.execute("SELECT wal_status FROM pg_replication_slots").fetchone()
                return found == ("lost",)

            eventually(is_lost, timeout=60)
            with pytest.raises(ChangesError) as told:
                stream.latestOffset(start, EVERYTHING)
            stream.stop()
        slot = start["slot"]
        assert f"PostgreSQL has given up slot {slot} (max_slot_wal_keep_size)" in str(told.value)
        assert f"SELECT pg_drop_replication_slot('{slot}')" in str(told.value)
        assert "remove the pipeline's checkpoint" in str(told.value)
        offsets = tmp_path / "c" / "out" / "offsets"
        offsets.mkdir(parents=True)
        (offsets / "0").write_text(f'v1\n{{}}\n{{"table": "x", "slot": "{slot}", "lsn": "0/1"}}')
        pipeline = parse_pipeline(to_folder(address, tmp_path), "feed.toml")
        [problem] = preflight(pipeline, 20.0).problems
        assert f"has given up slot {slot}" in problem.message


def test_a_server_that_restarts_loses_nothing(
    spark: SparkSession, server: Postgres, url: str
) -> None:
    address = url.replace("+psycopg", "")
    with psycopg.connect(address, autocommit=True) as database:
        database.execute(PLAIN)
        stream = stream_of(spark, url, "t", poll="1ms")
        start = following(stream, stream.initialOffset())
        database.execute("INSERT INTO t VALUES (1, 1)")
        rows, start = rows_until(stream, start, 1)
        stream.commit(start)
        database.execute("INSERT INTO t VALUES (2, 2)")
    server.restart()
    with pytest.raises(DatabaseAwayError, match="option url: "):
        stream.latestOffset(start, EVERYTHING)
    with psycopg.connect(address, autocommit=True) as database:
        database.execute("INSERT INTO t VALUES (3, 3)")
    more, _ = rows_until(stream, start, 2)
    stream.stop()
    assert operations(rows + more) == [("c", 1, 1), ("c", 2, 2), ("c", 3, 3)]


def test_a_table_that_is_not_published_is_told(
    spark: SparkSession, url: str, database: Database, tmp_path: Path
) -> None:
    """Without a look before Spark starts, too: there would be silence for ever."""
    database.execute(PLAIN + "; CREATE TABLE other (id INT PRIMARY KEY)")
    database.execute("CREATE PUBLICATION theirs FOR TABLE other")
    database.execute("CREATE PUBLICATION inserts FOR TABLE t WITH (publish = 'insert')")
    for name, message in {
        "theirs": 'publication theirs does not have the table: ALTER PUBLICATION "theirs" ADD',
        "inserts": "publication inserts leaves out update and delete and truncate",
    }.items():
        stream = stream_of(spark, url, "t", publication=name)
        with pytest.raises(ChangesError, match=f"option publication: {message}"):
            stream.latestOffset(stream.initialOffset(), EVERYTHING)
    slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    assert database.execute(slots).fetchone() == (0,)
    # One with the slot's name is the pipeline's own, of a table that it read before.
    database.execute("CREATE PUBLICATION moldau_rows FOR TABLE other")
    pipeline = parse_pipeline(to_folder(url, tmp_path), "feed.toml")
    assert preflight(pipeline, 20.0).problems == []
    stream = stream_of(spark, url, "t", slot="moldau_rows", poll="1ms")
    start = following(stream, stream.initialOffset())
    database.execute("INSERT INTO t VALUES (1, 1)")
    rows, start = rows_until(stream, start, 1)
    assert operations(rows) == [("c", 1, 1)]
    # It is taken out while the pipeline runs.
    database.execute("ALTER PUBLICATION moldau_rows DROP TABLE t")
    database.execute("INSERT INTO t VALUES (2, 2)")
    with pytest.raises(ChangesError, match="does not have the table, changes since then are lost"):
        stream.latestOffset(start, EVERYTHING)
    database.execute("DROP PUBLICATION moldau_rows")
    with pytest.raises(ChangesError, match="publication moldau_rows is not there any more"):
        stream.latestOffset(start, EVERYTHING)
    # A new one by that name does not help: the log is read with the catalog of its time.
    database.execute("INSERT INTO t VALUES (3, 3)")
    database.execute("CREATE PUBLICATION moldau_rows FOR TABLE t")
    with pytest.raises(ChangesError, match=r"option publication: .* does not exist"):
        rows_until(stream, start, 1)
    stream.stop()


def test_replica_identities(spark: SparkSession, url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL UNIQUE, x TEXT)")
    stream = stream_of(spark, url, "t", poll="1ms")
    start = following(stream, stream.initialOffset())
    befores = []
    for identity in ("DEFAULT", "USING INDEX t_n_key", "FULL"):
        database.execute(f"ALTER TABLE t REPLICA IDENTITY {identity}".encode())
        database.execute("INSERT INTO t VALUES (1, 2, 'a')")
        database.execute("UPDATE t SET x = 'b'")
        database.execute("DELETE FROM t")
        rows, start = rows_until(stream, start, 3)
        assert [row["_op"] for row in rows] == ["c", "u", "d"]
        befores.append(rows[2]["_before"])
    assert befores == [
        {"id": 1, "n": None, "x": None},
        {"id": None, "n": 2, "x": None},
        {"id": 1, "n": 2, "x": "b"},
    ]
    # PostgreSQL itself refuses what the log could not tell.
    database.execute("INSERT INTO t VALUES (1, 2, 'a')")
    database.execute("ALTER TABLE t REPLICA IDENTITY NOTHING")
    with pytest.raises(psycopg.Error, match="does not have a replica identity"):
        database.execute("DELETE FROM t")
    stream.stop()


def test_a_table_without_an_identity_is_not_published(
    spark: SparkSession, url: str, database: Database
) -> None:
    database.execute("CREATE TABLE t (id INT)")
    database.execute("INSERT INTO t VALUES (1)")
    stream = stream_of(spark, url, "t")
    with pytest.raises(ChangesError, match='"t" has no replica identity'):
        stream.latestOffset(stream.initialOffset(), EVERYTHING)
    stream.stop()
    database.execute("UPDATE t SET id = 2")  # which whoever writes to it must be able to


def test_a_table_that_is_altered(spark: SparkSession, url: str, database: Database) -> None:
    database.execute(PLAIN)
    stream = stream_of(spark, url, "t", poll="1ms")
    start = following(stream, stream.initialOffset())
    database.execute("INSERT INTO t VALUES (1, 1)")
    database.execute("ALTER TABLE t ADD COLUMN more TEXT DEFAULT 'd'")
    database.execute("INSERT INTO t VALUES (2, 2, 'x')")
    database.execute("ALTER TABLE t ALTER n TYPE BIGINT")
    database.execute("UPDATE t SET n = n + 10 WHERE id = 1")
    rows, end = rows_until(stream, start, 3)
    assert operations(rows) == [("c", 1, 1), ("c", 2, 2), ("u", 1, 11)]
    again = stream_of(spark, url, "t", poll="1ms")
    found = [(row["id"], row["n"], row["more"]) for row in read(again, start, end)]
    assert found == [(1, 1, None), (2, 2, "x"), (1, 11, "d")]
    database.execute("ALTER TABLE t DROP COLUMN n")
    database.execute("UPDATE t SET more = 'y' WHERE id = 2")
    rows, _ = rows_until(again, end, 1)
    assert [(row["id"], row["n"], row["more"]) for row in rows] == [(2, None, "y")]
    for one in (stream, again):
        one.stop()


def test_a_large_transaction_is_one_batch(
    spark: SparkSession, url: str, database: Database
) -> None:
    database.execute(PLAIN)
    stream = stream_of(spark, url, "t", poll="1ms", maxRowsPerTrigger="1000")
    start = following(stream, stream.initialOffset())
    database.execute("INSERT INTO t SELECT n, n FROM generate_series(1, 100000) n")
    database.execute("INSERT INTO t VALUES (0, 0)")
    end = following(stream, start)
    rows = read(stream, start, end)
    assert [row["id"] for row in rows] == list(range(1, 100001))
    assert [row["_sequence"] for row in rows] == list(range(100000))
    assert len({row["_lsn"] for row in rows}) == 1
    assert operations(rows_until(stream, end, 1)[0]) == [("c", 0, 0)]
    stream.stop()


def test_odd_names(spark: SparkSession, url: str, database: Database) -> None:
    schema, table = '"Sch.ema ""ä"" %s"', '"ta""b.le \'`x`"'
    columns = '"I d" INT PRIMARY KEY, "a`b" TEXT, "ü.""%s" TEXT, "select" INT, "_" BOOLEAN'
    database.execute(f"CREATE SCHEMA {schema}".encode())
    name = f"{schema}.{table}"
    database.execute(f"CREATE TABLE {name} ({columns})".encode())
    database.execute(f"INSERT INTO {name} VALUES (1, 'a', 'b', 2, true)".encode())
    stream = stream_of(spark, url, name, publication='Pub "x" %s', poll="1ms")
    begin = stream.initialOffset()
    start = following(stream, begin)
    rows = read(stream, begin, start)
    database.execute(f"UPDATE {name} SET \"a`b\" = 'c'".encode())
    more, _ = rows_until(stream, start, 1)
    stream.stop()
    values = [
        [row[column] for column in ("_op", "I d", "a`b", 'ü."%s', "select", "_")]
        for row in rows + more
    ]
    assert values == [["r", 1, "a", "b", 2, True], ["u", 1, "c", "b", 2, True]]
    by_column = {"mode": "column", "column": "I d", "lag": "1ms", "poll": "1ms"}
    stream = stream_of(spark, url, name, **by_column)
    rows, _ = rows_until(stream, stream.initialOffset(), 1)
    stream.stop()
    assert [row["a`b"] for row in rows] == ["c"]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP(0)", "DATE", "TIMESTAMPTZ"])
def test_times_without_a_zone_are_the_servers(
    spark: SparkSession, url: str, database: Database, zone: str, kind: str
) -> None:
    """Fourteen hours before UTC and twelve behind it: what is now there is neither to come nor
    over.
    """
    database.execute(f"ALTER DATABASE {database.info.dbname} SET TimeZone = '{zone}'".encode())
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as writer:
        writer.execute(f"CREATE TABLE t (id INT PRIMARY KEY, at {kind})".encode())
        day = "INTERVAL '2 days'" if kind == "DATE" else "INTERVAL '1 hour'"
        writer.execute(f"INSERT INTO t VALUES (1, now() - {day}), (2, now())".encode())
        writer.execute(f"INSERT INTO t VALUES (3, now() + {day})".encode())
    options = {"mode": "column", "column": "at", "lag": "1ms", "poll": "1ms"}
    stream = stream_of(spark, url, "t", **options)
    rows, end = rows_until(stream, stream.initialOffset(), 2)
    assert [row["id"] for row in rows] == [1, 2]
    stream.stop()
    now = stream_of(spark, url, "t", **options)
    now.prepareForTriggerAvailableNow()
    assert now.latestOffset(end, EVERYTHING) == end
    now.stop()


@pytest.mark.parametrize(
    "secret", ["qq%zz", "qq/zz", "qq@zz", "qq zz", "qq@zz:qq", "qq?zz@qq", "q/qq@zz", "qq%25zz"]
)
@pytest.mark.parametrize("source", ["changes", "table"])
def test_no_part_of_a_password_is_told(
    tmp_path: Path, secret: str, source: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The last one is as it should be: nobody answers."""
    address = f"postgresql+psycopg://u:{secret}@127.0.0.1:1/d"
    text = to_folder(address, tmp_path).replace("changes =", f"{source} =")
    notes: list[str] = []
    try:
        found = preflight(parse_pipeline(text, "feed.toml"), 5.0)
        problems, notes = found.problems, found.notes
    except PipelineError as error:
        problems = list(error.problems)
    assert [one.line for one in problems] == [5]
    _without_secrets(problems[0].message, *notes, caplog.text)


@pytest.mark.parametrize("rest", ["d?password=qq%zz", "d?password=qq&zz", "d?password=qq&zz=1"])
def test_no_part_of_a_password_is_told_by_libpq(rest: str) -> None:
    with pytest.raises((OptionError, ChangesError)) as told:
        connect(changes_options({"url": f"postgresql://u@127.0.0.1:1/{rest}", "dbtable": "t"}).url)
    assert told.value.__cause__ is None
    _without_secrets(str(told.value))


@pytest.mark.parametrize("address", ["http://u:qq/zz@h", "u:qqzz@h", "http://u:qq@zz@h"])
def test_no_part_of_a_registrys_password_is_told(address: str) -> None:
    with pytest.raises(RegistryError) as told:
        check_registry(address, 1.0)
    _without_secrets(str(told.value))


def test_a_list_of_addresses_is_not_shown() -> None:
    text = to_topic("DATABASE").replace("changes =", "table =")
    text = text.replace('"DATABASE"', '["postgresql://u:qqzz@h/d"]')
    with pytest.raises(PipelineError) as told:
        parse_pipeline(text, "feed.toml")
    _without_secrets(str(told.value))


def _without_secrets(*told: str) -> None:
    for one in told:
        assert "qq" not in one, one
        assert "zz" not in one, one
