"""Small Parquet files become large ones. Nothing of Spark: files of this machine only.

What a compacted file covers is a leftover of a crash. A batch is compacted only when a later one
has begun, so that it never comes again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from moldau.spark.pipeline.sinks.files import LocalFiles
from moldau.spark.pipeline.sinks.parts import Part, compacted_name, parts

SMALL: Final = 64 * 1024 * 1024
MANY: Final = 8
"""So many small files of a folder become one."""


def compact(
    files: LocalFiles, writer: str, before: int, *, many: int = MANY, small: int = SMALL
) -> int:
    """Make one file of the small ones of each folder, of batches before this; how many became."""
    folders: dict[str, list[Part]] = {}
    for part in parts(files, writer):
        folders.setdefault(part.folder, []).append(part)
    made = 0
    for found in folders.values():
        left = [part for part in _without_leftovers(files, found) if part.last < before]
        for run in _runs(left, small):
            for same in _alike(files.directory, run) if len(run) >= many else ():
                if len(same) >= many:
                    _merge(files.directory, same)
                    made += 1
    return made


def _without_leftovers(files: LocalFiles, found: list[Part]) -> list[Part]:
    """Sorted by batch; files whose batches are in a compacted one are removed."""
    covering = [part for part in found if part.compacted]
    kept = []
    for part in sorted(found, key=lambda one: (one.first, one.file.name)):
        if any(
            other.first <= part.first and part.last <= other.last
            for other in covering
            if other is not part
        ):
            files.remove(part.file.name)
        else:
            kept.append(part)
    return kept


def _alike(directory: Path, run: list[Part]) -> Iterator[list[Part]]:
    """Neighbours with the same columns: a file has them for all of its rows."""
    columns = [pq.read_schema(directory / part.file.name) for part in run]
    begin = 0
    for index in range(1, len(run) + 1):
        if index == len(run) or not columns[index].equals(columns[begin]):
            yield run[begin:index]
            begin = index


def _runs(found: list[Part], small: int) -> Iterator[list[Part]]:
    """Neighbours that are small together: a compacted file covers all batches in between."""
    run: list[Part] = []
    size = 0
    for part in found:
        # The files of one batch stay together.
        if run and size + part.file.size > small and part.first != run[-1].first:
            yield run
            run, size = [], 0
        run.append(part)
        size += part.file.size
    if run:
        yield run


def _merge(directory: Path, run: list[Part]) -> None:
    target = directory / compacted_name(run)
    # No reader's pattern takes it for Parquet.
    growing = target.with_name(f"_{target.name}.growing")
    schema = pq.read_schema(directory / run[0].file.name)
    with pq.ParquetWriter(growing, schema, compression="zstd") as writer:
        for part in run:
            with pq.ParquetFile(directory / part.file.name) as file:
                for rows in file.iter_batches():
                    writer.write_batch(rows)
    growing.replace(target)
    for part in run:
        path = directory / part.file.name
        if path != target:
            path.unlink()
