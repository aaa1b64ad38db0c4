"""Every example of docs/simulation.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"


def examples() -> list[Any]:
    text = PAGE.read_text()
    found = []
    for match in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        line = text[: match.start()].count("\n") + 2
        found.append(pytest.param(line, match[1], id=f"line {line}"))
    return found


@pytest.mark.parametrize(("line", "code"), examples())
def test_example(line: int, code: str) -> None:
    space: dict[str, Any] = {"__name__": "example"}
    # Compiled with the lines of the page, so that a failure points there.
    exec(compile("\n" * (line - 1) + code, str(PAGE), "exec"), space)
    tests = [function for name, function in space.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test()


def test_there_are_examples() -> None:
    assert len(examples()) >= 3
