"""Pipelines as files: what is declared, and every mistake with its line, without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from moldau.spark.pipeline.load import load_pipeline, ready_made
from moldau.spark.pipeline.masters import master_problem
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.problems import PipelineError
from moldau.spark.pipeline.spec import Pipeline, TopicSink, TopicSource, WindowStep
from moldau.spark.pipeline.sql.names import tables_of
from moldau.spark.session import python_of

GOOD = """\
name = "counts"

[parameters]
topic = "events"
minutes = 5

[[sources]]
name = "events"
topic = "${topic}"
bootstrap_servers = "broker:9092"

[[steps]]
name = "counted"
window = { from = "events", size = "${minutes}m", watermark = "10m", aggregate.n = "count(*)" }

[[sinks]]
from = "counted"
topic = "counts"
"""


def parse(text: str, **given: str) -> Pipeline:
    return parse_pipeline(text, "p.toml", given=given, environment={"SECRET": "s3"})


def problems(text: str, **given: str) -> list[str]:
    with pytest.raises(PipelineError) as caught:
        parse(text, **given)
    return caught.value.lines()


def test_a_file_becomes_sources_steps_and_sinks() -> None:
    pipeline = parse(GOOD)
    assert pipeline.name == "counts"
    assert pipeline.checkpoint == "checkpoints/counts"
    assert pipeline.sources == (
        TopicSource(
            "events", {"kafka.bootstrap.servers": "broker:9092", "subscribe": "events"}, True
        ),
    )
    assert pipeline.steps == (
        WindowStep(
            "counted", ("events",), "timestamp", 300_000, None, 600_000, (), {"n": "count(*)"}
        ),
    )
    assert isinstance(pipeline.sinks[0], TopicSink)


def test_parameters_are_overridden_and_keep_their_types() -> None:
    pipeline = parse(GOOD, topic="other", minutes="2")
    assert isinstance(pipeline.sources[0], TopicSource)
    assert pipeline.sources[0].options["subscribe"] == "other"
    assert isinstance(pipeline.steps[0], WindowStep)
    assert pipeline.steps[0].size == 120_000
    assert problems(GOOD, topix="x") == [
        "p.toml:3: there is no parameter topix: did you mean topic?"
    ]
    assert problems(GOOD, minutes="x") == [
        "p.toml:5: parameter minutes is a number, and 'x' is none"
    ]
    secret = GOOD.replace("broker:9092", "${env:SECRET}:9092")
    source = parse(secret).sources[0]
    assert isinstance(source, TopicSource)
    assert source.options["kafka.bootstrap.servers"] == "s3:9092"


def test_files_that_name_no_broker_have_that_of_all_commands() -> None:
    environment = {"MOLDAU_BOOTSTRAP": "elsewhere:9092"}
    assert brokers(GOOD, environment) == ["broker:9092", "elsewhere:9092"]
    assert brokers(GOOD, {}) == ["broker:9092", "localhost:9092"]
    own = GOOD + 'options = { "kafka.bootstrap.servers" = "own:9092" }\n'
    assert brokers(own, environment) == ["broker:9092", "own:9092"]


def brokers(text: str, environment: dict[str, str]) -> list[str]:
    pipeline = parse_pipeline(text, "p.toml", environment=environment)
    (source,), (sink,) = pipeline.sources, pipeline.sinks
    assert isinstance(source, TopicSource)
    assert isinstance(sink, TopicSink)
    return [one.options["kafka.bootstrap.servers"] for one in (source, sink)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('topic = "${topic}"', 'topc = "events"', "7: [[sources]] events needs one of topic"),
        (
            "bootstrap_servers",
            "bootstrap_server",
            "10: [[sources]] events has no key bootstrap_server: did you mean bootstrap_servers?",
        ),
        (
            "[parameters]",
            "[parameter]",
            "3: the file has no key parameter: did you mean parameters?",
        ),
        ("${topic}", "${topik}", "9: there is no parameter topik: did you mean topic?"),
        (
            'size = "${minutes}m"',
            'size = "5 parsecs"',
            "14: size of window of [[steps]] counted: '5 parsecs' is not a duration",
        ),
        ('watermark = "10m", ', "", "14: step counted of a stream needs watermark"),
        (
            'from = "counted"',
            'from = "count"',
            "17: there is no source or step count: did you mean counted?",
        ),
        (
            'from = "events"',
            'from = "event"',
            "14: step counted: there is no source or step event: did you mean events?",
        ),
        ('name = "counts"\n', "", "1: the file needs name"),
        (
            'topic = "counts"',
            'parquet = 3\ntopic = "x"',
            "18: [[sinks]] has both topic and parquet: keep one",
        ),
        (
            'topic = "counts"',
            'topic = "x"\noutput_mode = "compleet"',
            "19: output_mode of [[sinks]] is 'compleet': did you mean complete?",
        ),
        (
            'name = "counted"',
            'name = "events"',
            "8: the name events is given twice: names are unique",
        ),
        (
            'topic = "${topic}"',
            'topic = "x"\nvalue_format = "json"',
            "10: [[sources]] events: value_format=json needs value_schema",
        ),
        (
            'topic = "${topic}"',
            'topic = "x"\nvalue_format = "jason"',
            "10: [[sources]] events: value_format must be one of",
        ),
        (
            'topic = "${topic}"',
            'topic = "x"\noptions = { startingOfsets = "latest" }',
            "10: [[sources]] events: There is no option startingofsets: did you mean st",
        ),
        ("[[sinks]]", "[[sinks]", "16: this is no TOML"),
        ('topic = "counts"', 'table = "t"', "16: [[sinks]] needs database"),
        ('topic = "counts"', 'topic = "t"\nkey = "k"', "16: [[sinks]] has key but no value"),
        ('name = "counts"', 'name = "../counts"', "1: the name '../counts' is that of a folder"),
        ('from = "counted"', 'name = "a/b"\nfrom = "counted"', "17: the name 'a/b' is that of a f"),
        (
            'from = "counted"',
            'from = "quarantine"',
            "17: there is no source or step quarantine: no",
        ),
        ('topic = "${topic}"', 'pattern = "a["', "9: [[sources]] events: pattern is no pattern"),
        ('topic = "${topic}"', "topics = []", "9: topics of [[sources]] events must name a topic"),
        (
            'topic = "${topic}"',
            'pattern = "a.*"\ndead_letter_topic = "a.dlq"',
            "10: [[sources]] events: dead_letter_topic is a.dlq, which is read, too",
        ),
        (
            'topic = "counts"',
            'topic = "t"\nrate = -1',
            "19: rate of [[sinks]] must be a positive number, not -1",
        ),
    ],
)
def test_mistakes_are_explained_with_their_line(old: str, new: str, expected: str) -> None:
    assert old in GOOD
    found = problems(GOOD.replace(old, new, 1))
    assert any(line.startswith(f"p.toml:{expected}") for line in found), found


def test_all_mistakes_are_found_at_once() -> None:
    text = GOOD.replace('name = "counts"', "").replace('size = "${minutes}m"', 'size = "x"')
    assert len(problems(text.replace('from = "counted"', 'from = "c"'))) == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('topic = "${topic}"', 'topic = ""'),
        ('topic = "counts"', 'topic = ""'),
        ('watermark = "10m"', 'watermark = "late"'),
        ('name = "counted"', 'name = "events"'),
        ('topic = "counts"', 'table = "t"\ndatabase = "results.db"'),
    ],
)
def test_one_mistake_is_told_once(old: str, new: str) -> None:
    text = GOOD.replace(old, new, 1).replace('from = "counted"', 'from = "events"')
    assert len(problems(text)) == 1


def test_unknown_names_in_sql_are_found_on_their_line() -> None:
    text = GOOD + dedent('''
        [[steps]]
        name = "joined"
        sql = """
            SELECT e.*, extract(YEAR FROM e.timestamp) AS year
            FROM counted AS e
            JOIN evnts AS o ON o.key = e.key
        """
    ''')
    expected = "p.toml:25: step joined: there is no source or step evnts: did you mean events?"
    assert problems(text) == [expected]


def test_steps_are_ordered_and_circles_are_shown() -> None:
    steps = """
        [[steps]]
        name = "c"
        sql = "SELECT * FROM b"
        [[steps]]
        name = "a"
        sql = "SELECT * FROM {first}"
        [[steps]]
        name = "b"
        sql = "SELECT * FROM A"
    """
    ordered = parse(GOOD + dedent(steps).format(first="events")).steps
    assert [step.name for step in ordered] == ["counted", "a", "b", "c"]
    [found] = problems(GOOD + dedent(steps).format(first="c"))
    assert found == "p.toml:20: steps read from each other in a circle: c → b → a → c"


def test_one_way_has_one_watermark_and_joined_streams_need_bounds() -> None:
    twice = GOOD + dedent("""
        [[steps]]
        name = "again"
        deduplicate = { from = "counted", keys = ["n"], watermark = "1m" }
    """)
    [found] = problems(twice)
    assert found.startswith("p.toml:22: step again reads rows that have the watermark of step coun")
    joined = GOOD + dedent("""
        [[sources]]
        name = "others"
        topic = "o"
        [[steps]]
        name = "j"
        join = { left = "events", right = "others", on = ["key"] }
    """)
    assert problems(joined)[0].startswith("p.toml:25: step j joins two streams and needs within")
    assert parse(joined.replace('topic = "o"', 'topic = "o"\nstreaming = false')).streaming


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM a", ["a"]),
        ("select * from a x, b as y, `c` where x.i in (select i from d)", ["a", "b", "c", "d"]),
        ("WITH t AS (SELECT * FROM a), u(i) AS (SELECT 1) SELECT * FROM t JOIN u", ["a"]),
        ("SELECT trim(BOTH FROM x), 'FROM z' FROM a -- FROM y", ["a"]),
        ("SELECT * FROM range(10), catalog.t JOIN a LEFT JOIN b USING (k)", ["a", "b"]),
        ("SELECT a IS DISTINCT FROM b FROM t /* JOIN q */", ["t"]),
        ("FROM a SELECT *", ["a"]),
        ("SELECT * FROM VALUES (1) LATERAL VIEW explode(x) AS y", []),
    ],
)
def test_names_of_tables_are_found_in_sql(sql: str, names: list[str]) -> None:
    assert tables_of(sql) == names


K8S = "spark.kubernetes.container.image"


@pytest.mark.parametrize(
    ("master", "config", "problem"),
    [
        ("local", {}, None),
        ("local[4]", {}, None),
        ("local[*, 3]", {}, None),
        ("spark://a:7077,b:7077", {}, None),
        ("k8s://https://host:6443", {K8S: "registry/spark:1"}, None),
        ("sc://host", {}, None),
        ("sc://host:15002/;token=x", {}, None),
        ("yarn", {}, None),
        ("sparc://host:7077", {}, "master 'sparc://host:7077' is none of local"),
        ("spark://host", {}, "is none of"),
        ("k8s://https://host:6443", {}, "needs an image with Python, Spark and Moldau"),
    ],
)
def test_masters(master: str, config: dict[str, str], problem: str | None) -> None:
    settings = ", ".join(f'"{name}" = "{value}"' for name, value in config.items())
    text = f'{GOOD}\n[spark]\nmaster = "{master}"\nconfig = {{ {settings} }}\n'
    if problem is None:
        pipeline = parse(text)
        assert (pipeline.master, pipeline.config) == (master, config)
        return
    [found] = problems(text)
    assert found.startswith("p.toml:21: ")
    assert problem in found


def test_sinks_that_write_from_the_driver_need_one_here() -> None:
    rollup = replace(load_pipeline("rollup"), master="sc://host")
    assert "sink table writes from the driver" in (master_problem(rollup) or "")


def test_pods_have_a_python_of_their_own() -> None:
    here = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    assert python_of("local[2]", {"PATH": "/bin"}) == here
    assert python_of("spark://h:1", {"PYSPARK_PYTHON": "p"}) == {**here, "PYSPARK_PYTHON": "p"}
    folder = str(Path(sys.executable).parent)
    assert python_of("k8s://h", {"PATH": "/bin"}) == {
        "PYSPARK_PYTHON": "python3",
        "PYSPARK_DRIVER_PYTHON": "python3",
        "PATH": f"{folder}{os.pathsep}/bin",
    }


def test_ready_made_pipelines_are_valid_and_described() -> None:
    assert list(ready_made()) == ["alerts", "archive", "mirror", "replay", "rollup"]
    for name in ready_made():
        pipeline = load_pipeline(name)
        assert pipeline.name == name
        assert pipeline.description


def test_a_file_is_checked_without_spark() -> None:
    """Neither PySpark nor pandas is imported: mistakes are shown at once."""
    program = (
        "import sys; from moldau.spark.pipeline.load import load_pipeline;"
        "load_pipeline('rollup');"
        "print(sorted({'pyspark', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_guide_says_what_is_so() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "pipelines-reference.md").read_text()
    example = guide.partition("```toml\n")[2].partition("```")[0]
    pipeline = parse_pipeline(example, "visits.toml")
    assert [step.name for step in pipeline.steps] == ["seen", "known", "per_minute"]
    wrong = example.replace("value_format", "valu_format").replace("FROM visits", "FROM visit")
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(wrong, "visits.toml")
    said = caught.value.lines()
    shown = [line for line in guide.splitlines() if line.startswith("visits.toml:")]
    assert shown
    assert set(shown) <= set(said), said


JUNK = ("3", "-1.5", "true", '""', '"x"', "[]", "[1]", "{}", "{ a = { b = 1 } }", "1979-05-27")


@pytest.mark.parametrize("name", ["alerts", "archive", "mirror", "replay", "rollup"])
def test_any_other_value_is_taken_or_explained(name: str) -> None:
    """No value, wherever it stands, ends in anything else than a pipeline or lines to look at."""
    lines = ready_made()[name].splitlines()
    refused: list[PipelineError] = []
    for index, line in enumerate(lines):
        key, sign, value = line.partition(" = ")
        if not sign or value == '"""' or line.startswith((" ", "#")):
            continue
        for junk in JUNK:
            text = "\n".join([*lines[:index], f"{key} = {junk}", *lines[index + 1 :]])
            try:
                parse(text)
            except PipelineError as error:
                refused.append(error)
    assert len(refused) > 20
    places_told = {one.line for error in refused for one in error.problems}
    assert places_told <= set(range(1, len(lines) + 1))
