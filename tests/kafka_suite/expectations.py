"""What of Kafka's tests is known to fail on Moldau, and why: gaps.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.kafka_suite.harness import Result
from tests.kafka_suite.selection import read_list

GAPS = Path(__file__).parent / "gaps.toml"


@dataclass(frozen=True)
class Gap:
    """Something that Kafka does and Moldau does not, and the tests that show it."""

    number: int
    title: str
    reason: str
    tests: tuple[str, ...]
    sometimes: bool = False
    """Whether it depends on the machine, and a pass is as good as a failure."""

    def expects(self, result: Result) -> bool:
        return self.sometimes or not result.passed


def read_gaps() -> tuple[Gap, ...]:
    rows = tomllib.loads(GAPS.read_text()).get("gap", [])
    return tuple(
        Gap(
            number=row["number"],
            title=row["title"],
            reason=row["reason"],
            tests=(*row.get("tests", ()), *_tests_of(row.get("lists", ()))),
            sometimes=row.get("sometimes", False),
        )
        for row in rows
    )


def _tests_of(lists: Iterable[str]) -> list[str]:
    return sorted({test for name in lists for test in read_list(name)})


@dataclass
class Verdict:
    """Results, set against what was expected of them."""

    passed: list[Result] = field(default_factory=list)
    known: list[tuple[Result, Gap]] = field(default_factory=list)
    failed: list[Result] = field(default_factory=list)
    """These must pass, and did not."""
    closed: list[tuple[Result, Gap]] = field(default_factory=list)
    """These pass, and gaps.toml says that they do not."""

    @property
    def as_expected(self) -> bool:
        return not self.failed and not self.closed


def judge(results: Iterable[Result], gaps: Sequence[Gap]) -> Verdict:
    gap_of = {test: gap for gap in gaps for test in gap.tests}
    verdict = Verdict()
    for result in results:
        gap = gap_of.get(result.test)
        if result.passed:
            verdict.passed.append(result)
            if gap is not None and not gap.expects(result):
                verdict.closed.append((result, gap))
        elif gap is not None:
            verdict.known.append((result, gap))
        else:
            verdict.failed.append(result)
    return verdict
