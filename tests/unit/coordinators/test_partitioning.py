"""Values printed by a Java program: ``s.hashCode()`` and ``Utils.abs(s.hashCode()) % n``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.coordinators.partitioning import java_hash, partition_for

FROM_JAVA = [
    ("", 0, 0, 0),
    ("a", 97, 47, 6),
    ("group", 98629247, 47, 3),
    ("my-consumer-group", 1513705513, 13, 5),
    ("polygenelubricants", -2147483648, 0, 0),
    ("gruppe-ä-☃", -1284545592, 42, 1),
    ("😀 emoji", -1572615351, 1, 6),
    ("console-consumer-12345", 158455506, 6, 6),
    ("connect-cluster", 1440343063, 13, 5),
]


@pytest.mark.parametrize(("group", "expected", "of_50", "of_7"), FROM_JAVA)
def test_same_partition_as_kafka(group: str, expected: int, of_50: int, of_7: int) -> None:
    assert java_hash(group) == expected
    assert partition_for(group, 50) == of_50
    assert partition_for(group, 7) == of_7


@given(st.text(), st.integers(1, 100))
def test_every_group_has_a_partition(group: str, partitions: int) -> None:
    assert 0 <= partition_for(group, partitions) < partitions
