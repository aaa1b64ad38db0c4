"""Small Parquet files become large ones. Nothing of Spark: files of this machine only.

What a compacted file covers is a leftover of a crash. A batch is compacted only when a later one
has begun, so that it never comes again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from moldau.spark.pipeline.sinks.files import LocalFiles
from moldau.spark.pipeline.sinks.parts import Part, compacted_name, parts

SMALL: Final = 64 * 1024 * 1024
MANY: Final = 8
"""So many small files of a folder become one."""
_KEPT: Final = {"NONE", "STRING", "INT", "DECIMAL", "DATE", "TIME", "TIMESTAMP"}
"""Types of Parquet that Arrow writes as it has read them."""
_VARIANT: Final = "(Variant("
"""It is a type of a group, which Arrow tells in the text of a schema only, and forgets."""
_ARROW_SCHEMA: Final = b"ARROW:schema"


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
    columns = [_columns(directory / part.file.name) for part in run]
    begin = 0
    for index in range(1, len(run) + 1):
        if index == len(run) or columns[index] is None or columns[index] != columns[begin]:
            if columns[begin] is not None:
                yield run[begin:index]
            begin = index


def _columns(path: Path) -> tuple[pa.Schema, bool] | None:
    """And whether times are INT96; None if Arrow would not write the columns as they are."""
    with pq.ParquetFile(path) as file:
        columns = [file.schema.column(at) for at in range(len(file.schema))]
        kinds = {one.logical_type.type for one in columns}
        old = _has_int96(file)
        mixed = old and "TIMESTAMP" in kinds
        if mixed or not kinds <= _KEPT or _VARIANT in str(file.schema):
            return None
        return file.schema_arrow, old


def _has_int96(file: pq.ParquetFile) -> bool:
    """Times as Spark has them unless told otherwise."""
    columns = (file.schema.column(at) for at in range(len(file.schema)))
    return any(one.physical_type == "INT96" for one in columns)


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
    with _opened(directory, run[0]) as first:
        schema, metadata = first.schema_arrow, first.metadata.metadata
        old = _has_int96(first)
    # Readers see the types that Parquet has, before and after: Arrow's own are not stored.
    with pq.ParquetWriter(
        growing,
        schema,
        compression="zstd",
        store_schema=False,
        use_deprecated_int96_timestamps=old,
    ) as writer:
        writer.add_key_value_metadata(
            {key: value for key, value in (metadata or {}).items() if key != _ARROW_SCHEMA}
        )
        for part in run:
            with _opened(directory, part) as file:
                for rows in file.iter_batches():
                    writer.write_batch(rows)
    growing.replace(target)
    for part in run:
        path = directory / part.file.name
        if path != target:
            path.unlink()


def _opened(directory: Path, part: Part) -> pq.ParquetFile:
    """Nanoseconds, as Arrow takes INT96, end in 2262."""
    return pq.ParquetFile(directory / part.file.name, coerce_int96_timestamp_unit="us")
