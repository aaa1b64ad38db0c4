"""Checkpoints that are not files of this machine, on a file system of Hadoop's."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession
from tests.spark.hadoop_files import session_on
from tests.spark.pipelines import rows, run_once

from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.stores import store_of


def test_a_file_is_replaced_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    session, home = session_on(spark, tmp_path / "user")
    store = store_of("checkpoints/p", session)
    assert store.read("queries.json") is None
    store.write("queries.json", "old")
    with (home / "checkpoints" / "p" / "queries.json").open() as before:
        store.write("queries.json", "new")
        assert before.read() == "old"  # whoever reads it meanwhile
    assert store.read("queries.json") == "new"
    assert store.has("queries.json")
    assert not store.has(".queries.json")


def test_a_path_of_this_machine_is_read_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    store_of(f"file:{tmp_path}/p", spark).write("queries.json", "{}")
    assert [file.name for file in (tmp_path / "p").iterdir()] == ["queries.json"]


def test_queries_are_remembered_where_spark_has_the_checkpoint(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink that is added reads from the beginning, and the others nothing again."""
    monkeypatch.chdir(tmp_path)
    session, home = session_on(spark, tmp_path / "user")
    (tmp_path / "in").mkdir()
    text = dedent(f"""
        name = "p"
        [[sources]]
        name = "s"
        files = "file:{tmp_path}/in"
        format = "json"
        schema = "n INT"
        streaming = true
    """) + "".join(
        f'[[sinks]]\nname = "{name}"\nfrom = "s"\ndatabase = "sqlite:///{tmp_path}/d.db"\n'
        f'table = "{name}"\n'
        for name in "ab"
    )
    (tmp_path / "in" / "1.json").write_text('{"n": 1}\n', "utf-8")
    run_once(parse_pipeline(text, "p.toml"), session, "checkpoints/p")
    known = json.loads((home / "checkpoints" / "p" / "queries.json").read_text("utf-8"))
    assert list(known) == ["a+b"]
    (tmp_path / "in" / "2.json").write_text('{"n": 2}\n', "utf-8")
    added = text + text[text.index("[[sinks]]") :].partition('[[sinks]]\nname = "b"')[0].replace(
        '"a"', '"c"'
    )
    run_once(parse_pipeline(added, "p.toml"), session, "checkpoints/p")
    for table in "abc":
        assert sorted(rows(tmp_path / "d.db", f"SELECT n FROM {table}")) == [(1,), (2,)]
