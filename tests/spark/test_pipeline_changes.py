"""Changes of a table: a topic has all of them, whatever comes again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from tests.client.conftest import NewTopicFactory
from tests.client.reading import values_of
from tests.spark.java_options import JAVA_OPTIONS
from tests.spark.pipelines import run_once
from tests.spark.processes import of_session
from tests.spark.records import consume, wait_for_markers
from tests.spark.table_changes import (
    EVERYTHING,
    Database,
    database,
    following,
    read,
    server,
    stream_of,
    to_folder,
    to_topic,
    url,
)
from tests.support.postgres import Postgres
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau.spark.changes.options import ChangesError, changes_options
from moldau.spark.changes.slots import is_made_for
from moldau.spark.options import OptionError
from moldau.spark.pipeline.blame import place_of
from moldau.spark.pipeline.draw.model import drawing_of
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.preflight.everything import preflight
from moldau.spark.pipeline.problems import PipelineError

SMALL = f"""
[spark]
master = "local[1]"
[spark.config]
"spark.ui.enabled" = false
"spark.driver.memory" = "512m"
"spark.driver.extraJavaOptions" = "{JAVA_OPTIONS}"
"""
RESTART = """
[restart]
policy = "on-failure"
backoff = "100ms"
"""

__all__ = ["database", "server", "url"]


def test_a_topic_gets_what_is_there_and_all_that_changes(
    spark: SparkSession,
    moldau: Target,
    topics: NewTopicFactory,
    url: str,
    database: Database,
    checkpoint: str,
) -> None:
    topic = topics()
    database.execute('CREATE TABLE "Odd Table" (id INT PRIMARY KEY, "The Name" TEXT)')
    database.execute("INSERT INTO \"Odd Table\" VALUES (1, 'a'), (2, 'b')")
    text = to_topic(url, topic, moldau.bootstrap, table='"Odd Table"')
    pipeline = parse_pipeline(text, "feed.toml")
    assert preflight(pipeline, 20.0).problems == []
    run_once(pipeline, spark, checkpoint)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as late:
        late.execute("BEGIN")
        late.execute("INSERT INTO \"Odd Table\" VALUES (3, 'late')")
        database.execute("INSERT INTO \"Odd Table\" VALUES (4, 'd')")
        database.execute('UPDATE "Odd Table" SET "The Name" = \'A\' WHERE id = 1')
        run_once(pipeline, spark, checkpoint)
        late.execute("COMMIT")
    with database.transaction():
        database.execute('UPDATE "Odd Table" SET id = 20 WHERE id = 2')
        database.execute('DELETE FROM "Odd Table" WHERE id = 1')
    run_once(pipeline, spark, checkpoint)
    run_once(pipeline, spark, checkpoint)
    records = consume(moldau.bootstrap, topic, 1)
    values = [json.loads(record.value or b"") for record in records]
    found = [
        (record.key, row["_op"], row.get("The Name"))
        for record, row in zip(records, values, strict=True)
    ]
    assert sorted(found[:2]) == [(b"1", "r", "a"), (b"2", "r", "b")]
    assert found[2:] == [
        (b"4", "c", "d"),
        (b"1", "u", "A"),
        (b"3", "c", "late"),
        (b"2", "d", None),
        (b"20", "c", "b"),
        (b"1", "d", None),
    ]
    assert values[-1]["_before"] == {"id": 1}
    places = [(row["_lsn"], row["_sequence"]) for row in values[2:]]
    assert places == sorted(set(places))
    assert [row["_sequence"] for row in values[-3:]] == [0, 1, 2]
    assert slots(database) == 1


def slots(database: Database) -> int:
    found = database.execute(
        "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    ).fetchone()
    assert found is not None
    return int(found[0])


def test_every_change_is_written_once_over_a_kill_and_a_restart_of_the_server(
    spark: SparkSession,
    kafka: Target,
    kafka_topic: NewTopicFactory,
    server: Postgres,
    url: str,
    tmp_path: Path,
) -> None:
    topic = kafka_topic()
    table = Changing(url)
    text = to_topic(url, topic, kafka.bootstrap, source="max_rows_per_trigger = 20")
    text = text.replace("[[sinks]]", "[[sinks]]\nexactly_once = true")
    (tmp_path / "feed.toml").write_text(text + SMALL + RESTART)
    query = tmp_path / "checkpoints" / "feed" / "out"

    def written() -> list[dict[str, Any]]:
        found = values_of(kafka.bootstrap, topic, isolation="read_committed")
        return [json.loads(value or b"") for value in found]

    def is_at_a_batch() -> bool:
        """That it has planned, and not finished."""
        planned, done = (
            {file.name for file in (query / folder).glob("[0-9]*")}
            for folder in ("offsets", "commits")
        )
        return len(planned - done) == 1

    def change_until(count: int) -> None:
        """So many more changes are written, and a batch is under way; not too far ahead."""
        goal = len(written()) + count
        while len(rows := written()) < goal or not is_at_a_batch():
            assert not ended(), (tmp_path / "log").read_text()
            if rows and table.changed < rows[-1]["id"] + 20:  # there is a slot
                table.change()

    with running(tmp_path) as ended:
        change_until(20)
        server.restart()
        change_until(10)
    table.change()
    run_once(parse_pipeline(text, "feed.toml"), spark, str(query.parent))
    wait_for_markers(kafka.bootstrap, topic, 1)
    first, *rows = written()
    assert (first["_op"], first["id"]) == ("r", 0)
    assert [(row["_op"], row["id"]) for row in rows] == [
        (op, number) for number in range(1, table.changed + 1) for op in "cud"
    ]


class Changing:
    """A table to which something happens all the time, whether its server restarts or not."""

    def __init__(self, url: str) -> None:
        self._url = url.replace("+psycopg", "")
        self.changed = 0
        with psycopg.connect(self._url) as database:
            database.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
            database.execute("INSERT INTO t VALUES (0, 0)")

    def change(self) -> None:
        """A transaction of three changes."""
        self.changed += 1
        with psycopg.connect(self._url) as database:
            database.execute("INSERT INTO t VALUES (%s, 0)", (self.changed,))
            database.execute("UPDATE t SET n = 1 WHERE id = %s", (self.changed,))
            database.execute("DELETE FROM t WHERE id = %s", (self.changed,))


@contextmanager
def running(place: Path) -> Iterator[Callable[[], bool]]:
    """A pipeline in processes of its own, which are all killed in the end; whether it has ended."""
    command = [sys.executable, "-m", "moldau.cli", "pipeline", "run", "feed.toml"]
    with (place / "log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=place, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield lambda: process.poll() is not None
    finally:
        for one in of_session(process.pid):
            os.kill(one.pid, signal.SIGKILL)
        process.wait(60)
    eventually(lambda: not of_session(process.pid), "Spark is still there")


def test_types(spark: SparkSession, url: str, database: Database) -> None:
    database.execute("CREATE TYPE mood AS ENUM ('good', 'bad')")
    database.execute("CREATE DOMAIN amount AS numeric(9, 2)")
    database.execute("""
        CREATE TABLE t (
            id BIGINT PRIMARY KEY, b BOOLEAN, s SMALLINT, r REAL, d DOUBLE PRECISION,
            n NUMERIC(10, 2), free NUMERIC, a amount, day DATE, at TIMESTAMPTZ, here TIMESTAMP,
            j JSONB, bin BYTEA, ints INT[], words TEXT[], grid INT[][], m mood, u UUID, c CHAR(4),
            i INTERVAL, boxes BOX[], moods mood[], bins BYTEA[],
            twice BIGINT GENERATED ALWAYS AS (id * 2) STORED)""")
    names = "b, s, r, d, n, free, a, day, at, here, j, bin, ints, words, grid, m, u, c, i, boxes"
    names += ", moods, bins"
    values = r"""true, -5, 1.5, 'Infinity', 12.30, 1e40, 7.5, '2026-01-02',
        '2026-10-25 02:30:00.000123+02', '2026-01-02 03:04:05.6', '{"x": [1, null]}', '\x00ff',
        '{1,NULL,3}', ARRAY['a,b', 'NULL', NULL, '"q"\', ''], '{{1,2},{3,4}}', 'bad',
        '00000000-0000-0000-0000-000000000001', 'ab', '1 day 2 hours',
        '{(1,1),(0,0);(2,2),(1,1)}', '{bad,NULL}', ARRAY['\x5c22'::bytea]"""

    def insert(number: int) -> None:
        """A full row, and one of what Spark's types do not have."""
        database.execute(f"INSERT INTO t (id, {names}) VALUES ({number}, {values})".encode())
        strange = f"({-number}, 'NaN', 'infinity', '0044-03-15 BC', '-infinity')"
        database.execute(f"INSERT INTO t (id, n, day, at, here) VALUES {strange}".encode())

    insert(1)
    stream = stream_of(spark, url, "t", poll="1ms")
    begin = stream.initialOffset()
    first = following(stream, begin)
    rows = read(stream, begin, first)
    insert(2)
    end = following(stream, first)
    while len(logged := read(stream, first, end)) < 2:
        end = following(stream, end)
    rows += logged
    stream.stop()
    assert [row["id"] for row in rows] == [1, -1, 2, -2]
    kept = [
        {name: value for name, value in row.items() if name[0] != "_" and name != "id"}
        for row in rows
    ]
    assert kept[0] == kept[2]
    assert set(kept[1].values()) == set(kept[3].values()) == {None}
    assert kept[0] == {
        "d": float("inf"),
        "b": True,
        "s": -5,
        "r": 1.5,
        "n": Decimal("12.30"),
        "free": "1" + "0" * 40,
        "a": Decimal("7.50"),
        "day": date(2026, 1, 2),
        "at": datetime(2026, 10, 25, 0, 30, 0, 123, tzinfo=UTC),
        "here": datetime.fromisoformat("2026-01-02 03:04:05.6"),
        "j": '{"x": [1, null]}',
        "bin": b"\x00\xff",
        "ints": [1, None, 3],
        "words": ["a,b", "NULL", None, '"q"\\', ""],
        "grid": "{{1,2},{3,4}}",
        "m": "bad",
        "u": "00000000-0000-0000-0000-000000000001",
        "c": "ab  ",
        "i": "P1DT2H",
        "boxes": "{(1,1),(0,0);(2,2),(1,1)}",
        "moods": ["bad", None],
        "bins": [b'\\"'],
    }


def test_a_batch_that_comes_again_has_the_same_rows(
    spark: SparkSession, url: str, database: Database
) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    stream = stream_of(spark, url, "t", snapshot="false", maxRowsPerTrigger="3")
    begin = stream.initialOffset()
    first = following(stream, begin)
    assert read(stream, begin, first) == []
    for number in range(5):
        with database.transaction():
            database.execute(f"INSERT INTO t VALUES ({number}, 0), ({number + 100}, 0)".encode())
    ends = [first]
    rows: list[list[dict[str, Any]]] = []
    while sum(map(len, rows)) < 10:
        ends.append(following(stream, ends[-1]))
        rows.append(read(stream, ends[-2], ends[-1]))
    assert [len(some) for some in rows] == [2] * 5  # three would tear a transaction apart
    assert [row["id"] for some in rows for row in some] == [0, 100, 1, 101, 2, 102, 3, 103, 4, 104]
    stream.commit(ends[2])
    again = stream_of(spark, url, "t", snapshot="false")
    for number in (2, 3, 4):
        assert read(again, ends[number], ends[number + 1]) == rows[number]
    with pytest.raises(ChangesError, match="changes between them are lost"):
        read(again, ends[0], ends[1])
    stream.stop()
    database.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
        "WHERE database = current_database()"
    )
    with pytest.raises(ChangesError, match="is not there any more"):
        again.latestOffset(ends[-1], EVERYTHING)
    again.stop()


