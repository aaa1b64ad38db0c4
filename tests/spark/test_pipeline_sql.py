"""SQL of pipelines without Spark: mistakes are found with their lines, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType
from tests.support.cli import CommandLine

from moldau.spark.pipeline.load import load_pipeline, ready_made
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.sql.check import Checked, check_sql
from moldau.spark.pipeline.sql.frames import fields
from moldau.spark.pipeline.sql.schemas import read_schema

FILE = '''\
name = "visits"

[[sources]]
name = "visits"
topic = "visits"
value_format = "json"
value_schema = "page STRING, visitor STRUCT<id: BIGINT, name: STRING>, tags ARRAY<STRING>"

[[sources]]
name = "pages"
files = "pages/"
format = "json"
schema = "page STRING, owner STRING"

[[sources]]
name = "anything"
files = "anything/"
streaming = false

[[steps]]
name = "seen"
sql = """
SELECT value.page AS page, value.visitor AS visitor,
       value.tags AS tags, timestamp
FROM visits
"""

[[steps]]
name = "known"
sql = "SELECT * FROM visits"

[[sinks]]
from = "known"
console = true
'''

GOOD = [
    "SELECT page, visitor.id, VISITOR.Name FROM seen",
    "SELECT s.page, s.visitor.id, seen.page FROM seen s, seen",
    "SELECT p.* EXCEPT (owner) FROM pages p JOIN seen USING (page)",
    "SELECT page AS p, upper(p) AS q FROM seen ORDER BY q",
    "SELECT page AS p, count(*) AS n FROM seen GROUP BY p HAVING n > 1 ORDER BY n",
    "SELECT transform(tags, (t, i) -> concat(t, i, page)) AS t FROM seen",
    "SELECT filter(tags, t -> t <> page) FROM seen",
    "SELECT page, tag FROM seen LATERAL VIEW explode(tags) e AS tag",
    "SELECT page, e.tag FROM seen LATERAL VIEW OUTER posexplode(tags) e AS n, tag WHERE n > 1",
    "SELECT page, explode(tags) AS tag FROM seen",
    "WITH a AS (SELECT page AS x FROM seen), b AS (SELECT x AS y FROM a) SELECT y FROM b",
    "WITH a (x) AS (SELECT page FROM seen) SELECT x FROM a",
    "SELECT * FROM (SELECT page x FROM seen) WHERE x = 'a'",
    "SELECT page FROM seen s WHERE EXISTS (SELECT 1 FROM pages p WHERE p.page = s.page)",
    "SELECT page, (SELECT max(owner) FROM pages p WHERE p.page = seen.page) AS o FROM seen",
    "SELECT page FROM seen WHERE page IN (SELECT page FROM pages WHERE owner = 'me')",
    "SELECT page FROM seen UNION ALL SELECT owner FROM pages",
    "SELECT row_number() OVER w FROM seen WINDOW w AS (PARTITION BY page ORDER BY timestamp)",
    "SELECT page, count(*) FILTER (WHERE visitor.id > 1) AS n FROM seen GROUP BY ALL",
    "SELECT window.start, count(*) FROM seen GROUP BY window(timestamp, '1 minute')",
    "SELECT CAST(page AS INT), current_date, current_user, now() FROM seen",
    "SELECT extract(YEAR FROM timestamp), timestampadd(MINUTE, 1, timestamp) FROM seen",
    "SELECT dateadd(DAY, 1, timestamp), date_diff(HOUR, timestamp, timestamp) FROM seen",
    "SELECT page FROM seen WHERE timestamp > TIMESTAMP '2026-01-31' - INTERVAL 5 MINUTES",
    "SELECT DATE '2026-01', TIMESTAMP '2026-01-01T00:00:00Z', TIMESTAMP 'epoch' FROM seen",
    "SELECT id FROM range(3)",
    "SELECT a, b FROM VALUES (1, 2) AS t(a, b)",
    "FROM seen SELECT page",
    "FROM seen |> WHERE page = 'a' |> AGGREGATE count(*) AS n GROUP BY page",
    "SELECT named_struct('a', 1).a, map('k', page)['k'], struct(*).page FROM seen",
    "SELECT stack(2, page, page) AS (x) FROM seen",
    "SELECT `page` FROM `seen`",
    "SELECT _metadata.file_path, owner FROM pages",
    "SELECT * FROM (SELECT page, visitor.id AS n FROM seen) PIVOT (sum(n) FOR page IN ('a' AS x))",
    "SELECT page FROM seen, LATERAL (SELECT seen.page AS again)",
    "SELECT seen.visitor.*, page FROM seen",
    "SELECT CASE WHEN page IS NULL THEN 1 ELSE 2 END AS c, try_cast(page AS DOUBLE) FROM seen",
    "SELECT page, nope FROM anything",
    "TABLE seen",
]  # fmt: skip
"""Spark takes them all (``nope`` is a column of the files)."""

BAD = [
    ("SELECT pag FROM seen", "there is no column pag: did you mean page?"),
    ("SELECT s.pag FROM seen s", "s has no column pag: did you mean page?"),
    ("SELECT visitor.nam FROM seen", "visitor has no field nam: did you mean name?"),
    ("SELECT value.pge FROM visits", "value has no field pge: did you mean page?"),
    ("SELECT page FROM known", "there is no column page"),
    ("SELECT page FROM seen WHERE EXISTS (SELECT 1 FROM pages p WHERE p.pag = seen.page)", "p has"),
    ("SELECT x.b FROM (SELECT page AS a FROM seen) x", "x has no column b"),
    ("WITH a AS (SELECT pgae FROM seen) SELECT 1 AS one FROM a", "there is no column pgae"),
    ("SELECT page FROM seen UNION ALL SELECT ownr FROM pages", "did you mean owner?"),
    ("SELECT page FROM seen JOIN pages ON seen.page = pages.pag", "pages has no column pag"),
    ("SELECT transform(tags, t -> t || pag) FROM seen", "there is no column pag"),
    ("SELECT page FROM seen WHERE timestamp > TIMESTAMP 'yesterdy'", "is no time"),
    ("SELECT DATE '2026-02-30' FROM seen", "is no time"),
    ("SELECT CAST(page AS INT AS n FROM seen", "has no counterpart"),
    ("SELECT count( FROM seen", "has no counterpart"),
    ("SELECT page FROM seen)", "has no counterpart"),
]
UNREAD = ["SELCT page FROM seen", "SELECT page FROM", "SELECT a b c FROM seen"]


@pytest.fixture(autouse=True)
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of that source: of one that is not there nothing is known."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "pages"
    folder.mkdir()
    return folder


def check(sql: str) -> Checked:
    step = f"[[steps]]\nname = \"checked\"\nsql = '''\n{sql}'''\n\n[[sinks]]"
    return check_sql(parse_pipeline(FILE.replace("[[sinks]]", step), "p.toml"))


@pytest.mark.parametrize("sql", GOOD)
def test_what_spark_takes_is_not_refused(sql: str) -> None:
    found = check(sql)
    assert (found.problems, found.unread) == ([], [])


@pytest.mark.parametrize(("sql", "message"), BAD)
def test_what_spark_would_refuse_is_told_with_its_line(sql: str, message: str) -> None:
    (problem,) = check(sql).problems
    assert message in problem.message
    assert problem.message.startswith("step checked: ")
    assert problem.line in (34, 35)  # of the key, or of the word below it


def test_steps_after_a_mistake_are_not_blamed_for_it() -> None:
    text = FILE.replace("value.tags AS tags", "value.tgas")
    text = text.replace("* FROM visits", "tags FROM seen")
    (problem,) = check_sql(parse_pipeline(text, "p.toml")).problems
    assert problem.message == "step seen: value has no field tgas: did you mean tags?"


def test_sinks_after_a_window_are_not_blamed_for_its_mistakes() -> None:
    text = (
        FILE
        + """
