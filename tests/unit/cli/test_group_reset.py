"""Goals of ``moldau group reset-offsets`` and the spans of time that reports show."""

from __future__ import annotations

import pytest

from moldau.cli.exit_codes import UsageError
from moldau.cli.group_report import show_ms
from moldau.cli.group_reset import To, goal_of, parse_topics, read_offsets
from moldau.model import TopicPartition

NOTHING = {
    "earliest": False,
    "latest": False,
    "current": False,
    "offset": None,
    "timestamp": None,
    "duration": None,
    "shift": None,
    "file": None,
}


@pytest.mark.parametrize("given", [{}, {"earliest": True, "shift": 1}, {"offset": 0, "shift": 0}])
def test_exactly_one_goal_is_wanted(given: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="in one way"):
        goal_of(**{**NOTHING, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "to"),
    [
        ({"earliest": True}, To.EARLIEST),
        ({"offset": 0}, To.OFFSET),
        ({"shift": -3}, To.SHIFT),
        ({"timestamp": "2025-01-31T12:00:00Z"}, To.TIMESTAMP),
        ({"duration": "15m"}, To.TIMESTAMP),
    ],
)
def test_a_goal_is_taken_from_its_option(given: dict[str, object], to: To) -> None:
    assert goal_of(**{**NOTHING, **given}).to is to  # type: ignore[arg-type]


def test_offsets_are_read_from_commas_or_tabs() -> None:
    text = 'orders,0,12\n\n"orders",1,7\naudit\t3\t9\t1\n'
    assert read_offsets(text) == {
        TopicPartition("orders", 0): 12,
        TopicPartition("orders", 1): 7,
        TopicPartition("audit", 3): 9,
    }
    with pytest.raises(ValueError, match="line 2"):
        read_offsets("orders,0,1\norders,0\n")


def test_topics_may_name_partitions() -> None:
    assert parse_topics(["orders", "audit:0,2"]) == {"orders": None, "audit": [0, 2]}
    with pytest.raises(UsageError):
        parse_topics(["orders:x"])


@pytest.mark.parametrize(
    ("span_ms", "shown"),
    [
        (None, None),
        (0, "0s"),
        (850, "850ms"),
        (12_300, "12s"),
        (200_000, "3m 20s"),
        (2 * 86_400_000 + 4 * 3_600_000 + 60_000, "2d 4h"),
    ],
)
def test_spans_are_shown_in_their_two_largest_units(span_ms: int | None, shown: str | None) -> None:
    assert show_ms(span_ms) == shown
