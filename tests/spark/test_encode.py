"""Columns become the bytes that the record builder makes of the same records, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moldau.client.producer.murmur import partition_for_key
from moldau.records.builder import BatchBuilder, record_size_bound
from moldau.spark.encode import Columns, encode, encode_headers
from moldau.spark.partitioning import NOWHERE, named_partitions, partitions_of_keys

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

contents = st.none() | st.binary(max_size=5) | st.sampled_from([bytes(63), bytes(64), bytes(9000)])
headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=3)
records = st.tuples(
    contents,
    contents,
    st.integers(0, 5) | st.integers(0, 2**62),
    st.none() | headers,
)


def one_by_one(rows: list[tuple[Any, ...]]) -> bytearray:
    builder = BatchBuilder()
    for key, value, timestamp, some in rows:
        builder.append(timestamp, key, value, some or ())
    return builder.build()


def by_column(columns: Columns) -> bytearray:
    encoded = encode(columns)
    builder = BatchBuilder()
    builder.fill(encoded.data, encoded.count, encoded.base_timestamp, encoded.max_timestamp)
    return builder.build()


@given(st.lists(records, min_size=1, max_size=80), st.booleans(), st.booleans(), st.booleans())
@example([(None, None, 0, None)], True, True, True)
@example([(None, b"x", 0, [("", None)])] * 70, False, False, True)
def test_batches_are_what_the_builder_makes(
    rows: list[tuple[Any, ...]], with_keys: bool, with_times: bool, with_headers: bool
) -> None:
    rows = [
        (
            key if with_keys else None,
            value,
            timestamp if with_times else 7,
            some if with_headers else None,
        )
        for key, value, timestamp, some in rows
    ]
    keys, values, times, some = (list(column) for column in zip(*rows, strict=True))
    columns = Columns(
        pa.array(values, pa.binary()),
        pa.array(keys, pa.binary()) if with_keys else None,
        np.array(times, np.int64) if with_times else 7,
        encode_headers(header_column(some)) if with_headers else None,
    )
    assert by_column(columns) == one_by_one(rows)
    bounds = [record_size_bound(key, value, some or ()) for key, value, _, some in rows]
    assert (columns.sizes() >= np.array(bounds)).all()


@given(st.lists(records, min_size=1, max_size=40), st.data())
def test_rows_are_taken_and_sliced_as_columns(rows: list[tuple[Any, ...]], data: Any) -> None:
    keys, values, times, some = (list(column) for column in zip(*rows, strict=True))
    columns = Columns(
        pa.array([None, *values], pa.binary())[1:],
        pa.array([b"", *keys], pa.binary())[1:],
        np.array(times, np.int64),
        encode_headers(header_column([[("not", b"this")], *some])[1:]),
    )
    order = data.draw(st.permutations(range(len(rows))))
    start = data.draw(st.integers(0, len(rows) - 1))
    stop = data.draw(st.integers(start + 1, len(rows)))
    taken = columns.take(np.array(order)).slice(start, stop)
    assert by_column(taken) == one_by_one([rows[place] for place in order][start:stop])


def test_numbers_beyond_the_tables_are_encoded_too() -> None:
    values = [b"%d" % number for number in range(40_000)]
    times = [1_700_000_000_000 - 3 * number for number in range(40_000)]
    columns = Columns(pa.array(values), None, np.array(times), None)
    rows = list(zip([None] * 40_000, values, times, [None] * 40_000, strict=True))
    assert by_column(columns) == one_by_one(rows)


def test_a_header_needs_a_key() -> None:
    column = pa.array([[{"key": None, "value": b"x"}]], HEADERS)
    with pytest.raises(ValueError, match="null for its key"):
        encode_headers(column)


@given(
    st.lists(st.binary(max_size=40) | st.sampled_from([bytes(256), bytes(257), b"\xff" * 999])),
    st.integers(1, 1000),
    st.integers(0, 3),
)
def test_keys_find_the_partitions_that_they_find_alone(
    keys: list[bytes], partitions: int, skipped: int
) -> None:
    found = partitions_of_keys(pa.array(keys, pa.binary())[skipped:], partitions)
    assert found.tolist() == [partition_for_key(key, partitions) for key in keys[skipped:]]


def test_named_partitions_must_be_there() -> None:
    column = pa.array([2, None, 0], pa.int32())
    assert named_partitions("t", 3, column).tolist() == [2, NOWHERE, 0]
    for wrong in (3, -1):
        with pytest.raises(Exception, match=f"partition {wrong}"):
            named_partitions("t", 3, pa.array([0, wrong], pa.int32()))


def header_column(rows: list[Any]) -> pa.Array:
    return pa.array(
        [row and [{"key": key, "value": value} for key, value in row] for row in rows], HEADERS
    )
