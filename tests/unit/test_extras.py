"""What is told to who lacks a package can be done, as long as no index has this one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from moldau.extras import how_to_install

ROOT = Path(__file__).parents[2]


def test_extras_that_are_named_are_there_and_installed_from_a_clone() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set()
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text()
        assert "pip install 'moldau" not in text, file
        assert "pip install moldau" not in text, file
        named.update(re.findall(r"how_to_install\([\"']([\w-]+)[\"']\)", text))
    assert {"spark", "postgresql", "mailalert"} <= named <= set(known)
    assert how_to_install("spark") == "pip install '.[spark]' in a clone"
