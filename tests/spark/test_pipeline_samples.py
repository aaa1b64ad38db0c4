"""``moldau pipeline test``: sample rows through the steps, and a diff that can be read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from pyspark.sql import SparkSession

from moldau.spark.pipeline.load import load_pipeline
from moldau.spark.pipeline.problems import PipelineError
from moldau.spark.pipeline.samples.cases import Cell, file_of_tests, load_cases
from moldau.spark.pipeline.samples.diff import Change, difference, same
from moldau.spark.pipeline.samples.outcome import Outcome
from moldau.spark.pipeline.samples.run_cases import run_cases

pytest_plugins = ["pytester"]

PIPELINE = """\
name = "visits"

[parameters]
size = "1m"

[[sources]]
name = "visits"
topic = "visits"
value_format = "json"
value_schema = "page STRING, visitor BIGINT, price DECIMAL(10,2)"
dead_letter_topic = "visits.bad"
headers = true
expect = [
    { name = "has a page", check = "value.page IS NOT NULL", on_failure = "quarantine" },
    { name = "no robot", check = "value.visitor > 0", on_failure = "fail" },
]

[[sources]]
name = "pages"
files = "pages/"
format = "json"
schema = "page STRING, title STRING, since DATE"
streaming = false

[[steps]]
name = "seen"
sql = "SELECT value.page, value.visitor, value.price, timestamp FROM visits"

[[steps]]
name = "known"
join = { left = "seen", right = "pages", on = ["page"], how = "left" }

[[steps]]
name = "per_minute"
[steps.window]
from = "known"
size = "${size}"
watermark = "10m"
group_by = ["page", "title"]
aggregate = { visits = "count(*)", total = "sum(price)" }

[[sinks]]
name = "topic"
from = "per_minute"
topic = "visits-per-minute"
key = "page"
value = "to_json(struct(*))"

[[sinks]]
from = "quarantine"
topic = "quarantine"
"""

GOOD = """\
[[tests]]
name = "visits are counted per page and minute"
[tests.given]
visits = [
    { value = { page = "home", visitor = 1, price = 1.5 }, timestamp = 2026-01-01T12:00:10Z },
    { value = { page = "home", visitor = 2, price = "2.25" }, timestamp = 2026-01-01T12:00:20Z },
    { value = { page = "shop", visitor = 1 }, timestamp = 2026-01-01T12:01:00Z },
    { value = '{"page": "home"', key = "k" },
    { value = { visitor = 3 } },
]
pages = [{ page = "home", title = "Hi", since = 2025-01-01 }]
[tests.expect]
per_minute = [
    { window_start = 2026-01-01T12:01:00Z, page = "shop", title = "", visits = 1 },
    { window_start = "2026-01-01T12:00Z", page = "home", title = "Hi", visits = 2, total = 3.75 },
]
visits = [{ offset = 0 }, { offset = 1 }, { offset = 2 }]
[tests.sinks]
topic = [{ key = "shop" }, { key = "home" }]
quarantine = [{ value = { reasons = ["has a page"], row = { value = { visitor = 3 } } } }]
[tests.dead_letters]
visits = [{ key = "k", offset = 3, reason = "value: " }]

[[tests]]
name = "robots end it"
given.visits = [{ value = { page = "home", visitor = 0 } }]
fails = "rule no robot"

[[tests]]
name = "open windows are not written"
until = 2026-01-01T12:01:30Z
parameters = { size = "30s" }
[tests.given]
visits = "visits.jsonl"
[tests.expect]
per_minute = "expected.csv"