def test_long_values_and_old_rows(spark: SparkSession, url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT, long TEXT)")
    database.execute("ALTER TABLE t ALTER long SET STORAGE EXTERNAL")
    stream = stream_of(spark, url, "t", poll="1ms")
    begin = following(stream, stream.initialOffset())
    database.execute("INSERT INTO t VALUES (1, 1, repeat('x', 9000))")
    database.execute("UPDATE t SET n = 2")
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("UPDATE t SET n = 3")
    database.execute("TRUNCATE t")
    rows: list[dict[str, Any]] = []
    while len(rows) < 4:
        end = following(stream, begin)
        rows += read(stream, begin, end)
        begin = end
    stream.stop()
    assert [(row["_op"], row["n"], row["_unchanged"]) for row in rows] == [
        ("c", 1, None),
        ("u", 2, ["long"]),
        ("u", 3, None),
        ("t", None, None),
    ]
    assert rows[1]["long"] is None
    assert rows[2]["long"] == "x" * 9000
    assert rows[2]["_before"] == {"id": 1, "n": 2, "long": "x" * 9000}


def test_a_slot_moves_on_beside_others_changes(
    spark: SparkSession, url: str, database: Database
) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    database.execute("CREATE TABLE other (x TEXT)")
    stream = stream_of(spark, url, "t", poll="1ms")
    start = following(stream, stream.initialOffset())
    database.execute("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
    assert stream.latestOffset(start, EVERYTHING) == start
    database.execute("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
    end = following(stream, start)
    assert read(stream, start, end) == []
    stream.commit(end)
    assert stream.latestOffset(end, EVERYTHING) == end
    stream.stop()


def test_by_a_column(spark: SparkSession, url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMPTZ(0), n INT)")
    database.execute("""INSERT INTO t VALUES (5, '2026-01-01', 0), (7, '2026-01-01', 0),
        (9, '2026-01-02', 0), (1, NULL, 0), (2, now() + INTERVAL '1 day', 0)""")
    options = {"mode": "column", "column": "at", "poll": "1ms", "maxRowsPerTrigger": "1"}
    stream = stream_of(spark, url, "t", lag="1ms", **options)
    at = stream.initialOffset()
    found = []
    for _ in range(3):
        end = following(stream, at)
        rows = read(stream, at, end)
        assert read(stream, at, end) == rows
        found += [row["id"] for row in rows]
        at = end
    assert found == [5, 7, 9]
    # The same time as the last one, and a greater key.
    database.execute("INSERT INTO t VALUES (10, '2026-01-02', 0)")
    end = following(stream, at)
    assert [row["id"] for row in read(stream, at, end)] == [10]
    # The last row is gone: that is no way back.
    database.execute("DELETE FROM t WHERE id = 10")
    now = stream_of(spark, url, "t", lag="1ms", **options)
    now.prepareForTriggerAvailableNow()
    assert now.latestOffset(end, EVERYTHING) == end
    now.stop()
    stream.stop()


def test_lag_waits_for_transactions_that_commit_late(
    spark: SparkSession, url: str, database: Database
) -> None:
    database.execute("CREATE TABLE t (id SERIAL PRIMARY KEY, n INT)")
    stream = stream_of(spark, url, "t", mode="column", column="id", lag="400ms", poll="1ms")
    with psycopg.connect(url.replace("+psycopg", "")) as late:
        late.execute("INSERT INTO t (n) VALUES (1)")
        database.execute("INSERT INTO t (n) VALUES (2)")
        start = stream.initialOffset()
        assert stream.latestOffset(start, EVERYTHING) == start
        late.commit()
    end = following(stream, start)
    assert [row["n"] for row in read(stream, start, end)] == [1, 2]
    stream.stop()


def test_what_is_there_now_ends(spark: SparkSession, url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (id SERIAL PRIMARY KEY, n INT)")
    database.execute("INSERT INTO t (n) VALUES (1)")
    stream = stream_of(spark, url, "t", mode="column", column="id", lag="1ms")
    stream.prepareForTriggerAvailableNow()
    database.execute("INSERT INTO t (n) VALUES (2)")
    start = stream.initialOffset()
    end = stream.latestOffset(start, EVERYTHING)
    assert [row["n"] for row in read(stream, start, end)] == [1]
    assert stream.latestOffset(end, EVERYTHING) == end
    stream.stop()


def test_checkpoints_of_others_are_refused(
    spark: SparkSession, url: str, database: Database
) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    stream = stream_of(spark, url, "t", mode="column", column="id")
    with pytest.raises(ChangesError, match="the checkpoint is of something else"):
        stream.latestOffset({"events": {"0": 5}}, EVERYTHING)
    with pytest.raises(ChangesError, match=r'of table "public"."o", and this source reads "publ'):
        stream.partitions({"table": '"public"."o"'}, {})
    start = stream.initialOffset()
    with pytest.raises(ChangesError, match="the checkpoint is by n, and this source reads by id"):
        read(stream, start, {**start, "by": ["n"], "at": ["1"]})
    stream.stop()


@pytest.mark.parametrize(
    ("create", "source", "line", "message"),
    [
        ("", "", 4, "there is no table public.t"),
        ("CREATE TABLE t (id INT)", "", 4, "REPLICA IDENTITY FULL"),
        ("CREATE TABLE t (id INT PRIMARY KEY, _op INT)", "", 4, "has a column _op"),
        ("CREATE VIEW t AS SELECT 1 AS id", "", 4, "is no table"),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, k INT)",
            'keys = ["k"]',
            6,
            "does not have column k of old rows",
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY); CREATE PUBLICATION p",
            'publication = "p"',
            6,
            "publication p does not have the table",
        ),
        (
            """CREATE TABLE t (id INT PRIMARY KEY);
            CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert')""",
            'publication = "p"',
            6,
            "publication p leaves out update and delete and truncate",
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, updated INT)",
            'mode = "column"\ncolumn = "update"',
            7,
            "did you mean updated?",
        ),
        ("CREATE TABLE t (updated INT)", 'mode = "column"\ncolumn = "updated"', 7, "keys = "),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, b BYTEA)",
            'mode = "column"\ncolumn = "b"',
            7,
            "grow",
        ),
    ],
)
def test_what_a_table_lacks_is_told_before_spark_starts(
    url: str, database: Database, tmp_path: Path, create: str, source: str, line: int, message: str
) -> None:
    database.execute(create.encode())
    text = to_folder(url, tmp_path, table="public.t", source=source)
    found = preflight(parse_pipeline(text, "feed.toml"), 20.0)
    assert [(one.line, message in one.message) for one in found.problems] == [(line, True)], found


