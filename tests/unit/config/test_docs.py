"""The page of settings, and what importing the package may cost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from moldau.config.docs import configuration_page
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.group import GroupOptions
from moldau.config.options.ignored import ignored_names
from moldau.config.options.topic import TopicOptions

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_committed_page_is_current() -> None:
    assert PAGE.read_text() == configuration_page(), (
        "run: python -m moldau.config.docs > docs/configuration.md"
    )


def test_the_page_names_every_setting() -> None:
    page = configuration_page()

    for name in {*BrokerOptions.table, *TopicOptions.table, *GroupOptions.table, *ignored_names()}:
        assert f"`{name}`" in page


def test_every_table_row_has_as_many_cells_as_its_head() -> None:
    width = 0
    for line in configuration_page().splitlines():
        cells = line.count(" |") if line.startswith("|") else 0
        if line.startswith("|---"):
            continue
        assert not (cells and width) or cells == width, line
        width = cells


def test_the_module_prints_the_page() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "moldau.config.docs"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == configuration_page()


HEAVY = {"asyncio", "socket", "kio", "difflib", "ssl", "json", "tomllib"}
TABLES = {"moldau.config.options.log", "moldau.config.options.broker", "moldau.config.values"}


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("from moldau.config.values.broker import BrokerConfig; BrokerConfig.load()", HEAVY),
        ("import moldau.client.settings", TABLES),
        ("import moldau.client.admin", TABLES),
    ],
)
def test_nobody_loads_what_he_does_not_need(code: str, unwanted: set[str]) -> None:
    code = f"{code}; import sys; print(*{unwanted} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
