"""The story of a life: everything around what was broken, and the milestones."""

from __future__ import annotations

from moldau.testing.simulation.checker.violation import Violation
from moldau.testing.simulation.recorder import Event
from moldau.testing.simulation.timeline import BYTES, tell

EVENTS = [
    Event(0.0, "broker", "starts", ("broker#1",)),
    *(Event(float(second), "broker", "append", (f"at {second}",)) for second in range(1, 21)),
    Event(20.5, "broker", "killed", ("broker#1",)),
    Event(20.6, "client", BYTES, ("broker", 17)),
    Event(20.7, "client", "says", ("to broker:", "asks PRODUCE")),
]


def words(lines: list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines]


def test_what_happened_around_a_violation_is_told() -> None:
    told = words(list(tell([Violation("lost", "a record is gone", at=10.0)], EVENTS)))
    assert told == [
        "What was broken:",
        "lost: a record is gone (at 10.000000 s)",
        "",
        "seconds who what",
        "0.000000 broker starts broker#1",
        "… 6 events left out",
        *(f"{second}.000000 broker append at {second}" for second in range(7, 12)),
        "… 9 events left out",
        "20.500000 broker killed broker#1",
        "… 1 events left out",
    ]


def test_a_violation_without_a_time_leaves_the_milestones() -> None:
    told = words(list(tell([Violation("lost", "a record is gone")], EVENTS)))
    assert told[1] == "lost: a record is gone"
    assert told[4:] == [
        "0.000000 broker starts broker#1",
        "… 20 events left out",
        "20.500000 broker killed broker#1",
        "… 1 events left out",
    ]


def test_words_stand_for_the_bytes_that_carry_them() -> None:
    told = words(list(tell([Violation("lost", "x", at=20.6)], EVENTS)))
    assert told[-2:] == [
        "20.500000 broker killed broker#1",
        "20.700000 client says to broker: asks PRODUCE",
    ]


def test_everything_is_told_on_demand() -> None:
    told = list(tell([], EVENTS, everything=True))
    assert told[0] == "Nothing was broken."
    assert told[3:] == [str(event) for event in EVENTS]


def test_of_many_violations_of_a_kind_the_first_are_told() -> None:
    violations = [Violation("lost", f"record {number} is gone") for number in range(100)]
    told = words(list(tell([*violations, Violation("torn", "one is torn")], EVENTS)))
    broken = told[1 : told.index("")]
    assert broken[:2] == ["lost: record 0 is gone", "lost: record 1 is gone"]
    assert broken[-2:] == ["torn: one is torn", "… and 95 more of these kinds"]
    every = words(list(tell(violations, EVENTS, everything=True)))
    assert "lost: record 99 is gone" in every
