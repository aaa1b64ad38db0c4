"""What an interrupted deletion or compaction left in a partition directory.

``.deleted`` files wait for their removal, ``.cleaned`` files were never finished. ``.swap`` files
are finished and replace the segments they were made of; those may still be there.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.log.files.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    parse_file_name,
)
from moldau.log.segment.batches import iter_file_headers
from moldau.machine.disk import Disk


def clean_up(disk: Disk, directory: str, names: Sequence[str]) -> list[str]:
    """Finish or undo what was interrupted; returns the names that remain, sorted."""
    marked: dict[str, dict[str, tuple[int, str]]] = {
        DELETED_SUFFIX: {},
        CLEANED_SUFFIX: {},
        SWAP_SUFFIX: {},
    }
    remaining = []
    # Sorted, because files are removed in this order: a file system has one of its own.
    for name in sorted(names):
        parsed = parse_file_name(name)
        if parsed is not None and parsed[2]:
            marked[parsed[2]][name] = parsed[:2]
        else:
            remaining.append(name)
    if len(remaining) == len(names):
        return remaining
    for name in marked[DELETED_SUFFIX]:
        disk.remove(f"{directory}/{name}")
    # A swap at or above an unfinished file belongs to the same unfinished operation.
    first_unfinished = min((base for base, _ in marked[CLEANED_SUFFIX].values()), default=2**63)
    swaps = {}
    for name, (base, suffix) in marked[SWAP_SUFFIX].items():
        if base >= first_unfinished:
            disk.remove(f"{directory}/{name}")
        else:
            swaps[name] = (base, suffix)
    # These go last: as long as one is there, the next start knows what was unfinished.
    for name in marked[CLEANED_SUFFIX]:
        disk.remove(f"{directory}/{name}")
    if swaps:
        remaining = _swap_in(disk, directory, remaining, swaps)
    return sorted(remaining)


def _swap_in(
    disk: Disk, directory: str, names: list[str], swaps: dict[str, tuple[int, str]]
) -> list[str]:
    first, end = 2**63, -1
    for name, (base, suffix) in swaps.items():
        if suffix == LOG_SUFFIX:
            file = disk.open(f"{directory}/{name}")
            first, end = min(first, base), max(end, base + 1)
            for _, header in iter_file_headers(file, 0, file.size):
                end = max(end, header.next_offset)
            file.close()
    remaining = []
    for name in names:
        parsed = parse_file_name(name)
        if parsed is not None and parsed[1] != SNAPSHOT_SUFFIX and first <= parsed[0] < end:
            disk.remove(f"{directory}/{name}")
        else:
            remaining.append(name)
    # Logs first: beside a log that is still to be swapped in, an index counts as an old one.
    for name in sorted(swaps, key=lambda name: swaps[name][1] != LOG_SUFFIX):
        target = name.removesuffix(SWAP_SUFFIX)
        disk.rename(f"{directory}/{name}", f"{directory}/{target}")
        remaining.append(target)
    disk.sync_dir(directory)
    return remaining