[[steps]]
name = "counted"
[steps.window]
from = "seen"
size = "1m"
watermark = "1m"
group_by = ["pag"]
aggregate = { n = "count(*)" }

[[sinks]]
from = "counted"
parquet = "rows"
partition_by = ["page"]
"""
    )
    (problem,) = check_sql(parse_pipeline(text, "p.toml")).problems
    assert problem.message == "step counted: there is no column pag: did you mean page?"


def test_one_column_at_least_is_in_the_files() -> None:
    text = FILE.replace("[[sinks]]", '[[sinks]]\nname = "files"\nPARTS\n[[sinks]]', 1)
    parts = 'from = "seen"\nparquet = "rows"\npartition_by = ["page", "visitor", "tags", "TIME"]'
    (problem,) = check_sql(parse_pipeline(text.replace("PARTS", parts), "p.toml")).problems
    assert problem.message.startswith("sink files: there is no column TIME")
    parts = parts.replace("TIME", "TIMESTAMP")
    (problem,) = check_sql(parse_pipeline(text.replace("PARTS", parts), "p.toml")).problems
    assert problem.message.startswith("sink files: partition_by has all columns")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("page STRING, visitor BIGNT", "BIGNT is no type: did you mean BIGINT?"),
        ("page TEXT", "TEXT is no type"),
        ("page", "a type is missing at the end"),
        ("page STRING visitor BIGINT", "',' is missing before 'visitor'"),
        ("page STRING,", "a column is missing at the end"),
        ("price DECIMAL(10 2)", "')' is missing before '2'"),
        ("price DECIMAL(10, 2", "')' is missing at the end"),
        ("tags ARRAY<STRNG>", "STRNG is no type: did you mean STRING?"),
        ("tags ARRAY<STRING", "'>' is missing at the end"),
        ("tags ARRAY<STRING>>", "',' is missing before '>'"),
        ("tags MAP<STRING>", "',' is missing before '>'"),
        ("a STRUCT<b INT", "',' is missing at the end"),
        ("array<int>, b INT", "',' is one too many"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_a_schema_that_is_none_is_told_and_its_columns_are_not_missed(
    schema: str, message: str
) -> None:
    """Spark, whose session reads schemas, does not take it, either."""
    source = f'name = "more"\nfiles = "pages"\nschema = "{schema}"'
    step = 'name = "all"\nsql = "SELECT anything FROM more"'
    text = f"{FILE}\n[[sources]]\n{source}\n[[steps]]\n{step}"
    found = check_sql(parse_pipeline(text, "p.toml"))
    assert not found.problems
    (problem,) = found.unread
    assert problem.message == f"source more: schema is no schema: {message}"
    assert text.splitlines()[problem.line - 1].startswith("schema")
    with pytest.raises(ParseException):
        DataType.fromDDL(schema)


@pytest.mark.parametrize(
    "schema",
    [
        "a BOOLEAN, b TINYINT, c BYTE, d SMALLINT, e SHORT, f INT, g INTEGER, h BIGINT, i LONG",
        "a FLOAT, b REAL, c DOUBLE, d DECIMAL, e DEC(5), f NUMERIC(10, 2), g BINARY, h VOID, i INT",
        "a STRING, b CHAR(3), c CHARACTER(3), d VARCHAR(9), e STRING COLLATE UTF8_LCASE, f VARIANT",
        "a DATE, b TIMESTAMP, c TIMESTAMP_NTZ, d TIMESTAMP_LTZ, e TIME, f TIME(3)",
        "a INTERVAL, b INTERVAL YEAR TO MONTH, c INTERVAL DAY TO SECOND, d INTERVAL HOUR",
        "a STRING NOT NULL COMMENT 'one, or (two)', b: INT, `c d` INT, `e``f` INT, date DATE",
        "a ARRAY<INTERVAL DAY>, b MAP<STRING, ARRAY<STRUCT<x: INT, y: VOID>>>, c INT",
        "a STRUCT<b: STRUCT<c: INT, `d e`: STRING COMMENT 'x'>, f: INT NOT NULL>, g INT",
        "struct<a: int, b: array<string>>",
    ],
)
@pytest.mark.usefixtures("spark")
def test_schemas_have_the_columns_that_spark_finds(schema: str) -> None:
    found = read_schema(schema)
    assert found is not None
    theirs = DataType.fromDDL(schema)
    assert isinstance(theirs, StructType)
    assert list(fields(found)) == theirs.names


def test_what_is_no_avro_schema_is_told() -> None:
    text = FILE.replace('value_format = "json"', 'value_format = "avro"')
    assert text != FILE
    (problem,) = check_sql(parse_pipeline(text, "p.toml")).problems
    assert problem.message.startswith("source visits: value_schema: This is no Avro schema")


@pytest.mark.parametrize("sql", UNREAD)
def test_what_is_no_sql_is_told(sql: str) -> None:
    (problem,) = check(sql).unread
    assert problem.message.startswith("step checked: this is no SQL")
    assert problem.line == 35


def test_the_line_is_that_of_the_column() -> None:
    text = FILE.replace("       value.tags AS tags", "       value.tagz AS tags")
    (problem,) = check_sql(parse_pipeline(text, "p.toml")).problems
    assert (problem.line, problem.message) == (
        24,
        "step seen: value has no field tagz: did you mean tags?",
    )


def test_ready_made_pipelines_have_no_mistakes() -> None:
    for name in ready_made():
        found = check_sql(load_pipeline(name))
        assert (found.problems, found.unread) == ([], [])


def test_columns_of_other_steps_and_of_sinks_are_looked_up() -> None:
    text = FILE + '''
[[steps]]
name = "counted"
[steps.window]
from = "seen"
size = "1m"
watermark = "1m"
time = "timestmp"
group_by = ["page"]
aggregate = { n = "count(visitor.idd)" }

[[steps]]
name = "joined"
join = { left = "counted", right = "pages", on = ["pge"], within = "1m", watermark = "1m" }

[[steps]]
name = "once"
deduplicate = { from = "pages", keys = ["ownr"], watermark = "1m" }

[[sinks]]
from = "counted"
topic = "counts"
key = "pagge"
value = "to_json(struct(*))"

[[sinks]]
from = "counted"
name = "table"
table = "counts"
database = "sqlite://"
keys = ["window_star"]

[[sinks]]
from = "counted"
name = "files"
parquet = "rows"
partition_by = ["pag"]
'''  # fmt: skip
    found = check_sql(parse_pipeline(text, "p.toml"))
    said = {(one.line, one.message.rpartition(": ")[0]) for one in found.problems}
    assert {line for line, _ in said} == {42, 44, 48, 52, 57, 65, 71}
    assert found.columns("counted") == ["window_start", "window_end", "page", "n"]


def test_files_in_folders_of_partitions_may_have_more_columns(pages: Path) -> None:
    assert check("SELECT day FROM pages").problems
    (pages / "day=2026-01-01").mkdir()
    assert not check("SELECT day FROM pages").problems
    assert check("SELECT day FROM seen").problems


def test_a_function_that_is_not_there_is_told(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    step = '[[steps]]\nname = "made"\nfrom = "seen"\npython = "f.py:make"\n\n[[sinks]]'
    pipeline = parse_pipeline(FILE.replace("[[sinks]]", step), str(file))
    (problem,) = check_sql(pipeline).problems
    assert problem.line == 35
    assert "there is no file" in problem.message
    (tmp_path / "f.py").write_text("def mak(frame):\n    return frame\n")
    (problem,) = check_sql(pipeline).problems
    assert problem.message.endswith("has no function make: did you mean mak?")
    for text in ("def make(frame):\n    return frame\n", "from g import make\n", "make = print\n"):
        (tmp_path / "f.py").write_text(text)
        assert not check_sql(pipeline).problems


def test_parameters_that_make_no_sense_are_told() -> None:
    for given in ({"from": "soon"}, {"until": "2026-13-01"}):
        assert check_sql(load_pipeline("replay", given)).problems
    with pytest.raises(ValueError, match="a positive number"):
        load_pipeline("replay", {"rate": "0"})


def test_validate_refuses_and_run_lets_spark_decide_what_cannot_be_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cli = CommandLine("", capsys)
    (tmp_path / "p.toml").write_text(FILE.replace("SELECT *", "SELCT *"))
    said = cli("pipeline", "validate", "p.toml", code=1).err
    assert said.startswith("p.toml:30: step known: this is no SQL")
    text = FILE.replace('topic = "visits"', 'topic = "visits"\nbootstrap_servers = "127.0.0.1:1"')
    (tmp_path / "p.toml").write_text(text.replace("SELECT *", "SELCT *"))
    said = cli("pipeline", "run", "p.toml", "--timeout", "0.1", code=3).err
    assert "this is no SQL" in said
    assert "Spark is asked nevertheless" in said
    (tmp_path / "p.toml").write_text(FILE.replace("value.tags", "value.tgs"))
    for command in ("validate", "run"):
        said = cli("pipeline", command, "p.toml", code=1).err
        assert said == "p.toml:24: step seen: value has no field tgs: did you mean tags?\n"


def test_spark_says_the_same(spark: SparkSession) -> None:
    """Queries that are good here are so in Spark, and those that are bad here are bad there."""
    spark.createDataFrame(
        [],
        "key BINARY, value STRUCT<page STRING, visitor STRUCT<id: BIGINT, name: STRING>, "
        "tags ARRAY<STRING>>, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
        "timestampType INT",
    ).createOrReplaceTempView("visits")
    spark.sql(
        "SELECT value.page AS page, value.visitor AS visitor, value.tags AS tags, timestamp "
        "FROM visits"
    ).createOrReplaceTempView("seen")
    spark.sql("SELECT * FROM visits").createOrReplaceTempView("known")
    spark.createDataFrame([], "page STRING, nope STRING").createOrReplaceTempView("anything")
    spark.createDataFrame([], "page STRING, owner STRING").createOrReplaceTempView("pages")
    for sql in GOOD:
        if "_metadata" not in sql:  # of files only
            spark.sql(sql)
    taken = []
    for sql in [*(sql for sql, _ in BAD), *UNREAD]:
        try:
            spark.sql(sql)
        except (AnalysisException, ParseException):
            continue
        taken.append(sql)
    assert not taken


def test_no_example_of_sparks_own_is_refused(spark: SparkSession) -> None:
    """Each function is documented with queries: more than a thousand that Spark takes."""
    utils = spark._jvm.org.apache.spark.sql.api.python.PythonSQLUtils  # type: ignore[union-attr]
    queries = {
        query
        for info in utils.listBuiltinFunctionInfos()
        for query in re.findall(r"> (.*?);\s*$", info.getExamples() or "", re.MULTILINE)
    }
    assert len(queries) > 1000
    complaints = []
    for query in queries:
        text = FILE.replace("SELECT * FROM visits", "STEP").replace(
            '"STEP"', json.dumps(query, ensure_ascii=False)
        )
        found = check_sql(parse_pipeline(text, "p.toml"))
        complaints += [(query, one.message) for one in (*found.problems, *found.unread)]
    assert not complaints
