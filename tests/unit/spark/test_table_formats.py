"""Delta Lake and Apache Iceberg: what a session needs, and which PySpark, before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.cli.main import main
from moldau.spark.pipeline import table_formats
from moldau.spark.pipeline.checkpoint import QUERIES_FILE, KnownQuery, format_queries
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.preflight import tables
from moldau.spark.pipeline.preflight.tables import check_folders, check_release
from moldau.spark.pipeline.problems import PipelineError
from moldau.spark.pipeline.spec import FormatSource, LakeSink, LakeSource, Pipeline
from moldau.spark.pipeline.table_formats import DELTA, FORMATS, ICEBERG, session_config

FILE = """\
name = "lake"
[[sources]]
name = "events"
delta = "lake/events"

[[sinks]]
from = "events"
iceberg = "lake.sales.orders"
warehouse = "warehouse"
keys = ["id"]
"""


def parsed(text: str = FILE) -> Pipeline:
    return parse_pipeline(text, "lake.toml")


@pytest.fixture
def spark_release(monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(version: str) -> None:
        for module in (table_formats, tables):
            monkeypatch.setattr(module, "pyspark_version", lambda: version)

    return install


def test_a_session_gets_jars_extensions_and_catalogs() -> None:
    config = session_config(parsed(), "4.1")
    assert config.pop("spark.databricks.delta.snapshotPartitions") == "2"
    assert config == {
        "spark.jars.packages": f"io.delta:delta-spark_4.1_2.13:{DELTA},"
        f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{ICEBERG}",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": "warehouse",
        "spark.sql.catalog.lake.cache-enabled": "false",
    }


@pytest.mark.parametrize(
    ("given", "packages"),
    [
        ({"spark.jars.packages": "a:b:1"}, "a:b:1,DELTA"),
        ({"spark.jars.packages": "io.delta:delta-spark_4.3_2.13:5.0.0"}, None),
        ({"spark.jars": "/jars/delta-spark_4.1_2.13-4.4.0.jar"}, None),
        ({"spark.driver.extraClassPath": "/jars/delta-spark_4.1_2.13-4.4.0.jar"}, None),
    ],
)
def test_jars_that_are_named_are_taken(
    given: dict[str, str], packages: str | None, spark_release: Any
) -> None:
    lines = "\n".join(f'"{name}" = "{value}"' for name, value in given.items())
    sink = FILE.partition("[[sinks]]")[0] + '[[sinks]]\nfrom = "events"\nconsole = true\n'
    pipeline = parsed(f"{sink}[spark.config]\n{lines}\n")
    expected = (packages or given.get("spark.jars.packages", "")).replace(
        "DELTA", f"io.delta:delta-spark_4.1_2.13:{DELTA}"
    )
    assert session_config(pipeline, "4.1").get("spark.jars.packages", "") == expected
    # Who brings jars of his own knows which Spark they are for.
    spark_release("4.3.0")
    assert bool(check_release(pipeline).problems) == (packages is not None)


def test_which_pyspark_a_format_needs_is_told_with_the_line(spark_release: Any) -> None:
    spark_release("4.3.0")
    found = check_release(parsed()).problems
    assert [one.line for one in found] == [4, 8]
    assert found[0].message == (
        f"Delta Lake {DELTA} is for Spark 4.1 and 4.2, and PySpark 4.3.0 is installed: pip install "
        "'pyspark==4.2.*'; or, if there is a later one by now, name it in [spark] config, such as "
        '"spark.jars.packages" = "io.delta:delta-spark_4.3_2.13:VERSION"'
    )
    assert f"Apache Iceberg {ICEBERG} is for Spark 4.1, and" in found[1].message
    spark_release("4.2.1")
    assert [one.line for one in check_release(parsed()).problems] == [8]
    spark_release("4.1.4")
    assert not check_release(parsed()).problems


def test_changes_of_tables_need_a_newer_pyspark(
    spark_release: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = FILE.partition("[[sinks]]")[0].partition("[[sources]]")[0]
    text += """[[sources]]
