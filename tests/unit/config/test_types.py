"""Values as Kafka prints them, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.config.types import format_double, format_value, parse_list


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1.0, "1.0"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (0.001, "0.001"),
        (0.00001, "1.0E-5"),
        (12_345_678.9, "1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_doubles_are_printed_as_java_prints_them(value: float, text: str) -> None:
    assert format_double(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_double_reads_back_as_itself(value: float) -> None:
    assert float(format_double(value)) == value


@given(st.lists(st.text("abc.:*", min_size=1), unique=True))
def test_a_printed_list_reads_back_as_itself(items: list[str]) -> None:
    assert parse_list(format_value(tuple(items))) == tuple(items)
