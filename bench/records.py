"""Records per second through the record batch reader and builder, compiled and plain.

    python -m bench.records [--values 100] [--count 150] [--compression none]

Starts itself once per way, so that both are measured in the same minute on the same machine. Counts
CPU time and prints the best of several rounds: other work only ever makes a round slower.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import subprocess
import sys
from collections.abc import Callable
from time import process_time

from moldau.records.builder import BatchBuilder, build_batch
from moldau.records.compression import Compression
from moldau.records.native import is_compiled
from moldau.records.reader import read_batch_header, read_columns, read_payload, read_records
from moldau.records.record import Record
from moldau.records.scan import record_spans
from moldau.records.walk import RecordWalk
from moldau.source import VARIABLE

ROUNDS = 9
RECORDS_PER_ROUND = 60_000


def records_per_second(work: Callable[[], object], count: int) -> float:
    repetitions = max(1, RECORDS_PER_ROUND // count)
    best = float("inf")
    for _ in range(ROUNDS):
        start = process_time()
        for _ in range(repetitions):
            work()
        best = min(best, process_time() - start)
    return count * repetitions / best


def measure(value_size: int, count: int, codec: Compression) -> None:
    generator = random.Random(1)
    words = [generator.randbytes(6).hex().encode() for _ in range(500)]
    text = b" ".join(generator.choices(words, k=value_size * count // 13 + 1))
    records = [
        Record(
            n,
            1_700_000_000_000 + n // 10,
            b"key-%08d" % n,
            text[n * value_size : (n + 1) * value_size],
        )
        for n in range(count)
    ]
    batch = bytes(build_batch(records, compression=codec))
    header = read_batch_header(batch)
    payload = read_payload(batch, 0, header)

    def append_each() -> bytearray:
        builder = BatchBuilder(compression=codec)
        append = builder.append
        for record in records:
            append(record.timestamp, record.key, record.value)
        return builder.build()

    work: dict[str, Callable[[], object]] = {
        "read_records": lambda: read_records(batch),
        "read_columns": lambda: read_columns(batch),
        "build_batch": lambda: build_batch(records, compression=codec),
        "BatchBuilder.append": append_each,
        "RecordWalk": lambda: RecordWalk(count).over(memoryview(payload)),
        "record_spans": lambda: record_spans(payload, count),
    }
    print("compiled" if is_compiled() else "plain Python")
    for name, function in work.items():
        gc.collect()
        print(f"  {name:20} {records_per_second(function, count) / 1e6:8.2f} million records/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=100, help="bytes per value")
    parser.add_argument("--count", type=int, default=150, help="records per batch")
    parser.add_argument(
        "--compression", choices=[codec.label for codec in Compression], default="none"
    )
    parser.add_argument("--once", action="store_true", help="only the way this process runs")
    arguments = parser.parse_args()
    if arguments.once:
        codec = Compression.from_label(arguments.compression)
        measure(arguments.values, arguments.count, codec)
        return
    print(f"{arguments.count} records of {arguments.values} bytes, {arguments.compression}")
    for plain in ("0", "1"):
        environment = {**os.environ, VARIABLE: plain}
        command = [sys.executable, "-m", "bench.records", *sys.argv[1:], "--once"]
        subprocess.run(command, env=environment, check=True)


if __name__ == "__main__":
    main()
