"""Every example of docs/client.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.target import Target

from moldau import Producer

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


def cases(*, kafka_only: bool) -> list[Any]:
    return [
        pytest.param(example, id=f"line {example.line}")
        for example in examples()
        if example.kafka_only is kafka_only
    ]


def test_there_are_examples() -> None:
    assert len(examples()) >= 10


@pytest.mark.parametrize("example", cases(kafka_only=False))
def test_example(example: Example, cluster: Target) -> None:
    if "send_offsets_to_transaction" in example.code:
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            producer.send("orders", b"an example further up on the page").result(60)
    run(example, cluster)


@pytest.mark.parametrize("example", cases(kafka_only=True))
def test_example_of_what_moldau_does_not_do_yet(example: Example, kafka: Target) -> None:
    run(example, kafka)


def run(example: Example, cluster: Target) -> None:
    assert ADDRESS in example.code or "bootstrap" not in example.code
    code = example.code.replace(ADDRESS, cluster.bootstrap)
    # A busy machine gets more time.
    code = re.sub(r"(timeout=|wait\()(1\.0|10|30)\b", r"\g<1>60", code)
    # Compiled with the lines of the page, so that a failure points there.
    exec(compile("\n" * (example.line - 1) + code, str(PAGE), "exec"), {"__name__": "example"})
