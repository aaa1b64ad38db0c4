"""The example of docs/simulation.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[4] / "docs" / "simulation.md"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    return names


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_example_runs_as_it_stands(example: dict[str, Any], seed: int) -> None:
    example["test_no_order_is_lost_or_doubled_in_a_power_cut"](seed)
