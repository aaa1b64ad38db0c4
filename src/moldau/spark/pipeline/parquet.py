"""Parquet folders whose small files become large ones. Nothing of Spark: files only.

A file is named by the batches in it: ``b-7-0.parquet`` is of batch 7, ``b-0-6.c.parquet`` has the
batches 0 to 6. That makes every step repeatable: a batch that runs again replaces its files, and
what a compacted file covers is a leftover of a crash. A batch is compacted only when a later one
has begun, so that it never comes again.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow.parquet as pq

STAGING: Final = "_staging"
"""Names with an underscore are not read by anybody."""
SMALL: Final = 64 * 1024 * 1024
MANY: Final = 8
"""So many small files of a folder become one."""

_FILE: Final = re.compile(r"b-(\d+)-(\d+)(\.c)?\.parquet")


class _Part(NamedTuple):
    path: Path
    first: int
    last: int
    compacted: bool


def adopt(directory: Path, batch: int) -> int:
    """Move what was written to the staging folder of a batch to its places; how many files."""
    staging = directory / STAGING / str(batch)
    for part in _parts(directory):
        if not part.compacted and part.first == batch:
            part.path.unlink()
    moved = 0
    for file in sorted(staging.rglob("*.parquet")):
        folder = directory / file.parent.relative_to(staging)
        folder.mkdir(parents=True, exist_ok=True)
        file.replace(folder / f"b-{batch}-{moved}.parquet")
        moved += 1
    shutil.rmtree(staging, ignore_errors=True)
    return moved


def compact(directory: Path, before: int, *, many: int = MANY, small: int = SMALL) -> int:
    """Make one file of the small ones of each folder, of batches before this; how many became."""
    folders: dict[Path, list[_Part]] = {}
    for part in _parts(directory):
        folders.setdefault(part.path.parent, []).append(part)
    made = 0
    for parts in folders.values():
        left = [part for part in _without_leftovers(parts) if part.last < before]
        for run in _runs(left, small):
            if len(run) >= many:
                _merge(run)
                made += 1
    return made


def _parts(directory: Path) -> Iterator[_Part]:
    for path in sorted(directory.rglob("b-*.parquet")):
        found = _FILE.fullmatch(path.name)
        if found is not None and STAGING not in path.relative_to(directory).parts:
            first, second, compacted = int(found[1]), int(found[2]), found[3] is not None
            yield _Part(path, first, second if compacted else first, compacted)


def _without_leftovers(parts: list[_Part]) -> list[_Part]:
    """Sorted by batch; files whose batches are in a compacted one are removed."""
    covering = [part for part in parts if part.compacted]
    kept = []
    for part in sorted(parts, key=lambda one: (one.first, one.path.name)):
        if any(
            other.first <= part.first and part.last <= other.last
            for other in covering
            if other is not part
        ):
            part.path.unlink()
        else:
            kept.append(part)
    return kept


def _runs(parts: list[_Part], small: int) -> Iterator[list[_Part]]:
    """Neighbours that are small together: a compacted file covers all batches in between."""
    run: list[_Part] = []
    size = 0
    for part in parts:
        bytes_of_part = part.path.stat().st_size
        # The files of one batch stay together.
        if run and size + bytes_of_part > small and part.first != run[-1].first:
            yield run
            run, size = [], 0
        run.append(part)
        size += bytes_of_part
    if run:
        yield run


def _merge(run: list[_Part]) -> None:
    target = run[0].path.with_name(f"b-{run[0].first}-{run[-1].last}.c.parquet")
    growing = target.with_name(f"_{target.name}")
    with pq.ParquetWriter(growing, pq.read_schema(run[0].path), compression="zstd") as writer:
        for part in run:
            with pq.ParquetFile(part.path) as file:
                for rows in file.iter_batches():
                    writer.write_batch(rows)
    growing.replace(target)
    for part in run:
        if part.path != target:
            part.path.unlink()
