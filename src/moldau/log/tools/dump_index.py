"""Whether the entries of an index agree with the log file beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from moldau.log.files.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from moldau.log.segment.batches import iter_file_headers
from moldau.log.segment.offset_index import OffsetPosition
from moldau.log.segment.time_index import TimestampOffset
from moldau.log.tools.files import open_for_reading
from moldau.machine.disk import File
from moldau.records.batch import BatchHeader


def check_index(path: str, entries: Sequence[OffsetPosition]) -> Iterator[str]:
    """What is wrong with an offset index."""
    for before, after in pairwise(entries):
        if after.offset <= before.offset or after.position <= before.position:
            yield f"entry {tuple(after)} does not grow from {tuple(before)}"
    file = _open_log(path, INDEX_SUFFIX)
    if file is None:
        yield "there is no log file to compare it with"
        return
    for entry in entries:
        header = _first_header(file, entry.position)
        # A follower indexes several batches at once: the entry has the first one's place and the
        # last one's offset.
        if header is None or header.base_offset > entry.offset:
            yield f"entry {tuple(entry)} does not point to a batch with that offset"
    file.close()


def check_time_index(path: str, entries: Sequence[TimestampOffset]) -> Iterator[str]:
    """What is wrong with a time index."""
    file = _open_log(path, TIME_INDEX_SUFFIX)
    if file is None:
        yield "there is no log file to compare it with"
        return
    yield from check_time_entries(file, entries)
    file.close()


def check_time_entries(
    file: File, entries: Sequence[TimestampOffset], *, complete: bool = False
) -> Iterator[str]:
    """What does not agree with the batches in ``file``: each entry tells the largest timestamp up
    to its offset, and if the index is ``complete`` (the segment is closed) the last one that of
    all.
    """
    for before, after in pairwise(entries):
        if after.timestamp <= before.timestamp or after.offset < before.offset:
            yield f"entry {tuple(after)} does not grow from {tuple(before)}"
    remaining = list(reversed(entries))
    largest = -1
    for _, header in iter_file_headers(file, 0, file.size):
        largest = max(largest, header.max_timestamp)
        while remaining and remaining[-1].offset <= header.last_offset:
            entry = remaining.pop()
            if entry.timestamp != largest:
                yield (
                    f"up to offset {entry.offset} the largest timestamp is {largest}, "
                    f"the index says {entry.timestamp}"
                )
    for entry in remaining:
        yield f"offset {entry.offset} is not in the log file"
    if complete and largest > max((entry.timestamp for entry in entries), default=-1):
        yield f"the largest timestamp, {largest}, is missing"


def _open_log(path: str, suffix: str) -> File | None:
    try:
        return open_for_reading(path.removesuffix(suffix) + LOG_SUFFIX)
    except FileNotFoundError:
        return None


def _first_header(file: File, position: int) -> BatchHeader | None:
    for _, header in iter_file_headers(file, position, file.size):
        return header
    return None