[[tests]]
name = "nothing comes of nothing"
expect.per_minute = []
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "visits.toml").write_text(PIPELINE)
    (tmp_path / "visits.test.toml").write_text(GOOD.replace('title = "", ', ""))
    lines = [
        {"value": {"page": "home", "visitor": 1}, "timestamp": f"2026-01-01T12:0{minute}:00Z"}
        for minute in range(3)
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (tmp_path / "visits.jsonl").write_text(text)
    (tmp_path / "expected.csv").write_text(
        "window_end,page,visits,title\n2026-01-01T12:00:30Z,home,1,\n2026-01-01T12:01:30Z,home,1,\n"
    )
    return tmp_path


def run(place: Path, spark: SparkSession) -> dict[str, Outcome]:
    pipeline = load_pipeline(str(place / "visits.toml"))
    cases = load_cases(file_of_tests(pipeline.file), pipeline)
    return {one.case.name: one for one in run_cases(pipeline, {}, cases, spark)}


def test_the_rows_of_the_reference_are_those_of_its_pipeline(
    tmp_path: Path, spark: SparkSession
) -> None:
    """And where they are not, it says what the page shows."""
    page = (Path(__file__).parents[2] / "docs" / "pipelines-reference.md").read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    pipeline = next(text for kind, text in blocks if kind == "toml")
    [sample] = [text for kind, text in blocks if kind == "toml" and "[[tests]]" in text]
    [shown] = [text for kind, text in blocks if kind == "text" and text.startswith("✗")]
    (tmp_path / "visits.toml").write_text(pipeline)
    (tmp_path / "visits.test.toml").write_text(sample)
    [outcome] = run(tmp_path, spark).values()
    assert list(outcome.lines()) == []
    more = '{ window_start = 2026-01-01T12:05:00Z, page = "home", visits = 1 },'
    wrong = sample.replace("visits = 2 }", "visits = 3 }").replace(
        "]\n\n[tests.sinks]", f"{more}\n]\n\n[tests.sinks]"
    )
    (tmp_path / "visits.test.toml").write_text(wrong)
    [outcome] = run(tmp_path, spark).values()
    told = [line.replace(f"{tmp_path}/", "") for line in outcome.lines()]
    assert told == shown.splitlines()[1:]


def test_what_is_expected_passes(place: Path, spark: SparkSession) -> None:
    outcomes = run(place, spark)
    assert [line for one in outcomes.values() for line in one.lines()] == []
    assert all(one.passed for one in outcomes.values())
    assert len(outcomes) == 4


def test_what_differs_is_told(place: Path, spark: SparkSession) -> None:
    file = place / "visits.test.toml"
    text = file.read_text().replace("visits = 2, total = 3.75", "visits = 3, total = 3.75")
    text = text.replace('page = "shop", visits', 'page = "shops", visits')
    text = text.replace("offset = 3, reason", "offset = 4, reason")
    text = text.replace("rule no robot", "rule no human")
    file.write_text(text.replace("expect.per_minute = []", "expect.per_minute = [{ pages = 1 }]"))
    (place / "expected.csv").write_text("window_end,page,visits\n2026-01-01T12:00:30Z,home,1\n")
    outcomes = run(place, spark)
    told = "\n".join(line for one in outcomes.values() for line in one.lines())
    assert told.replace(f"{place}/", "") == dedent("""\
        visits.test.toml:13: visits are counted per page and minute: per_minute is not as expected
            changed     window_start = "2026-01-01 12:01:00Z", visits = 1, title = NULL, total = NULL: page = "shop", expected "shops"
            changed     window_start = "2026-01-01T12:00Z", page = "home", title = "Hi", total = 3.75: visits = 2, expected 3
        visits.test.toml:22: visits are counted per page and minute: dead_letters visits is not as expected
            missing     key = "k", offset = 4, reason = "value: "
            unexpected  key = "k", offset = 3, reason = "value: JSON parse error: Expecting ',' delimiter: line 1 column 16 (char 15)"
        visits.test.toml:24: robots end it: it should fail with 'rule no human', and says: visits.toml:15: source visits: a row fails rule no robot (value.visitor > 0): {"value":{"page":"home","visitor":0},"topic":"visits","partition":0,"offset":0,"timestamp":"2000-01-01T00:00:00.000Z","timestampType":0}
        visits.test.toml:36: open windows are not written: per_minute is not as expected
            unexpected  window_end = "2026-01-01 12:01:30Z", page = "home", visits = 1
        visits.test.toml:40: nothing comes of nothing: per_minute is not as expected
            missing     pages = 1""")  # noqa: E501


def test_columns_that_are_not_there_are_told(place: Path, spark: SparkSession) -> None:
    file = place / "visits.test.toml"
    file.write_text(file.read_text().replace("visits = 2, total", "vists = 2, total"))
    first = next(iter(run(place, spark).values()))
    assert first.error == "line 13: per_minute has no column vists: did you mean visits?"


def problems(place: Path, text: str) -> list[str]:
    (place / "visits.test.toml").write_text(dedent(text))
    pipeline = load_pipeline(str(place / "visits.toml"))
    with pytest.raises(PipelineError) as caught:
        load_cases(file_of_tests(pipeline.file), pipeline)
    return [line.removeprefix(f"{place}/") for line in caught.value.lines()]


def test_mistakes_are_explained_with_their_line(place: Path) -> None:
    (place / "bad.jsonl").write_text('{"a": 1}\n{"a": \n')
    assert problems(
        place,
        """\
        [[tests]]
        name = "a"
        given.visit = []
        given.pages = 3
        expect.seen = [1]
        sinks.topics = []
        dead_letters.pages = []
        until = "soon"
        order = true
        [[tests]]
        name = "a"
        given.visits = "none.csv"
        given.pages = "bad.jsonl"
        expect.known = "rows.txt"
        """,
    ) == [
        "visits.test.toml:3: [[tests]] a: there is no source visit: did you mean visits?",
        (
            "visits.test.toml:4: given pages of [[tests]] a is a list of rows, such as [{ id = 1 }], "  # noqa: E501
            'or a file, such as "rows.csv"'
        ),
        "visits.test.toml:5: expect seen of [[tests]] a has a row that is no table: 1",
        "visits.test.toml:6: [[tests]] a: there is no sink topics: did you mean topic?",
        (
            "visits.test.toml:7: [[tests]] a: there is no source with dead_letter_topic pages: there "  # noqa: E501
            "is visits"
        ),
        "visits.test.toml:8: until of [[tests]] a is no time, such as 2026-01-31T12:00:00Z",
        "visits.test.toml:9: [[tests]] a has no key order: did you mean ordered?",
        "visits.test.toml:11: two tests are called a: names are unique",
        (
            f"visits.test.toml:12: given visits of [[tests]] a cannot be read from {place}/none.csv: "  # noqa: E501
            "No such file or directory"
        ),
        (
            f"visits.test.toml:13: given pages of [[tests]] a cannot be read: {place}/bad.jsonl:2: "
            "Expecting value: line 1 column 7 (char 6)"
        ),
        (
            "visits.test.toml:14: expect known of [[tests]] a is in rows.txt, which should end "
            "with .jsonl or .csv"
        ),
    ]
    assert problems(place, "") == [
        "visits.test.toml:1: there is no test: tests are written [[tests]]"
    ]
    assert problems(place, '[[tests]]\nname = "a"') == [
        "visits.test.toml:1: [[tests]] a expects nothing: add [tests.expect]"
    ]
    (line,) = problems(place, "[[tests]\n")
    assert line.startswith("visits.test.toml:1: this is no TOML")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("visits = [{ vale = 1 }]", "source visits: a record has no vale: did you mean value?"),
        ('visits = [{ timestamp = "x" }]', "source visits: this is no timestamp: 'x'"),
        ("pages = [{ pag = 1 }]", "source pages: there is no column pag: did you mean page?"),
        ("pages = [{ page = 1 }]", "source pages: 1 of column page is no string"),
        ('pages = [{ since = "x" }]', "source pages: 'x' of column since is no date"),
    ],
)
def test_rows_that_cannot_be_taken_are_told(
    given: str, sentence: str, place: Path, spark: SparkSession
) -> None:
    (place / "visits.test.toml").write_text(
        f'[[tests]]\nname = "a"\nexpect.seen = []\ngiven.{given}'
    )
    assert run(place, spark)["a"].error == sentence


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expected", "found", "equal"),
    [
        (1, 1, True),
        (1, 2, False),
        (1.1, 1.1 + 1e-12, True),
        (1, True, False),
        (3.75, Decimal("3.75"), True),
        ("3.75", Decimal("3.750"), True),
        ("2026-01-01T12:00:00Z", NOON, True),
        (NOON.replace(tzinfo=None), NOON, True),
        ("2026-01-01", date(2026, 1, 1), True),
        ("a", b"a", True),
        ("1", 1, False),
        (Cell("1"), 1, True),
        (Cell("1.50"), 1.5, True),
        (Cell(""), None, True),
        (Cell("true"), True, True),
        (Cell("007"), "007", True),
        (Cell("[1, 2]"), [1, 2], True),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, '{"a": 1, "b": 2}', True),
        ({"a": 1}, [("a", 1)], True),
        ({"a": None}, {"b": 1}, True),
        ([1, 2], [1, 2, 3], False),
        ([1, 2], "[1, 2]", True),
        (None, None, True),
        (None, 0, False),
    ],
)
def test_values(expected: Any, found: Any, equal: bool) -> None:
    assert same(expected, found) is equal


