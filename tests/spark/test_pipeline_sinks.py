"""Batches to folders and other formats: what comes again, and what readers without Spark find."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import duckdb
import pandas as pd
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.pipelines import run_once

from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.sinks import Batch, parquet, parts, write_batch
from moldau.spark.pipeline.sinks.batch import SinkError
from moldau.spark.pipeline.sinks.files import Files, HadoopFiles, LocalFiles, files_of
from moldau.spark.pipeline.spec import FormatSink, ParquetSink


def numbers(spark: SparkSession, begin: int, end: int, tasks: int = 2) -> DataFrame:
    return spark.range(begin, end, 1, tasks).selectExpr("id", "id % 3 AS day")


def readings(folder: Path) -> list[list[int]]:
    """What those see who do not ask Spark."""
    pattern = f"{folder}/**/*.parquet"
    return [
        sorted(ds.dataset(folder, format="parquet").to_table()["id"].to_pylist()),
        sorted(row[0] for row in duckdb.execute(f"SELECT id FROM '{pattern}'").fetchall()),
        sorted(pd.read_parquet(folder)["id"].tolist()),
    ]


@pytest.mark.parametrize("partition_by", [(), ("day",)])
@pytest.mark.parametrize("compact", [False, True])
def test_rows_are_there_once_for_every_reader(
    spark: SparkSession, tmp_path: Path, partition_by: tuple[str, ...], compact: bool
) -> None:
    folder = tmp_path / "rows"
    sink = ParquetSink("files", "in", str(folder), partition_by, compact)
    for number in (0, 1, 1, 0, 2):
        write_batch(sink, numbers(spark, number * 10, number * 10 + 10), Batch("one", number))
    assert readings(folder) == [list(range(30))] * 3
    # A checkpoint that was begun anew has other batches: its rows are added.
    write_batch(sink, numbers(spark, 30, 40), Batch("two", 0))
    # So are those of a frame that is no stream, each time.
    assert write_batch(sink, numbers(spark, 40, 45), None) == 5
    assert write_batch(sink, numbers(spark, 45, 50), None) == 5
    assert readings(folder) == [list(range(50))] * 3
    assert spark.read.parquet(str(folder)).count() == 50
    assert [place.name for place in tmp_path.iterdir()] == ["rows"]
    assert all(file.stat().st_size for file in folder.rglob("*.parquet"))


def test_a_batch_that_runs_again_with_fewer_files_leaves_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = ParquetSink("files", "in", str(tmp_path / "rows"))
    write_batch(sink, numbers(spark, 0, 10, tasks=4), Batch("again", 0))
    write_batch(sink, numbers(spark, 0, 10, tasks=1), Batch("again", 0))
    assert readings(tmp_path / "rows") == [list(range(10))] * 3
    assert len(list((tmp_path / "rows").glob("*.parquet"))) == 1


@pytest.mark.parametrize("kind", [LocalFiles, HadoopFiles])
def test_a_batch_without_rows_leaves_no_file(
    spark: SparkSession, tmp_path: Path, kind: type[Files], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where an attempt before it had some."""
    if kind is HadoopFiles:
        monkeypatch.setattr(parquet, "files_of", HadoopFiles)
    folder = tmp_path / "rows"
    sink = ParquetSink("files", "in", str(folder))
    for number, count in enumerate((0, 5, 0, 5)):
        write_batch(sink, numbers(spark, 0, count), Batch(f"none {kind}", number))
    write_batch(sink, numbers(spark, 0, 0), Batch(f"none {kind}", 3))
    # The first of two tasks has none.
    write_batch(sink, numbers(spark, 0, 5).where("id > 2"), Batch(f"none {kind}", 4))
    tables = [pq.read_metadata(file).num_rows for file in folder.glob("*.parquet")]
    assert sum(tables) == 7
    assert len(tables) == (3 if kind is LocalFiles else 4)


def test_what_never_was_written_is_not_compacted(spark: SparkSession, tmp_path: Path) -> None:
    """There is no table yet, and nothing to make one of."""
    (tmp_path / "in").mkdir()
    text = f'''
        name = "quiet"
        [[sources]]
        name = "s"
        files = "{tmp_path}/in"
        format = "json"
        schema = "n INT"
        [[sinks]]
        from = "s"
        delta = "{tmp_path}/table"
        compact = true
    '''
    run_once(parse_pipeline(dedent(text), "p.toml"), spark, str(tmp_path / "checkpoint"))
    assert not (tmp_path / "table").exists()


def test_another_file_system(spark: SparkSession, tmp_path: Path) -> None:
    """By Hadoop's interface: a view on folders stands for stores that this machine has not."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    configuration = spark._jsc.hadoopConfiguration()
    configuration.set("fs.viewfs.mounttable.store.link./data", place.as_uri())
    path = "viewfs://store/data/lake/rows"
    assert isinstance(files_of(spark, path), HadoopFiles)
    sink = ParquetSink("files", "in", path, ("day",))
    for number in (0, 1, 1, 0):
        write_batch(sink, numbers(spark, number * 10, number * 10 + 10), Batch("viewed", number))
    assert readings(place / "lake" / "rows") == [list(range(20))] * 3
    assert not list(place.glob("lake/.rows.staging/*/*"))


def test_relative_paths_and_links(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    found = files_of(spark, f"{tmp_path}/link/../link")
    assert isinstance(found, LocalFiles)
    assert found.staging == (tmp_path / ".disk.staging").as_uri()


def test_a_folder_of_sparks_own_sink_is_told(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rows" / "_spark_metadata").mkdir(parents=True)
    sink = ParquetSink("files", "in", str(tmp_path / "rows"))
    with pytest.raises(SinkError, match=r"rows was written by Spark's own file sink: .* another"):
        write_batch(sink, numbers(spark, 0, 1), Batch("refused", 0))
    assert not list(tmp_path.rglob("*.parquet"))


def test_any_other_format_is_written_at_least_once(spark: SparkSession, tmp_path: Path) -> None:
    options = {"path": str(tmp_path / "lines"), "compression": "gzip"}
    sink = FormatSink("lines", "in", "json", options, ("day",))
    write_batch(sink, numbers(spark, 0, 6), Batch("formats", 0))
    assert write_batch(sink, numbers(spark, 6, 9), None) == 3
    found = spark.read.json(str(tmp_path / "lines"))
    assert sorted((row.id, row.day) for row in found.collect()) == [(n, n % 3) for n in range(9)]
    assert list(tmp_path.glob("lines/day=1/*.json.gz"))


def test_workers_with_another_folder_of_that_name_are_noticed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they write is on their machines: the driver finds less than was written."""
    original = parts.adopt

    def adopt(files: LocalFiles, writer: str, number: int, **more: Any) -> list[str]:
        first = next(one for one in files.staged(writer) if one.name.endswith(".parquet"))
        Path(files.staging.removeprefix("file://"), first.name).unlink()
        return original(files, writer, number, **more)

    monkeypatch.setattr(parquet, "adopt", adopt)
    monkeypatch.setattr(parquet, "_is_local", lambda files, spark: False)
    sink = ParquetSink("files", "in", str(tmp_path / "rows"))
    with pytest.raises(SinkError, match=r"10 rows were written to .*rows and 5 are there"):
        write_batch(sink, numbers(spark, 0, 10), Batch("apart", 0))
