"""Records finished ahead of the committed offset, written into the commit's metadata.

A group commits one offset per partition; what was finished beyond it, in parallel, would be handled
again by the next owner. So the commit carries those offsets, and the next owner skips them:
``moldau:40:1-3,7`` says that the offsets 41, 42, 43 and 47 are done. Brokers take 4096 bytes of
metadata by default; what does not fit is handled again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.model import OffsetAndMetadata

_PREFIX: Final = "moldau:"
_ROOM: Final = 3_000


def write_finished(committed: int, offsets: Iterable[int]) -> str:
    """Metadata for a commit; empty if nothing is finished ahead."""
    text = ""
    for first, last in _ranges(sorted(offsets)):
        first, last = first - committed, last - committed
        part = str(first) if first == last else f"{first}-{last}"
        if len(text) + len(part) > _ROOM:
            break
        text += f",{part}" if text else part
    return f"{_PREFIX}{committed}:{text}" if text else ""


def read_finished(committed: OffsetAndMetadata | None) -> frozenset[int]:
    """The offsets that an earlier owner has finished; none if the metadata is not ours."""
    if committed is None or not committed.metadata.startswith(_PREFIX):
        return frozenset()
    offsets: set[int] = set()
    try:
        base, _, parts = committed.metadata[len(_PREFIX) :].partition(":")
        for part in parts.split(","):
            first, _, last = part.partition("-")
            offsets.update(range(int(base) + int(first), int(base) + int(last or first) + 1))
    except ValueError:
        return frozenset()
    return frozenset(offsets)


def _ranges(offsets: list[int]) -> Iterable[tuple[int, int]]:
    first = last = None
    for offset in offsets:
        if first is None or last is None:
            first = last = offset
        elif offset == last + 1:
            last = offset
        else:
            yield first, last
            first = last = offset
    if first is not None and last is not None:
        yield first, last
