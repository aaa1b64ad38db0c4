"""What the pages about pipelines say can be done: files are valid, commands and modules exist."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from pathlib import Path

import pytest

from moldau.cli.app import build
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.samples.cases import load_cases
from moldau.spark.pipeline.sql.check import check_sql

DOCS = Path(__file__).parents[3] / "docs"
REFERENCE = (DOCS / "pipelines-reference.md").read_text()
PAGES = [DOCS / "pipelines.md", DOCS / "pipelines-reference.md"]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

SOURCE = """
[[sources]]
name = "records"
topic = "records"
value_format = "json"
value_schema = '''id BIGINT, amount DOUBLE, country STRING, order_id BIGINT, day DATE,
    ordered_at TIMESTAMP'''
"""
WINDOW = """
[[steps]]
name = "counts"
window = { from = "records", size = "1m", watermark = "1m", aggregate = { rows = "count(*)" } }
"""
STEP = """
[[steps]]
name = "valid"
sql = "SELECT value.* FROM records"
"""
SINK = """
[[sinks]]
from = "records"
parquet = "rows"
"""


def blocks(language: str) -> list[str]:
    return [one[2] for one in FENCE.finditer(REFERENCE) if one[1] == language]


def whole(block: str) -> str:
    """A part of a file, with what it is a part of."""
    text = block if re.search(r"^name = ", block.partition("[")[0], re.MULTILINE) else ""
    text = text or f'name = "page"\n{block}'
    return "".join(
        (
            text,
            SOURCE * ("[[sources]]" not in block),
            STEP * ('from = "valid"' in block),
            WINDOW * ("idle = " in block),
            SINK * ("[[sinks]]" not in block),
        )
    )


FILES = [block for block in blocks("toml") if "[[tests]]" not in block]
SAMPLES = [block for block in blocks("toml") if "[[tests]]" in block]


@pytest.mark.parametrize("block", FILES, ids=lambda block: block.splitlines()[0])
def test_files_are_valid(block: str, tmp_path: Path) -> None:
    text = whole(block)
    found = check_sql(parse_pipeline(text, "page.toml"))
    assert [*found.problems, *found.unread] == []


@pytest.mark.parametrize("block", SAMPLES)
def test_sample_rows_are_those_of_the_file_above(block: str, tmp_path: Path) -> None:
    (tmp_path / "visits.test.toml").write_text(block)
    pipeline = parse_pipeline(FILES[0], "visits.toml")
    assert [case.name for case in load_cases(tmp_path / "visits.test.toml", pipeline)]


def commands(page: Path) -> list[str]:
    """Whole commands in blocks, and in lines; an ellipsis stands for what everybody knows."""
    text = page.read_text()
    lines = [line for one in FENCE.finditer(text) if one[1] == "sh"
             for line in one[2].replace("\\\n", " ").splitlines()]  # fmt: skip
    lines += re.findall(r"`([^`\n]*moldau [^`\n]*)`", FENCE.sub("", text))
    found = [re.search(r"(?:^|[|;&] *|=\S+ )(moldau [a-z].*)", line) for line in lines]
    return [one[1] for one in found if one]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_commands(page: Path) -> None:
    found = commands(page)
    assert len(found) > 8
    for line in found:
        parsed(line)


def parsed(line: str) -> None:
    """``ValueError`` if the command line would refuse it."""
    words = shlex.split(re.sub(r"\[[A-Z]+\]", "", line).replace("…", "x"), comments=True)[1:]
    for sign in ("|", "<", ">", "&", ";"):
        words = words[: words.index(sign)] if sign in words else words
    command = build()
    context = command.context_class(command, info_name="moldau")
    try:
        while hasattr(command, "resolve_command"):
            name, command, words = command.resolve_command(context, words)
            context = command.context_class(command, info_name=name, parent=context)
        command.make_context(command.name, list(words))
    except Exception as error:
        # Its class is click's or typer's own copy of it, by version.
        if not hasattr(error, "format_message"):
            raise
        raise ValueError(f"{line}: {error.format_message()}") from None


@pytest.mark.parametrize("line", ["moldau pipeline walk x", "moldau pipeline run x --twice"])
def test_what_is_no_command_is_found(line: str) -> None:
    with pytest.raises(ValueError, match="No such"):
        parsed(line)


def test_programs_name_what_there_is() -> None:
    for block in blocks("python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module or "")
                assert all(hasattr(module, one.name) for one in node.names)


def test_blocks_are_of_kinds_that_are_looked_at() -> None:
    kinds = {one[1] for one in FENCE.finditer(REFERENCE)}
    assert kinds <= {"toml", "sh", "python", "text"}
    assert REFERENCE.count("```") == 2 * len(FENCE.findall(REFERENCE))
    indented = re.findall(r"^    (?=moldau |pip )", FENCE.sub("", REFERENCE), re.MULTILINE)
    assert not indented