def test_what_a_server_lacks_is_told_before_spark_starts(tmp_path: Path) -> None:
    with Postgres(wal_level="replica") as server:
        url = server.url("plain")
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as database:
            database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
            database.execute("CREATE ROLE reader LOGIN; GRANT SELECT ON t TO reader")
        text = to_folder(re.sub("//.*@", "//reader@", url), tmp_path)
        found = preflight(parse_pipeline(text, "feed.toml"), 20.0)
    told = " ".join(one.message for one in found.problems)
    assert "wal_level of the server is replica" in told
    assert 'ALTER ROLE "reader" REPLICATION' in told
    assert 'CREATE PUBLICATION "moldau_rows" FOR TABLE "public"."t"' in told
    assert {one.line for one in found.problems} == {4, 5}


def test_slots_that_nobody_knows_are_told(
    spark: SparkSession, url: str, database: Database, tmp_path: Path
) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    stream = stream_of(spark, url, "t", slot="moldau_rows")
    slot = following(stream, stream.initialOffset())["slot"]
    stream.stop()
    pipeline = parse_pipeline(to_folder(url, tmp_path), "feed.toml")
    assert any(slot in note for note in preflight(pipeline, 20.0).notes)
    offsets = tmp_path / "c" / "out" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text(f'v1\n{{}}\n{{"table": "x", "slot": "{slot}", "lsn": "0/1"}}')
    assert not any(slot in note for note in preflight(pipeline, 20.0).notes)


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("moldau_rows_0123abcd", True),
        ("moldau_rows_more_0123abcd", False),  # of a source rows_more
        ("moldauxrows_0123abcd", False),
        ("moldau_rows_somebody", False),
    ],
)
def test_slots_are_known_by_their_names(name: str, own: bool) -> None:
    assert is_made_for("moldau_rows", name) is own


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ('mode = "logs"', 6, "mode is 'logs': there is log and column"),
        ('mode = "column"', 2, "mode column needs column"),
        ('column = "id"', 6, "column is for mode column, and the mode is log"),
        ('mode = "column"\nslot = "s"\ncolumn = "id"', 7, "slot is for mode log"),
        ('slot = "A-B"', 6, "names of slots are of a-z"),
        ('poll = "often"', 6, "poll: "),
        ("max_rows_per_trigger = 0", 6, "max_rows_per_trigger is '0'"),
        ('snapshots = "x"', 6, "has no key snapshots: did you mean snapshot?"),
    ],
)
def test_mistakes_are_told_with_their_lines(source: str, line: int, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(to_topic("postgresql://h/d", source=source), "feed.toml")
    [problem] = caught.value.problems
    assert message.lower() in problem.message.lower(), problem
    assert problem.line == line


def test_other_databases_and_batches_are_refused() -> None:
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(to_topic("mysql://h/d") + "[trigger]\nbatch = true", "feed.toml")
    assert [one.line for one in caught.value.problems] == [4, 5]
    assert "read from PostgreSQL only" in str(caught.value)


def test_it_is_drawn_without_its_address() -> None:
    pipeline = parse_pipeline(to_topic("postgresql://u:secret@h/d"), "feed.toml")
    drawn = str(drawing_of(pipeline, {}))
    assert "changes of t (postgresql)" in drawn
    assert "secret" not in drawn


def test_a_failure_names_the_key_of_the_source() -> None:
    pipeline = parse_pipeline(to_topic("postgresql://h/d"), "feed.toml")
    said = "option url: connection refused"
    assert place_of(pipeline, pipeline.sinks[0], said) == (
        "feed.toml:5",
        "database: connection refused",
    )
    other = "Column slot was not found"
    assert place_of(pipeline, pipeline.sinks[0], other) == ("feed.toml:7", other)


def test_an_address_that_is_none_is_not_shown() -> None:
    with pytest.raises(OptionError) as refused:
        changes_options({"url": "host=db password=s3cret", "dbtable": "t"})
    assert "s3cret" not in str(refused.value)
