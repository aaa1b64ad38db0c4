"""What users' own code raises is one sentence with the key and the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.spark.pipeline.failures import PipelineFailedError
from moldau.spark.pipeline.frames import build_frames
from moldau.spark.pipeline.parse import parse_pipeline

FILE = """\
name = "copy"

[[sources]]
name = "people"
query = '''
SELECT 1 AS id
'''
database = "sqlite://"

[[steps]]
name = "made"
from = "people"
python = "f.py:make"

[[sinks]]
from = "made"
console = true
"""


class NoSpark:
    """Takes rows, and is the frame that it makes of them."""

    def createDataFrame(self, *_: Any) -> NoSpark:  # noqa: N802 - Spark's name
        return self

    def createOrReplaceTempView(self, _: str) -> None: ...  # noqa: N802


def failing(text: str, folder: Path) -> str:
    spark: Any = NoSpark()
    with pytest.raises(PipelineFailedError) as caught:
        build_frames(parse_pipeline(text, str(folder / "copy.toml")), spark)
    said = str(caught.value)
    assert "\n" not in said
    return said.removeprefix(f"{folder}/")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no such\\nthing')", "ValueError: no such (f.py:2)"),
        ("return frame.nope", "AttributeError: 'NoSpark' object has no attribute 'nope' (f.py:2)"),
        ("raise KeyError", "KeyError (f.py:2)"),
    ],
)
def test_what_a_step_raises_is_one_sentence(body: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(f"def make(frame):\n    {body}\n")
    assert failing(FILE, tmp_path) == f"copy.toml:13: step made, python: {said}"


def test_a_function_that_is_not_there_and_one_that_makes_no_frame(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def make(frame):\n    return 3\n")
    assert "step made, python: TypeError: f.py:make of step made gave no" in failing(FILE, tmp_path)
    (tmp_path / "f.py").write_text("import nowhere_at_all\n")
    assert "step made, python: ModuleNotFoundError: No module" in failing(FILE, tmp_path)


def test_a_query_that_fails_is_one_sentence(tmp_path: Path) -> None:
    text = FILE.replace("SELECT 1 AS id", "SELECT 1 AS id FROM nowhere")
    said = failing(text, tmp_path)
    assert said.startswith("copy.toml:5: source people, query: (sqlite3.OperationalError) no such")
