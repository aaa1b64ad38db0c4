"""Rules for rows: how they are written, what becomes of rows that fail them, and how they count."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.client.conftest import NewTopicFactory
from tests.spark.pipelines import START, rows, run_once
from tests.spark.records import consume, produce
from tests.support.target import Target

from moldau.spark.pipeline.expectation_counts import Count, ExpectationCounts
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.problems import PipelineError
from moldau.spark.pipeline.run import PipelineFailedError, run_pipeline
from moldau.spark.pipeline.spec import QuarantineStep
from moldau.spark.pipeline.sql.check import check_sql

FILE = """\
name = "orders"

[[sources]]
name = "orders"
topic = "orders"
value_format = "json"
value_schema = "id BIGINT, amount DOUBLE, country STRING"
expect = [
    { name = "has an id", check = "value.id IS NOT NULL", on_failure = "quarantine" },
]

[[steps]]
name = "sold"
sql = "SELECT value.id AS id, value.amount AS amount, value.country AS country FROM orders"
expect = [
    { name = "positive amount", check = "amount > 0", on_failure = "drop" },
    { name = "known country", check = "country <> 'XX'", on_failure = "quarantine" },
]

[[sinks]]
from = "sold"
topic = "sold"

[[sinks]]
from = "quarantine"
topic = "quarantine"
"""


def said(text: str) -> list[str]:
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(text, "p.toml")
    return caught.value.lines()


def test_rows_that_are_put_aside_are_a_step() -> None:
    pipeline = parse_pipeline(FILE, "p.toml")
    assert isinstance(pipeline.steps[-1], QuarantineStep)
    assert pipeline.steps[-1].inputs == ("orders", "sold")
    assert [rule.on_failure for rule in pipeline.steps[0].expect] == ["drop", "quarantine"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            ', on_failure = "drop"',
            "",
            '16: expect of [[steps]] sold needs on_failure, such as on_failure = "drop"',
        ),
        (
            'on_failure = "drop"',
            'on_failure = "dorp"',
            "16: on_failure of expect of [[steps]] sold is 'dorp': did you mean drop?",
        ),
        (
            "check = ",
            "chek = ",
            "16: expect of [[steps]] sold has no key chek: did you mean check?",
        ),
        (
            '"known country"',
            '"positive amount"',
            "17: expect of [[steps]] sold has two rules positive amount: names are unique",
        ),
        (
            'from = "quarantine"',
            'from = "sold"\nname = "again"',
            (
                "9: rows are put aside, and no sink takes them: add [[sinks]] with from = "
                '"quarantine", such as topic = "quarantine"'
            ),
        ),
        (
            'name = "sold"',
            'name = "quarantine"',
            "13: the name quarantine is that of the rows that are put aside: take another one",
        ),
    ],
)
def test_mistakes_are_explained_with_their_line(old: str, new: str, line: str) -> None:
    first = FILE.index(old) if old != "check = " else FILE.index(old, FILE.index("[[steps]]"))
    text = FILE[:first] + new + FILE[first + len(old) :]
    assert f"p.toml:{line}" in said(text)


def test_a_list_is_wanted() -> None:
    text = FILE.replace("expect = [\n    { name", 'expect = "amount > 0"\nx = [\n    { name', 1)
    assert any("expect of [[sources]] orders must be a list" in line for line in said(text))


def test_rules_are_looked_up_as_other_sql() -> None:
    text = FILE.replace("amount > 0", "amuont > 0").replace("value.id IS", "value.ids IS")
    found = check_sql(parse_pipeline(text, "p.toml"))
    assert [(one.line, one.message) for one in found.problems] == [
        (9, "source orders, rule has an id: value has no field ids: did you mean id?"),
        (16, "step sold, rule positive amount: there is no column amuont: did you mean amount?"),
    ]
    assert found.columns("quarantine") == ["time", "pipeline", "step", "reasons", "row"]


def test_rows_are_dropped_put_aside_and_counted(
    moldau: Target,
    topics: NewTopicFactory,
    spark: SparkSession,
    tmp_path: Path,
    checkpoint: str,
) -> None:
    topic, aside, database = topics(partitions=2), topics(), tmp_path / "d.db"
    text = FILE.replace('"orders"\nvalue', f'"{topic}"\nstarting_offsets = "earliest"\nvalue')
    text = text.replace('topic = "sold"', f'database = "sqlite:///{database}"\ntable = "sold"')
    text = text.replace('topic = "quarantine"', f'topic = "{aside}"')
    text = text.replace("topic =", f'bootstrap_servers = "{moldau.bootstrap}"\ntopic =')
    values: list[dict[str, Any]] = [
        {"id": 1, "amount": 5.0, "country": "CZ"},
        {"id": 2, "amount": -5.0, "country": "CZ"},  # dropped
        {"id": 3, "country": "CZ"},  # dropped: NULL is no yes
        {"id": 4, "amount": 5.0, "country": "XX"},  # put aside
        {"id": 5, "amount": -5.0, "country": "XX"},  # put aside, for two reasons
        {"amount": 5.0, "country": "CZ"},  # put aside by the source
    ]
    produce(moldau.bootstrap, topic, [
        {"value": json.dumps(value).encode(), "partition": number % 2, "timestamp": START}
        for number, value in enumerate(values)
    ])  # fmt: skip
    reports = run_once(parse_pipeline(text, "p.toml"), spark, checkpoint)
    assert rows(database, "SELECT id, amount, country FROM sold") == [(1, 5.0, "CZ")]
    letters = [json.loads(row.value or b"") for row in consume(moldau.bootstrap, aside, 1)]
    assert sorted(
        (one["step"], one["reasons"], json.loads(one["row"]).get("id")) for one in letters
    ) == [
        ("orders", ["has an id"], None),
        ("sold", ["known country"], 4),
        ("sold", ["positive amount", "known country"], 5),
    ]
    assert all(one["pipeline"] == "orders" and one["time"] for one in letters)
    counts = ExpectationCounts()
    for one in reports:
        counts.add(one)
    assert sorted(counts.totals()) == [
        Count("orders", "has an id", 5, 1),
        Count("sold", "known country", 3, 2),
        Count("sold", "positive amount", 2, 3),
    ]


ONCE = """
    name = "once"
    [[sources]]
    name = "orders"
    files = "PLACE/orders"
    format = "json"
    schema = "id INT, amount INT, timestamp TIMESTAMP"
    [[steps]]
    name = "single"
    deduplicate = { from = "orders", keys = ["id"], watermark = "1d" }
    expect = [{ name = "positive", check = "amount > 0", on_failure = "quarantine" }]
    [[sinks]]
    from = "single"
    database = "sqlite:///PLACE/d.db"
    table = "single"
    [[sinks]]
    from = "quarantine"
    database = "sqlite:///PLACE/d.db"
    table = "aside"
