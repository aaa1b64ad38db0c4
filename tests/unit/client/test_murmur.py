"""Keys land where the Java producer puts them."""

import pytest

from moldau.client.producer.murmur import murmur2, partition_for_key

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
