"""Time of Python per append and per read of a partition log, with and without the write itself.

    python -m bench.log_append [--count 200000]

The "no write" rows replace the file's append by a no-op: what is left is our own work, budgeted at
8 µs for a small batch. CPU time, user and system, because the machine may be shared; rows are
medians of several rounds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any, cast

from moldau.config.values.topic import TopicConfig
from moldau.log.partition.log import PartitionLog
from moldau.log.recovery.opening import load_log
from moldau.machine.disk import Buffer, Disk
from moldau.machine.real.disk import OsDisk, OsFile
from moldau.model import TopicPartition
from moldau.records.builder import build_batch
from moldau.records.record import Record

ROUNDS = 5
NOW_MS = 1_700_000_000_000


class NullDisk:
    """Files that only count what is appended to them."""

    def __init__(self) -> None:
        self._disk = OsDisk()

    def open(self, path: str, *, create: bool = False) -> Any:
        file = self._disk.open(path, create=create)
        return NullFile(file) if path.endswith(".log") else file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)


class NullFile:
    def __init__(self, file: OsFile) -> None:
        self._file = file
        self.size = 0

    def append(self, data: Buffer) -> None:
        self.size += len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    count = parser.parse_args().count
    for label, size, idempotent in (
        ("1 record of 100 bytes", 100, False),
        ("1 record of 100 bytes, idempotent", 100, True),
        ("1 record of 16 KB, idempotent", 16_384, True),
    ):
        n = count if size < 1000 else count // 20
        for write in (False, True):
            times = [one_round(size, n, idempotent=idempotent, write=write) for _ in range(ROUNDS)]
            kind = "with write" if write else "no write  "
            print(f"append {kind} {label}: {statistics.median(times):6.2f} µs")
    for label, times in read_rounds(count).items():
        print(f"read   {label}: {statistics.median(times):6.2f} µs")


def one_round(size: int, count: int, *, idempotent: bool, write: bool) -> float:
    """Microseconds per append."""
    with tempfile.TemporaryDirectory() as directory:
        log = open_log(directory, OsDisk() if write else cast("Disk", NullDisk()))
        batches = make_batches(size, count, idempotent=idempotent)
        append = log.append_as_leader
        start = time.process_time()
        for batch in batches:
            append(batch, 0, NOW_MS)
        elapsed = time.process_time() - start
        log.close()
    return elapsed / count * 1e6


def make_batches(size: int, count: int, *, idempotent: bool) -> list[memoryview]:
    template = build_batch([Record(0, NOW_MS, None, bytes(size))])
    if not idempotent:
        return [memoryview(bytearray(template)) for _ in range(count)]
    record = [Record(0, NOW_MS, None, bytes(size))]
    return [
        memoryview(build_batch(record, producer_id=1, producer_epoch=0, base_sequence=sequence))
        for sequence in range(count)
    ]


def open_log(directory: str, disk: Disk) -> PartitionLog:
    return load_log(disk, directory, TopicPartition("t", 0), TopicConfig(), now_ms=NOW_MS)


def read_rounds(count: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as directory:
        log = open_log(directory, OsDisk())
        for batch in make_batches(1000, count // 4, idempotent=False):
            log.append_as_leader(batch, 0, NOW_MS)
        end = log.log_end_offset
        n = 20_000
        cases: dict[str, Callable[[int], object]] = {
            "tail, all that is new": lambda i: log.read(end - 1 - i % 10, 1 << 20, end),
            "anywhere, 1 MB": lambda i: log.read(i * 7919 % (end - 2000), 1 << 20, end),
            "anywhere, 64 KB": lambda i: log.read(i * 7919 % (end - 2000), 1 << 16, end),
        }
        results: dict[str, list[float]] = {}
        for label, read in cases.items():
            for _ in range(ROUNDS):
                start = time.process_time()
                for number in range(n):
                    read(number)
                elapsed = time.process_time() - start
                results.setdefault(label, []).append(elapsed / n * 1e6)
        log.close()
    return results


if __name__ == "__main__":
    main()
