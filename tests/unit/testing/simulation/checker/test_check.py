"""All invariants over one history, and how a broken one is told."""

from __future__ import annotations

from tests.unit.testing.simulation.checker.told import PARTITION, Told

from moldau.testing.simulation.checker.check import UNEXPECTED, check
from moldau.testing.simulation.checker.violation import Violation


def test_an_empty_history_breaks_nothing() -> None:
    assert Told().broken == []


def test_an_error_that_nobody_expected_is_a_violation() -> None:
    told = Told()
    told.history.errors.append((1.5, "broker#1", "ValueError('wrong')"))
    (violation,) = check(told.history)
    assert violation == Violation(UNEXPECTED, "broker#1: ValueError('wrong')", at=1.5)


def test_a_violation_says_where_to_look() -> None:
    told = Told()
    told.sent(7, 3, acked=2.5)
    told.left()
    (violation,) = check(told.history)
    assert violation.partition == PARTITION
    assert str(violation) == (
        "acknowledged record lost: p/7 was acknowledged for offset 3 of orders-0, where nothing "
        "is now (at 2.500000 s)"
    )