name = "rows"
changes = "t"
database = "postgresql://127.0.0.1:1/d"
[[sinks]]
from = "rows"
console = true
"""
    place = tmp_path / "feed.toml"
    place.write_text(text)
    line = text.split("\n").index('changes = "t"') + 1
    spark_release("4.1.4")
    [problem] = check_release(parsed(text)).problems
    assert problem.line == line
    assert problem.message == (
        "source rows: changes need PySpark 4.2 or later, as older ones do not say how far a query "
        "is, and 4.1.4 is installed: pip install 'pyspark>=4.2'"
    )
    told = f"feed.toml:{line}: source rows: changes need PySpark 4.2"
    assert main(["pipeline", "validate", str(place)]) == 0  # it may run elsewhere
    assert told in capsys.readouterr().err
    assert main(["pipeline", "validate", "--connect", str(place)]) == 1
    assert told in capsys.readouterr().err
    spark_release("4.2.0")
    assert not check_release(parsed(text)).problems


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('warehouse = "warehouse"\n', "", "8: there is no catalog lake: add warehouse"),
        ("[[sinks]]", '[spark.config]\n"spark.sql.catalog.lake" = "x"\n[[sinks]]',
         "11: catalog lake is declared twice"),
        ("[[sinks]]", '[[sources]]\nname = "o"\niceberg = "lake.a.b"\nwarehouse = "w"\n[[sinks]]',
         "13: catalog lake has two warehouses, w and warehouse: keep one"),
    ],
)  # fmt: skip
def test_catalogs_are_declared_once(old: str, new: str, problem: str, spark_release: Any) -> None:
    spark_release("4.1.4")
    [found] = check_release(parsed(FILE.replace(old, new))).problems
    assert f"{found.line}: {found.message}".startswith(problem)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"lake.sales.orders"', '"orders"', "8: iceberg of [[sinks]] is 'orders': write catalog."),
        ('delta = "lake/events"', 'iceberg = "events"', "4: iceberg of [[sources]] events is"),
        ('keys = ["id"]', 'output_mode = "update"', "10: [[sinks]] with output_mode update needs"),
        ('keys = ["id"]', 'key = ["id"]', "10: [[sinks]] has no key key: did you mean keys?"),
        ('iceberg = "lake.sales.orders"\nwarehouse = "warehouse"\nkeys = ["id"]',
         'format = "orc"\noutput_mode = "complete"', "9: format takes output_mode append"),
        ('delta = "lake/events"', 'delta = "x"\nformat = "y"', "5: [[sources]] events has both"),
    ],
)  # fmt: skip
def test_mistakes_are_told(old: str, new: str, problem: str) -> None:
    assert old in FILE
    with pytest.raises(PipelineError) as caught:
        parsed(FILE.replace(old, new))
    assert f"lake.toml:{problem}" in str(caught.value)


def test_sources_and_sinks_of_tables_and_formats() -> None:
    pipeline = parsed(
        FILE
        + """
        partition_by = ["days(at)"]
        schema_evolution = true
        compact = true
        [[sources]]
        name = "rates"
        format = "rate-micro-batch"
        options = { rowsPerBatch = 5 }
        [[sources]]
        name = "xml"
        format = "xml"
        schema = "a INT"
        streaming = false
        options = { path = "x" }
        """
    )
    events, rates, xml = pipeline.sources
    assert (rates, xml) == (
        FormatSource("rates", "rate-micro-batch", None, {"rowsPerBatch": "5"}),
        FormatSource("xml", "xml", "a INT", {"path": "x"}, streaming=False),
    )
    assert events == LakeSource("events", "delta", "lake/events")
    assert pipeline.sinks == (
        LakeSink("events", "events", "iceberg", "lake.sales.orders", ("id",), ("days(at)",), True,
                 True, warehouse="warehouse"),
    )  # fmt: skip


def test_folders_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = FILE.partition("[[sinks]]")[0] + '[[sinks]]\nfrom = "events"\nparquet = "rows"\n'
    assert not check_folders(parsed(text)).notes
    (tmp_path / "rows" / "day=1").mkdir(parents=True)
    (tmp_path / "rows" / "day=1" / "x.parquet").touch()
    [note] = check_folders(parsed(text)).notes
    assert note.startswith("Folder rows has files already, and sink events begins anew")
    checkpoint = tmp_path / "checkpoints" / "lake"
    (checkpoint / "events").mkdir(parents=True)
    assert not check_folders(parsed(text)).notes
    (checkpoint / "events").rename(checkpoint / "events+others")
    assert check_folders(parsed(text)).notes
    shared = {"events+others": KnownQuery(("events", "others"), ("events",))}
    (checkpoint / QUERIES_FILE).write_text(format_queries(shared))
    assert not check_folders(parsed(text)).notes
    (tmp_path / "rows" / "_spark_metadata").mkdir()
    [problem] = check_folders(parsed(text)).problems
    assert problem.line == 8
    assert problem.message.startswith("rows was written by Spark's own file sink")


def test_the_guide_names_the_versions() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "pipelines-reference.md").read_text()
    for kind in FORMATS.values():
        assert f"| {kind.title} | {kind.version} | {', '.join(kind.releases)} |" in guide
