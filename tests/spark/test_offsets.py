"""Ranges cover every offset once, limits are kept, filters leave out only what cannot match."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from moldau.model import TopicPartition
from moldau.spark.filters import narrow, pushed
from moldau.spark.offsets import (
    OffsetError,
    available,
    limited,
    parse_offsets,
    plan,
    to_nested,
)

PARTITIONS = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(3)]


@st.composite
def starts_and_ends(draw: st.DrawFn) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    chosen = draw(st.lists(st.sampled_from(PARTITIONS), unique=True))
    start = {partition: draw(st.integers(0, 1000)) for partition in chosen}
    end = {partition: start[partition] + draw(st.integers(-5, 500)) for partition in chosen}
    return start, end


@given(
    starts_and_ends(),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(1, 100),
)
def test_ranges_cover_every_offset_once(
    offsets: tuple[dict[TopicPartition, int], dict[TopicPartition, int]],
    least: int | None,
    most: int | None,
) -> None:
    start, end = offsets
    ranges = plan(start, end, min_partitions=least, max_records=most)
    covered = [(one.topic_partition, at) for one in ranges for at in range(one.start, one.end)]
    wanted = [(part, at) for part in sorted(end) for at in range(start[part], end[part])]
    assert covered == wanted
    assert all(one.size > 0 for one in ranges)
    if most is not None:
        assert all(one.size <= most for one in ranges)
    if least is None and most is None:
        assert len(ranges) == sum(end[part] > start[part] for part in end)


@given(starts_and_ends(), st.integers(1, 400))
def test_a_limited_batch_goes_on_and_keeps_its_limit(
    offsets: tuple[dict[TopicPartition, int], dict[TopicPartition, int]], most: int
) -> None:
    start, latest = offsets
    end = limited(start, latest, most)
    taken = available(start, end)
    # A share below one is one: a partition adds at most that to the limit.
    assert taken <= max(most, 0) + len(latest)
    assert (taken > 0) == (available(start, latest) > 0)
    assert all(end[part] <= latest[part] for part in latest)


def test_tasks_are_shared_out_by_size() -> None:
    a, b = PARTITIONS[:2]
    ranges = plan({a: 0, b: 0}, {a: 900, b: 100}, min_partitions=10)
    assert [one.size for one in ranges] == [100] * 10


@given(st.dictionaries(st.sampled_from(PARTITIONS), st.integers(-2, 2**62)))
def test_offsets_survive_json(offsets: dict[TopicPartition, int]) -> None:
    import json

    assert parse_offsets(json.dumps(to_nested(offsets))) == offsets


@pytest.mark.parametrize("text", ["", "[]", '{"a":3}', '{"a":{"x":1}}', '{"a":{"0":true}}'])
def test_other_text_is_no_offsets(text: str) -> None:
    with pytest.raises(OffsetError):
        parse_offsets(text)


COMPARISONS: list[tuple[type[Filter], str]] = [
    (EqualTo, "=="),
    (GreaterThan, ">"),
    (GreaterThanOrEqual, ">="),
    (LessThan, "<"),
    (LessThanOrEqual, "<="),
]


def nowhere(_partitions: Collection[TopicPartition], _timestamp: int) -> dict[TopicPartition, int]:
    """Returns no offset for any timestamp."""
    return {}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["offset", "partition"]),
            st.sampled_from(COMPARISONS),
            st.integers(-1, 12),
        ),
        max_size=4,
    )
)
def test_filters_leave_exactly_what_matches(
    filters: list[tuple[str, tuple[type, str], int]],
) -> None:
    start = dict.fromkeys(PARTITIONS, 2)
    end = dict.fromkeys(PARTITIONS, 10)
    bounds = pushed([kind((column,), value) for column, (kind, _), value in filters])
    found = narrow(bounds, start, end, nowhere)
    rows = {(one.topic_partition, at) for one in plan(*found) for at in range(one.start, one.end)}
    condition = " and ".join(f"{column} {sign} {value}" for column, (_, sign), value in filters)
    matching = {
        (part, offset)
        for part in PARTITIONS
        for offset in range(2, 10)
        if eval(condition or "True", {"partition": part.partition, "offset": offset})
    }
    assert rows == matching


def test_topics_and_lists_of_partitions_are_bounds_and_other_filters_are_not() -> None:
    bounds = pushed(
        [
            EqualTo(("topic",), "a"),
            In(("partition",), (0, 2)),
            IsNotNull(("value",)),
            Not(EqualTo(("offset",), 3)),
        ]
    )
    start, _ = narrow(bounds, dict.fromkeys(PARTITIONS, 0), dict.fromkeys(PARTITIONS, 9), nowhere)
    assert list(start) == [TopicPartition("a", 0), TopicPartition("a", 2)]


def test_the_first_timestamp_is_looked_up_and_the_last_is_no_bound() -> None:
    when = datetime(2026, 1, 1, 0, 0, 0, 1500, tzinfo=UTC)
    asked = []
    a, b = PARTITIONS[:2]

    def at(partitions: object, millis: int) -> dict[TopicPartition, int]:
        asked.append(millis)
        return {a: 4, b: -1}

    bounds = pushed([GreaterThan(("timestamp",), when), LessThan(("timestamp",), when)])
    start, end = narrow(bounds, {a: 0, b: 0}, {a: 9, b: 9}, at)
    assert asked == [1767225600001]
    assert (start, end) == ({a: 4, b: 9}, {a: 9, b: 9})
