"""What people type: offsets, durations, times, sizes, pairs."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.cli.parsing import (
    Anchor,
    StartAt,
    format_size,
    format_timestamp,
    parse_assignment,
    parse_duration_ms,
    parse_offset,
    parse_pair,
    parse_pairs,
    parse_size,
    parse_timestamp_ms,
    unescape,
)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", StartAt(Anchor.EARLIEST)),
        ("Beginning", StartAt(Anchor.EARLIEST)),
        ("latest", StartAt(Anchor.LATEST)),
        ("end", StartAt(Anchor.LATEST)),
        ("0", StartAt(Anchor.ABSOLUTE, 0)),
        ("42", StartAt(Anchor.ABSOLUTE, 42)),
        ("-10", StartAt(Anchor.FROM_END, 10)),
    ],
)
def test_offsets(text: str, start: StartAt) -> None:
    assert parse_offset(text) == start


@pytest.mark.parametrize("text", ["", "first", "1.5", "--1", "1e3"])
def test_an_offset_that_is_none_is_refused_with_the_allowed_forms(text: str) -> None:
    with pytest.raises(ValueError, match="earliest or latest"):
        parse_offset(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("90s", 90_000),
        ("15m", 900_000),
        ("15min", 900_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("250ms", 250),
        ("1.5h", 5_400_000),
        ("30", 30_000),
        ("0.5", 500),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "h", "1x", "1h 30", "-5m", "1h30"])
def test_a_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2025-01-31T12:00:00Z", 1738324800000),
        ("2025-01-31T12:00:00.250+00:00", 1738324800250),
        ("2025-01-31T13:00:00+01:00", 1738324800000),
        ("1738324800", 1738324800000),
        ("1738324800000", 1738324800000),
    ],
)
def test_points_in_time(text: str, milliseconds: int) -> None:
    assert parse_timestamp_ms(text) == milliseconds


def test_a_time_without_zone_is_local() -> None:
    local = datetime(2025, 1, 31, 12).astimezone()
    assert parse_timestamp_ms("2025-01-31T12:00:00") == local.timestamp() * 1000


@pytest.mark.parametrize("text", ["", "yesterday", "12:00", "2025-13-01", "-5"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a point in time"):
        parse_timestamp_ms(text)


@given(st.integers(min_value=0, max_value=4_102_444_800_000))
def test_a_formatted_timestamp_reads_back(timestamp_ms: int) -> None:
    assert parse_timestamp_ms(format_timestamp(timestamp_ms)) == timestamp_ms


def test_a_formatted_timestamp_is_utc() -> None:
    moment = datetime(2025, 1, 31, 12, 0, 0, 7000, tzinfo=UTC)
    assert format_timestamp(round(moment.timestamp() * 1000)) == "2025-01-31T12:00:00.007Z"


@pytest.mark.parametrize(
    ("text", "size"),
    [("512", 512), ("16k", 16384), ("1MB", 1 << 20), ("1.5 KiB", 1536), ("2GiB", 2 << 30)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "big", "-1", "1TB"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KB"), (3 << 40, "3.0 TB")]
)
def test_sizes_are_printed_short(size: int, text: str) -> None:
    assert format_size(size) == text


def test_pairs() -> None:
    assert parse_pair("a=b=c") == ("a", "b=c")
    assert parse_pair("a=") == ("a", "")
    assert parse_pairs(["a=1", "b=2", "a=3"]) == {"a": "3", "b": "2"}


@pytest.mark.parametrize("text", ["a", "=b", " =b"])
def test_a_pair_without_name_or_sign_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="name=value"):
        parse_pair(text)


def test_escapes() -> None:
    assert unescape(r"\t\n\0\\n\x41\q") == "\t\n\0\\nA\\q"


def test_assignments() -> None:
    assert parse_assignment("0:1,2") == (0, (1, 2))
    for wrong in ("0", "0:", "a:1", "0:1,b"):
        with pytest.raises(ValueError, match="is not an assignment"):
            parse_assignment(wrong)
