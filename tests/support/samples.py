"""Records of every shape: nulls, empties, every byte, odd headers, large values."""

from __future__ import annotations

import random
import time

from tests.support.clients.base import Sample

# Kafka's default max.message.bytes: the largest batch, header included, that a topic takes.
MAX_BATCH_BYTES = 1_048_588

# Close to the limit, with room for the batch and record headers of any client.
NEAR_LIMIT_BYTES = MAX_BATCH_BYTES - 200
BEYOND_LIMIT_BYTES = MAX_BATCH_BYTES + 1

EVERY_BYTE = bytes(range(256))


def incompressible(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def samples() -> list[Sample]:
    """A minute ago, one record a second, of every shape."""
    shapes: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
        (b"key", b"value", ()),
        (None, b"no key", ()),
        (b"deleted", None, ()),
        (None, None, ()),
        (b"empty value", b"", ()),
        (b"", b"empty key", ()),
        (b"", b"", ()),
        (EVERY_BYTE, EVERY_BYTE, ()),
        (b"headers", b"some", (("a", b"1"), ("b", b"two"), ("c", b""))),
        (b"headers", b"repeated names", (("a", b"1"), ("a", b"2"))),
        (b"headers", b"null value", (("nothing", None),)),
        (b"headers", b"binary", (("trace", bytes(range(128, 256))),)),
        ("klíč".encode(), "řeka Vltava 🌊".encode(), (("jméno", b"hodnota"),)),
        (b"compressible", b"the same words again and again " * 1000, ()),
        (b"incompressible", incompressible(20_000), ()),
        (b"key" * 5000, b"long key", ()),
        (b"last", b"value", ()),
    ]
    start_ms = int(time.time() * 1000) - 60_000
    return [
        Sample(key, value, headers, start_ms + index * 1000)
        for index, (key, value, headers) in enumerate(shapes)
    ]
