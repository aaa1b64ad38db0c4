"""Compacted Parquet files: columns and values are those of the small ones, for every reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from moldau.spark.pipeline.sinks.batch import Batch
from moldau.spark.pipeline.sinks.compaction import compact
from moldau.spark.pipeline.sinks.files import LocalFiles
from moldau.spark.pipeline.sinks.parquet import write_batch
from moldau.spark.pipeline.spec import ParquetSink

COLUMNS = {
    "b": "IF(id % 2 = 0, NULL, true)",
    "i8": "CAST(IF(id % 2 = 0, NULL, id) AS TINYINT)",
    "i16": "CAST(id AS SMALLINT)",
    "i32": "CAST(id AS INT)",
    "i64": "id",
    "f": "CAST('-Infinity' AS FLOAT)",
    "d": "CAST('NaN' AS DOUBLE)",
    "d9": "CAST(id * 1.25 AS DECIMAL(9, 2))",
    "d18": "CAST(IF(id % 2 = 0, NULL, 1.25) AS DECIMAL(18, 4))",
    "d38": "CAST('12345678901234567890.0123456789' AS DECIMAL(38, 10))",
    "repeated": "IF(id % 2 = 0, NULL, concat('x', id % 3))",
    "nothing": "CAST(NULL AS STRING)",
    "bytes": "X'00ff'",
    "day": "DATE'1500-01-01'",
    "at": "IF(id % 2 = 0, NULL, TIMESTAMP'2026-10-25 01:02:03.123456 UTC')",
    "long_ago": "TIMESTAMP'1600-01-01 00:00:00 UTC'",
    "far_away": "TIMESTAMP'9999-12-31 00:00:00 UTC'",
    "months": "INTERVAL '1-2' YEAR TO MONTH",
    "seconds": "INTERVAL '1 02:03:04' DAY TO SECOND",
    "numbers": "array(1, NULL, 3)",
    "empty": "CAST(array() AS ARRAY<INT>)",
    "structs": "array(named_struct('at', TIMESTAMP'9998-01-01 00:00:00 UTC', 'n', id))",
    "maps": "map('k', array(map(1, 1.5BD)), 'l', NULL)",
    "nested": "named_struct('x', named_struct('y', array('z')), 'n', CAST(NULL AS INT))",
    "missing": "CAST(NULL AS STRUCT<a: INT>)",
}
WRITER = Batch("query", 0).writer("rows")
WALL_CLOCK = {"here": "TIMESTAMP_NTZ'9999-01-01 01:02:03.123456'"}


class Seen(NamedTuple):
    """What each reader makes of a folder: columns, then rows as text."""

    spark: tuple[str, list[str]]
    pyarrow: tuple[str, list[str]]
    duckdb: tuple[str, list[str]]


def see(spark: SparkSession, files: LocalFiles) -> Seen:
    frame = spark.read.parquet(files.place)
    table = pq.read_table(files.directory)
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        found = database.execute(f"SELECT * FROM '{files.directory}/*.parquet'")
        kinds = [(column[0], str(column[1])) for column in found.description or ()]
        rows = [list(row) for row in found.fetchall()]
    texts = frame.selectExpr(*(f"CAST({name} AS STRING)" for name in frame.columns)).collect()
    return Seen(
        (frame.schema.simpleString(), sorted(map(str, texts))),
        (table.schema.to_string(show_schema_metadata=False), _lines(table.to_pylist())),
        (str(kinds), _lines(rows)),
    )


def _lines(rows: list[Any]) -> list[str]:
    return sorted(map(str, rows))


def write(
    spark: SparkSession, directory: Path, columns: dict[str, str], batches: int = 3
) -> LocalFiles:
    sink = ParquetSink("rows", "rows", str(directory))
    expressions = ", ".join(f"{text} AS {name}" for name, text in columns.items())
    for number in range(batches):
        frame = spark.sql(f"SELECT {expressions} FROM range({number}, {number + 3}, 1, 1)")
        write_batch(sink, frame, Batch("query", number))
    return LocalFiles(directory)


@pytest.fixture
def int96(spark: SparkSession) -> Iterator[None]:
    """Spark's own default, and what folders have from before."""
    name = "spark.sql.parquet.outputTimestampType"
    before = str(spark.conf.get(name))
    spark.conf.set(name, "INT96")
    yield
    spark.conf.set(name, before)


def test_all_types_are_the_same_in_a_compacted_file(spark: SparkSession, tmp_path: Path) -> None:
    files = write(spark, tmp_path / "rows", {**COLUMNS, **WALL_CLOCK})
    before = see(spark, files)
    assert compact(files, WRITER, 9, many=2) == 1
    assert see(spark, files) == before
    assert "at: timestamp[us, tz=UTC]" in before.pyarrow[0]
    assert "here: timestamp[us]" in before.pyarrow[0]
    assert "('at', 'TIMESTAMP WITH TIME ZONE')" in before.duckdb[0]
    assert "9999-12-31 00:00:00" in before.spark[1][0]


@pytest.mark.usefixtures("int96")
def test_times_as_int96_are_the_same_in_a_compacted_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Arrow itself reads them as nanoseconds, which do not reach that far.
    far = ("long_ago", "far_away", "structs")
    near = {name: text for name, text in COLUMNS.items() if name not in far}
    near["times"] = "array(named_struct('at', TIMESTAMP'2200-01-01 00:00:00 UTC'))"
    files = write(spark, tmp_path / "rows", near)
    before = see(spark, files)
    assert compact(files, WRITER, 9, many=2) == 1
    assert see(spark, files) == before
    files = write(spark, tmp_path / "far", {name: COLUMNS[name] for name in ("i64", *far)})
    before = see(spark, files)
    assert compact(files, WRITER, 9, many=2) == 1
    after = see(spark, files)
    assert (after.spark, after.duckdb) == (before.spark, before.duckdb)


@pytest.mark.usefixtures("int96")
def test_what_arrow_cannot_write_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    """Times of both kinds in one file; and a type of groups, which it forgets."""
    for name, columns in {
        "mixed": {"at": COLUMNS["at"], **WALL_CLOCK},
        "variant": {"i64": "id", "v": "parse_json(concat('{\"a\": [', id, ', null]}'))"},
    }.items():
        files = write(spark, tmp_path / name, columns)
        assert compact(files, WRITER, 9, many=2) == 0
        assert len(list(files.directory.iterdir())) == 3
