"""``python -m bench.second_pass``: what looking at 1 MB twice costs, for its CRC and to write it.

A broker reads a large batch into memory, checks its CRC and writes it. One pass could do both,
piece by piece, while a piece is in the processor's cache. Microseconds, medians and the lowest.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable

from crc32c import crc32c

SIZE = 1_000_000
PIECE = 1 << 16
TURNS = 100


class Appends:
    """A file that grows, or has its space already."""

    def __init__(self, descriptor: int, *, preallocate: bool = False) -> None:
        os.ftruncate(descriptor, 0)
        if preallocate:
            os.posix_fallocate(descriptor, 0, SIZE * TURNS)
        self._descriptor = descriptor
        self._end = 0

    def write(self, data: memoryview) -> None:
        self._end += os.pwrite(self._descriptor, data, self._end)


def measure(title: str, work: Callable[[memoryview], object], batches: list[memoryview]) -> None:
    times = []
    for turn in range(TURNS):
        started = time.perf_counter()
        work(batches[turn % len(batches)])
        times.append((time.perf_counter() - started) * 1e6)
    print(f"{title:48}{statistics.median(times):6.0f} ({min(times):.0f})")


def main() -> None:
    batches = [memoryview(os.urandom(SIZE)) for _ in range(40)]
    just_read = batches[:1]  # a batch that has just been received is in the cache
    with tempfile.NamedTemporaryFile() as file:
        descriptor = file.fileno()
        measure("CRC, out of memory", crc32c, batches)
        measure("CRC, out of the cache", crc32c, just_read)
        grows = Appends(descriptor)
        measure("write at the end of a file", grows.write, just_read)
        reserved = Appends(descriptor, preallocate=True)
        measure("write into space that is reserved", reserved.write, just_read)
        twice = Appends(descriptor)

        def one_after_the_other(batch: memoryview) -> None:
            crc32c(batch)
            twice.write(batch)

        measure("CRC, then write", one_after_the_other, just_read)
        once = Appends(descriptor)

        def in_pieces(batch: memoryview) -> None:
            crc = 0
            for start in range(0, SIZE, PIECE):
                piece = batch[start : start + PIECE]
                crc = crc32c(piece, crc)
                once.write(piece)

        measure("CRC and write, 64 KB at a time", in_pieces, just_read)


if __name__ == "__main__":
    main()
