"""What the checks of SQL and of functions leave to Spark and to Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.sql.check import Checked, check_sql
from moldau.spark.pipeline.sql.functions import function_problem
from moldau.spark.pipeline.sql.names import tables_of

FILE = """\
name = "visits"

[[sources]]
name = "visits"
files = "PATH"
format = "json"
schema = "page STRING, n INT"
#source

[[steps]]
name = "checked"
sql = '''SQL'''

[[sinks]]
from = "checked"
console = true
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits").mkdir()
    return tmp_path


def check(sql: str, path: str = "visits", source: str = "", master: str = "local[*]") -> Checked:
    text = FILE.replace("PATH", path).replace("SQL", sql).replace("#source", source)
    return check_sql(parse_pipeline(f'{text}\n[spark]\nmaster = "{master}"\n', "p.toml"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT from_json(page, 'a INT') AS a, n >>> 2 AS b FROM visits",
        "SELECT CAST(NULL AS MAP<STRING, ARRAY<STRUCT<a: INT>>>) AS m FROM visits",
        "SELECT CAST(NULL AS ARRAY<ARRAY<ARRAY<INT>>>) AS m, n >>> 2 AS b FROM visits",
    ],
)
def test_three_brackets_are_the_end_of_a_type_or_a_shift(sql: str) -> None:
    found = check(sql)
    assert (found.problems, found.unread) == ([], [])
    assert check(sql.replace("FROM visits", ", nope FROM visits")).problems


def test_names_may_have_any_letters() -> None:
    assert tables_of("SELECT * FROM Käufe JOIN été ON a = b") == ["Käufe", "été"]
    assert tables_of("WITH größe AS (SELECT 1) SELECT * FROM größe, _x1") == ["_x1"]


def test_folders_that_this_machine_sees_have_no_columns_unless_they_are_named_so(
    here: Path,
) -> None:
    sql = "SELECT day FROM visits"
    assert check(sql).problems
    (here / "visits" / "2026" / "day=1").mkdir(parents=True)
    assert not check(sql).problems


@pytest.mark.parametrize("path", ["visit?", "[v]isits", "{visits,others}", "visits*", "missing"])
def test_folders_that_this_machine_may_not_see_may_have_columns(path: str, here: Path) -> None:
    for name in ("visit?", "[v]isits", "{visits,others}", "visits*"):
        (here / name).mkdir()
    assert not check("SELECT day FROM visits", path).problems
    assert not check("SELECT day FROM visits", "s3a:/bucket/visits").problems


@pytest.mark.parametrize("master", ["sc://host", "spark://host:7077", "yarn"])
def test_folders_of_other_machines_may_have_columns(master: str) -> None:
    assert not check("SELECT day FROM visits", master=master).problems


def test_folders_above_may_have_columns() -> None:
    source = 'options = { basepath = "/data" }'
    assert not check("SELECT day FROM visits", source=source).problems


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    def make(f): ...\nexcept ImportError:\n    def other(f): ...\n",
        "def other(f): ...\nif True:\n    def make(f): ...\n",
        "def other(f): ...\nfrom steps import *\n",
        "def other(f): ...\nfrom steps import build as make\n",
        "def other(f): ...\nglobals()['ma' + 'ke'] = other\n",
        "def other(f): ...\ndef __getattr__(name): return other\n",
        "def other(f): ...\nmake = other\n",
        "class make: ...\ndef other(f): ...\n",
    ],
)
def test_functions_that_may_be_there_are_not_refused(text: str, here: Path) -> None:
    (here / "f.py").write_text(text)
    assert function_problem("f.py:make", here) is None


def test_functions_that_are_not_there_are_refused(here: Path) -> None:
    (here / "f.py").write_text("def mak(f): ...\n")
    assert "did you mean mak?" in str(function_problem("f.py:make", here))
