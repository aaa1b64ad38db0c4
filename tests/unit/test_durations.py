"""Durations: every spelling, in one place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.durations import MS, SECOND, parse_duration_ms, parse_iso_duration_ms

UNITS = {"ms": 1, "s": 1000, "m": 60_000, " Minutes": 60_000, "h": 3_600_000, " days": 86_400_000}


@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(list(UNITS))), min_size=1))
def test_parts_add_up(parts: list[tuple[int, str]]) -> None:
    for space in ("", " "):
        text = space.join(f"{number}{unit}" for number, unit in parts)
        assert parse_duration_ms(text) == sum(number * UNITS[unit] for number, unit in parts)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1h30m", 5_400_000),
        (" 1.5 H ", 5_400_000),
        ("10 minutes", 600_000),
        ("interval 1 hour 30 minutes", 5_400_000),
        ("15min", 900_000),
        ("1w", 604_800_000),
        ("1500us", 2),
        ("PT1H30M", 5_400_000),
        ("p7d", 604_800_000),
        ("P1DT0.5S", 86_400_500),
    ],
)
def test_spellings(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "h", "5", "1x", "1h 30", "-5m", "1h30", "1,5h", "5m h", "interval", "٣s", "1e3s"]
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: use forms like 500ms"):
        parse_duration_ms(text)


def test_months_have_no_length() -> None:
    with pytest.raises(ValueError, match="'2 months' has no fixed length"):
        parse_duration_ms("2 months")


@pytest.mark.parametrize("text", ["P", "PT", "P1", "P1W", "PT1H30", "-PT1H", "1h", "P1DT"])
def test_iso_8601_is_what_java_reads(text: str) -> None:
    with pytest.raises(ValueError, match="is not an ISO 8601 duration"):
        parse_iso_duration_ms(text)


def test_bare_numbers_need_a_unit_from_their_place() -> None:
    assert parse_duration_ms("30", bare=SECOND) == 30_000
    assert parse_duration_ms("0.5", bare=SECOND) == 500
    assert parse_duration_ms("30", bare=MS) == 30
