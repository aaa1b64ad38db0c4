"""What the pages tell to install can be installed: from a clone, since no index has Moldau yet."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
COMMAND = re.compile(r"pip install (?:-c \S+ )?'\.\[([\w,-]+)\]'")


def commands(page: Path) -> list[list[str]]:
    """The extras of each command."""
    return [found.split(",") for found in COMMAND.findall(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_install_from_the_clone_and_name_extras_that_exist(page: Path) -> None:
    from_an_index = r"pip install [^`\n]*(?<![\w/])moldau\b(?![-./])"
    assert not re.findall(from_an_index, page.read_text())
    assert {name for extras in commands(page) for name in extras} <= set(EXTRAS)


def test_the_guides_to_spark_begin_with_it() -> None:
    for name in ("pipelines", "spark"):
        assert ["spark"] in commands(ROOT / "docs" / f"{name}.md")


@pytest.mark.skipif(find_spec("pip") is None, reason="there is no pip")
def test_pip_takes_what_the_page_says(tmp_path: Path) -> None:
    (found, *_) = COMMAND.finditer((ROOT / "docs" / "pipelines.md").read_text())
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    built = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=built)
    # Neither installed nor compiled: pip reads what there is to install, and for whom.
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", f".[{found[1]}]"],
        cwd=tmp_path,
        env={**os.environ, "MOLDAU_COMPILE": "0"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    if "No matching distribution found for setuptools" in done.stderr:
        pytest.skip("there is no index to take setuptools from")
    assert done.returncode == 0, done.stderr
    assert "Would install moldau-" in done.stdout
    assert "does not provide the extra" not in done.stderr
