"""The tour of docs/pipelines.md, and what would be found if a block of it were wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.spark.processes import at_work_in
from tests.spark.tour import PAGE, TourError, blocks, cells, compare, walk
from tests.support.waiting import eventually

TABLE = """\
 SINK   ROWS  BATCH  LAST
 ──────────────────────────────────────
 valid     3      7  2026-11-02T09:05:00Z
"""


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Tables have less room for long names than a reader's folder would leave them."""
    with TemporaryDirectory() as name:
        yield Path(name)


@pytest.mark.timeout(2400)
def test_every_block_of_the_tour_is_as_it_says(short_path: Path) -> None:
    walk(PAGE.read_text(), short_path, compare)
    eventually(lambda: not at_work_in(short_path), "something of it still runs")


def page(*parts: tuple[str, str]) -> str:
    return "\n".join(f"Words.\n\n```{language}\n{text}\n```\n" for language, text in parts)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([("sh", "echo one"), ("text", "two")], "but it is\none"),
        ([("sh", "echo one")], "it shows"),
        ([("sh", "true; false")], "ends with 1"),
        ([("sh", "moldau pipeline walk"), ("text", "x")], "No such command"),
        ([("toml", 'name = "x"')], "no file with a name"),
        ([("python", "# a.py\nprint(1)"), ("text", "1")], "no file with a name"),
        ([("ruby", "puts 1")], "nobody knows how to run 'ruby'"),
        ([("text", "one")], "nothing before it"),
        ([("sh", "echo one"), ("text", "one"), ("text", "one")], "nothing before it"),
    ],
)
def test_a_block_that_is_wrong_is_found(
    parts: list[tuple[str, str]], told: str, tmp_path: Path
) -> None:
    with pytest.raises(TourError, match=told):
        walk(page(*parts), tmp_path, compare)


def test_blocks_follow_one_another_in_their_folder(tmp_path: Path) -> None:
    walk(
        page(
            ("sh", "mkdir ../shop && cd ../shop"),
            ("python", "# a.py\nprint(1, 2.5)"),
            ("sh", "python a.py\npwd"),
            ("text", "1 2.5\n" + str(tmp_path / "shop")),
        ),
        tmp_path,
        compare,
    )


def test_what_runs_have_of_their_own_need_not_be_equal() -> None:
    again = TABLE.replace("7", "8").replace("09:05:00Z", "10:11:12.345Z")
    assert cells(again.splitlines()) == cells(TABLE.splitlines())
    for wrong in (TABLE.replace("3", "4"), TABLE.replace("valid", "odd"), TABLE + "more\n"):
        assert cells(wrong.splitlines()) != cells(TABLE.splitlines())


def test_fences_without_a_counterpart_are_found() -> None:
    with pytest.raises(TourError, match="fences"):
        list(blocks("```sh\ntrue\n```\n\n```sh\ntrue\n"))
