"""Every example of docs/client.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.target import Target

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
ADDRESS = "127.0.0.1:9092"
KAFKA_ONLY = "<!-- only Apache Kafka -->"


class Example(NamedTuple):
    line: int
    code: str
    kafka_only: bool


def examples() -> list[Example]:
    text = PAGE.read_text()
    found = []
    for match in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        before = text[: match.start()]
        found.append(Example(before.count("\n") + 2, match[1], before.endswith(f"{KAFKA_ONLY}\n")))
    return found


EXAMPLES = [pytest.param(example, id=f"line {example.line}") for example in examples()]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example: Example, cluster: Target) -> None:
    if example.kafka_only and cluster.name == "Moldau":
        pytest.skip("Moldau's broker does not do this yet")
    assert ADDRESS in example.code or "bootstrap" not in example.code
    code = example.code.replace(ADDRESS, cluster.bootstrap)
    # Compiled with the lines of the page, so that a failure points there.
    exec(compile("\n" * (example.line - 1) + code, str(PAGE), "exec"), {"__name__": "example"})
