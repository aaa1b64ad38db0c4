"""The batch headers of a partition directory, read straight from its files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HEADER = struct.Struct(">qiibIhiqqqhii")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class StoredBatch:
    base_offset: int
    codec: str
    records: int
    size: int
    producer_id: int


def stored_batches(directory: Path) -> Iterator[StoredBatch]:
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        position = 0
        while position + HEADER.size <= len(data):
            base_offset, length, _, magic, _, attributes, *_, producer_id, _, _, count = (
                HEADER.unpack_from(data, position)
            )
            if length == 0:  # a preallocated file ends in zeros
                break
            assert magic == 2
            yield StoredBatch(base_offset, CODECS[attributes & 7], count, length + 12, producer_id)
            position += length + 12