def test_rows_are_compared_whatever_their_order() -> None:
    rows = [{"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert not difference([{"a": 3}, {"a": 1}, {"a": 1}], rows, ordered=False)
    assert difference([{"a": 3}, {"a": 1}, {"a": 1}], rows, ordered=True)
    assert not difference([{"a": 1}, {"a": 1}, {"a": 3}], rows, ordered=True)
    found = difference([{"a": 1}, {"a": 3}], rows, ordered=False)
    assert found.unexpected == [{"a": 1}]
    found = difference([*rows, {"a": 9, "b": 9}], [*rows[1:], {"a": 7, "b": 2}], ordered=False)
    assert found.changed == [Change({"a": 1, "b": 2}, {"a": 7, "b": 2})]
    assert found.missing == [{"a": 9, "b": 9}]
    assert difference([], rows, ordered=False).unexpected == rows


def test_the_command_has_exit_codes_and_json(place: Path) -> None:
    def moldau(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "moldau.cli", "pipeline", "test", *args],
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
        )

    file = place / "visits.test.toml"
    file.write_text(file.read_text().replace("visits = 2, total", "visits = 3, total"))
    done = moldau("visits.toml", "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert (told["passed"], told["failed"]) == (3, 1)
    (wrong,) = [one for one in told["cases"] if not one["passed"]]
    (changed,) = wrong["differences"][0]["changed"]
    assert (changed["expected"]["visits"], changed["found"]["visits"]) == (3, 2)
    done = moldau("visits.toml", "--case", "robots end it")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("✓ robots end it")
    assert "1 passed, 0 failed" in done.stdout
    done = moldau("visits.toml", "--case", "robots")
    assert done.returncode == 2
    file.unlink()
    done = moldau("visits.toml")
    assert done.returncode == 4
    assert "visits.test.toml" in done.stderr


def test_pytest_has_a_fixture(place: Path, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = -p no:randomly -p no:cacheprovider\n")
    pytester.makepyfile(
        f"""
        import pytest
        from moldau.spark.testing import pipeline_cases

        FILE = {str(place / "visits.toml")!r}

        @pytest.mark.parametrize("case", pipeline_cases(FILE))
        def test_visits(moldau_pipeline, case):
            moldau_pipeline(FILE, case=case)

        def test_rows(moldau_pipeline):
            visits = [{{"value": {{"page": "home", "visitor": 1}}}}]
            found = moldau_pipeline.sample(FILE, visits=visits)
            assert [row["page"] for row in found.rows("seen")] == ["home"]
            assert [row["key"] for row in found.written("topic")] == ["home"]
            assert found.dead_letters("visits") == []
        """
    )
    file = place / "visits.test.toml"
    file.write_text(file.read_text().replace("visits = 2, total", "visits = 3, total"))
    done = pytester.runpytest_subprocess(*plugin())
    done.assert_outcomes(passed=4, failed=1)
    done.stdout.fnmatch_lines(["*per_minute is not as expected*", "*visits = 2, expected 3*"])


def plugin() -> list[str]:
    """What to say if the installed package does not know of the fixture yet."""
    from importlib.metadata import entry_points

    known = {one.value for one in entry_points(group="pytest11")}
    return [] if "moldau.spark.testing" in known else ["-p", "moldau.spark.testing"]
