"""Tables are asked for as the pipeline itself will ask for them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.preflight import databases
from moldau.spark.pipeline.preflight.databases import check_database, shown_url
from moldau.spark.pipeline.preflight.found import Findings
from moldau.spark.pipeline.spec import TableSink, TableSource

SOURCE = """\
name = "copy"

[[sources]]
name = "people"
table = '''TABLE'''
database = "sqlite:///people.db"

[[sinks]]
from = "people"
console = true
"""
SINK = """\
name = "copy"

[[sources]]
name = "records"
topic = "events"

[[sinks]]
from = "records"
table = "people"
database = "sqlite:///people.db"
"""


@pytest.fixture(autouse=True)
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    connection = sqlite3.connect("people.db")
    connection.execute("CREATE TABLE people (id INT, name TEXT, born DATE NOT NULL)")
    connection.execute("CREATE VIEW adults AS SELECT * FROM people")
    connection.close()


def read(table: str) -> list[str]:
    pipeline = parse_pipeline(SOURCE.replace("TABLE", table), "copy.toml")
    (source,) = pipeline.sources
    assert isinstance(source, TableSource)
    found = check_database(pipeline, source, {}, 5)
    assert all(one.line == 5 for one in found.problems)
    return [one.message for one in found.problems]


def write(*columns: str) -> Findings:
    pipeline = parse_pipeline(SINK, "copy.toml")
    (sink,) = pipeline.sinks
    assert isinstance(sink, TableSink)
    return check_database(pipeline, sink, {"records": columns}, 5)


@pytest.mark.parametrize(
    "table",
    [
        *("people", "PEOPLE", '"people"', "`People`", "[people]", "main.people"),
        *('"main"."people"', "adults", "people WHERE id > 3", "people LIMIT 3"),
        "people p JOIN adults a USING (id)",
    ],
)
def test_what_the_database_reads_is_not_refused(table: str) -> None:
    assert read(table) == []


@pytest.mark.parametrize(
    ("table", "said"),
    [("peple", "has no table peple: did you mean people?"), ("side.people", "cannot be read: no ")],
)
def test_what_it_does_not_read_is(table: str, said: str) -> None:
    (message,) = read(table)
    assert said in message


def test_a_value_that_is_not_written_may_be_filled_in_by_a_trigger() -> None:
    found = write("id", "Name")
    assert not found.problems
    (note,) = found.notes
    assert "column born" in note
    assert not write("id", "born").notes
    (problem,) = write("id", "born", "nam").problems
    assert problem.message.endswith("did you mean name?")


@pytest.mark.parametrize(
    ("url", "limited"),
    [
        ("postgresql+psycopg://h/d", True),
        ("postgresql+psycopg2://h/d", True),
        ("mysql+pymysql://h/d", True),
        ("mysql+mysqldb://h/d", True),
        ("postgresql+pg8000://h/d", False),
        ("postgresql+asyncpg://h/d", False),
        ("mysql+mysqlconnector://h/d", False),
        ("postgresql+psycopg://h/d?connect_timeout=60", False),
        ("sqlite:///d", False),
    ],
)
def test_only_drivers_that_know_a_time_limit_get_one(url: str, limited: bool) -> None:
    expected = {"connect_timeout": 5} if limited else {}
    assert databases._limits(sa.make_url(url), 5.0) == expected


def test_an_address_is_shown_without_secrets() -> None:
    shown = shown_url(sa.make_url("postgresql://me:secret@h:5/d?password=secret&sslpassword=x"))
    assert shown == "postgresql://me:***@h:5/d"
