"""The digest of a world, and its events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.testing.simulation.recorder import Event, Recorder

Happening = tuple[float, str, str, int]


def digest(happenings: list[Happening], *, keep: bool = False, ask_at: int = -1) -> str:
    time = 0.0
    recorder = Recorder(lambda: time, keep=keep)
    for number, (time, node, kind, detail) in enumerate(happenings):  # noqa: B007 - the clock reads it
        recorder.record(node, kind, detail)
        if number == ask_at:
            assert recorder.digest
    return recorder.digest


HAPPENINGS: list[Happening] = [(number / 7, "node", "kind", number) for number in range(2500)]


def test_the_digest_follows_from_the_events_alone() -> None:
    expected = digest(HAPPENINGS)
    assert digest(HAPPENINGS, keep=True) == expected
    assert digest(HAPPENINGS, ask_at=1234) == expected


@pytest.mark.parametrize("index", [0, 999, 1000, 2499])
@pytest.mark.parametrize("field", range(4))
def test_any_difference_shows(index: int, field: int) -> None:
    other: list[Happening] = list(HAPPENINGS)
    changed = list(other[index])
    changed[field] = (1e9, "x", "x", -1)[field]
    other[index] = tuple(changed)  # type: ignore[assignment]
    assert digest(other) != digest(HAPPENINGS)


@given(st.permutations(range(5)))
def test_the_order_counts(order: list[int]) -> None:
    same = [(1.0, "n", "k", number) for number in range(5)]
    other = [(1.0, "n", "k", number) for number in order]
    assert (digest(same) == digest(other)) == (order == sorted(order))


def test_events_are_kept_only_on_demand() -> None:
    recorder = Recorder(lambda: 1.5)
    recorder.record("node", "does", "something")
    recorder.tell("node", "says", "something")
    assert recorder.events == []
    recorder = Recorder(lambda: 1.5, keep=True)
    recorder.record("node", "does", "something", 7)
    recorder.tell("node", "says", "a word")
    assert recorder.events == [
        Event(1.5, "node", "does", ("something", 7)),
        Event(1.5, "node", "says", ("a word",)),
    ]
    assert str(recorder.events[0]) == "    1.500000  node         does         something 7"


def test_what_is_told_to_the_reader_does_not_count() -> None:
    first, second = Recorder(lambda: 0.0, keep=True), Recorder(lambda: 0.0, keep=True)
    second.tell("node", "says", "a log line with an address: 0x7f")
    assert first.digest == second.digest


def test_nothing_happens_after_the_end() -> None:
    recorder = Recorder(lambda: 0.0, keep=True)
    recorder.record("node", "does", "something")
    digest = recorder.digest
    recorder.close()
    recorder.record("node", "does", "more")
    recorder.tell("node", "says", "more")
    assert recorder.digest == digest
    assert len(recorder.events) == 1