"""


def test_a_step_with_state_keeps_it_once_for_good_rows_and_those_put_aside(
    spark: SparkSession, tmp_path: Path, checkpoint: str
) -> None:
    """Two states might each keep another row of a key: one of them is lost, or both are written."""
    pipeline = parse_pipeline(dedent(ONCE.replace("PLACE", str(tmp_path))), "p.toml")
    (tmp_path / "orders").mkdir()
    given = [
        {"id": n % 20, "amount": n % 3, "timestamp": "2026-01-01T00:00:00Z"} for n in range(60)
    ]
    lines = "".join(f"{json.dumps(one)}\n" for one in given)
    (tmp_path / "orders" / "1.json").write_text(lines, "utf-8")
    reports = run_once(pipeline, spark, checkpoint)
    assert max(one.state_rows for one in reports) == 20
    assert [one.rows for one in reports if one.batch == 0] == [60, 60]
    good = rows(tmp_path / "d.db", "SELECT id FROM single")
    aside = [
        (json.loads(row)["id"],) for (row,) in rows(tmp_path / "d.db", "SELECT row FROM aside")
    ]
    assert aside
    assert sorted(good + aside) == [(number,) for number in range(20)]
    counts = ExpectationCounts()
    for one in reports:
        counts.add(one)
    assert counts.totals() == [Count("single", "positive", len(good), len(aside))]


def test_rows_put_aside_have_the_time_of_their_batch(
    spark: SparkSession, tmp_path: Path, checkpoint: str
) -> None:
    """As Spark has it in its plan, also when the batch comes again."""
    pipeline = parse_pipeline(dedent(ONCE.replace("PLACE", str(tmp_path))), "p.toml")
    (tmp_path / "orders").mkdir()
    row = {"id": 1, "amount": 0, "timestamp": "2026-01-01T00:00:00Z"}
    (tmp_path / "orders" / "1.json").write_text(json.dumps(row), "utf-8")
    run_once(pipeline, spark, checkpoint)
    planned = (Path(checkpoint) / "single+quarantine" / "offsets" / "0").read_text("utf-8")
    moment = datetime.fromtimestamp(
        json.loads(planned.splitlines()[1])["batchTimestampMs"] / 1000, UTC
    )
    [(time,)] = rows(tmp_path / "d.db", "SELECT time FROM aside")
    assert datetime.fromisoformat(time).replace(tzinfo=UTC) == moment


def test_rows_are_counted_whoever_reads_them(
    spark: SparkSession, tmp_path: Path, checkpoint: str
) -> None:
    """A console shows a few of them, and SQLite fetches them: Spark observes neither."""
    text = dedent(ONCE.replace("PLACE", str(tmp_path)))
    step = 'deduplicate = { from = "orders", keys = ["id"], watermark = "1d" }'
    text = text.replace(step, 'sql = "SELECT id, amount FROM orders"')
    text = text.replace('"quarantine" }]', '"warn" }]')
    text = text[: text.index("[[sinks]]")]
    text += f'[[sinks]]\nfrom = "orders"\ndatabase = "sqlite:///{tmp_path}/d.db"\ntable = "o"\n'
    text += '[[sinks]]\nfrom = "single"\nname = "shown"\nconsole = true\nrows = 1\n'
    for trigger in ("available_now", "batch"):
        pipeline = parse_pipeline(f"{text}[trigger]\n{trigger} = true\n", "p.toml")
        (tmp_path / "orders").mkdir(exist_ok=True)
        lines = "".join(f'{{"id": {n}, "amount": {n % 2}}}\n' for n in range(50))
        (tmp_path / "orders" / "1.json").write_text(lines, "utf-8")
        counts = ExpectationCounts()
        for report in run_once(pipeline, spark, checkpoint):
            counts.add(report)
        assert counts.totals() == [Count("single", "positive", 25, 25)]


FAILING = """
    name = "failing"
    [trigger]
    {trigger}
    [[sources]]
    name = "orders"
    files = "{folder}/orders"
    format = "json"
    schema = "id BIGINT, amount DOUBLE"
    [[sources]]
    name = "known"
    files = "{folder}/known"
    format = "json"
    schema = "id BIGINT"
    streaming = false
    [[steps]]
    name = "sold"
    join = {{ left = "orders", right = "known", on = ["id"] }}
    expect = [{{ name = "positive amount", check = "amount > 0", on_failure = "fail" }}]
    [[sinks]]
    from = "orders"
    name = "first"
    database = "sqlite:///{folder}/d.db"
    table = "orders"
    [[sinks]]
    from = "sold"
    parquet = "{folder}/sold"
