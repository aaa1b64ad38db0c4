"""Keys land where the Java producer puts them; records without a key stick, then move."""

import random
from collections import Counter

import pytest

from moldau.client.partitioner import StickyPartitioner, murmur2, partition_for_key

# Printed by the Java client 4.3.1: Utils.murmur2(key), and its positive value modulo 12.
JAVA_HASHES = [
    (b"", 275646681, 9),
    (b"a", -1563381124, 4),
    (b"ab", 316155434, 2),
    (b"abc", 479470107, 3),
    (b"abcd", -1323649548, 8),
    (b"21", -973932308, 0),
    (b"foobar", -790332482, 6),
    (b"a-little-bit-long-string", -985981536, 8),
    (b"a-little-bit-longer-string", -1486304829, 11),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 5),
    (bytes.fromhex("fffe80000190c3"), -1461042253, 7),
    ("Vltava řeka".encode(), -1088092989, 11),
]


@pytest.mark.parametrize(("key", "java_hash", "partition_of_12"), JAVA_HASHES)
def test_keys_hash_as_in_the_java_client(key: bytes, java_hash: int, partition_of_12: int) -> None:
    assert murmur2(key) == java_hash % 2**32
    assert partition_for_key(key, 12) == partition_of_12


def test_keyed_records_ignore_which_partitions_have_a_leader() -> None:
    partitioner = StickyPartitioner()
    assert partitioner.partition("t", b"foobar", 12, [0]) == 6


def test_records_without_a_key_stay_until_their_batch_is_closed() -> None:
    partitioner = StickyPartitioner(random.Random(7))
    everywhere = range(8)
    first = partitioner.partition("t", None, 8, everywhere)
    assert {partitioner.partition("t", None, 8, everywhere) for _ in range(50)} == {first}

    partitioner.batch_closed("t", (first + 1) % 8)  # somebody else's batch
    assert partitioner.partition("t", None, 8, everywhere) == first

    seen: Counter[int] = Counter()
    for _ in range(800):
        chosen = partitioner.partition("t", None, 8, everywhere)
        seen[chosen] += 1
        partitioner.batch_closed("t", chosen)
    assert set(seen) == set(everywhere)
    assert min(seen.values()) > 50


def test_records_without_a_key_avoid_partitions_without_a_leader() -> None:
    partitioner = StickyPartitioner(random.Random(7))
    first = partitioner.partition("t", None, 4, [0, 1, 2, 3])
    left = [p for p in range(4) if p != first]
    assert partitioner.partition("t", None, 4, left) in left
    assert partitioner.partition("u", None, 4, []) in range(4)