"""


def write_orders(folder: Path, *, known: list[int]) -> None:
    files: dict[str, list[dict[str, Any]]] = {
        "orders": [{"id": 1, "amount": 5.0}, {"id": 2, "amount": -7.5}],
        "known": [{"id": number} for number in known],
    }
    for name, lines in files.items():
        (folder / name).mkdir()
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (folder / name / "rows.json").write_text(text)


@pytest.mark.parametrize("trigger", ["batch = true", "available_now = true"])
def test_a_row_ends_the_batch(
    trigger: str, spark: SparkSession, tmp_path: Path, checkpoint: str
) -> None:
    write_orders(tmp_path, known=[1, 2])
    text = dedent(FAILING.format(folder=tmp_path, trigger=trigger))
    with pytest.raises(PipelineFailedError) as caught:
        run_once(parse_pipeline(text, "p.toml"), spark, checkpoint)
    assert str(caught.value) == (
        "p.toml:19: step sold: a row fails rule positive amount (amount > 0): "
        '{"id":2,"amount":-7.5}'
    )
    assert not list((tmp_path / "sold").glob("*.parquet"))
    if "batch" in trigger:
        # Rows that end the batch are looked for before the first sink.
        assert not (tmp_path / "d.db").exists()


@pytest.mark.parametrize("trigger", ["batch = true", "available_now = true"])
def test_rows_that_are_not_in_a_step_end_nothing(
    trigger: str, spark: SparkSession, tmp_path: Path, checkpoint: str
) -> None:
    """Spark would like to look at the columns of one side before it joins."""
    write_orders(tmp_path, known=[1])
    text = dedent(FAILING.format(folder=tmp_path, trigger=trigger))
    reports = run_once(parse_pipeline(text, "p.toml"), spark, checkpoint)
    assert [row.id for row in spark.read.parquet(f"{tmp_path}/sold").collect()] == [1]
    counted = [one.expectations for one in reports if one.expectations]
    assert counted == [{"sold": {"positive amount": {"passed": 1, "failed": 0}}}]


def test_what_spark_refuses_is_told_with_the_line_of_the_rule(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_orders(tmp_path, known=[])
    text = dedent(FAILING.format(folder=tmp_path, trigger="batch = true"))
    text = text.replace("amount > 0", "nonsense(amount)")
    with pytest.raises(
        PipelineFailedError, match=r"p.toml:19: sold, rule positive amount: .*nonsense"
    ):
        run_pipeline(parse_pipeline(text, "p.toml"), spark)
