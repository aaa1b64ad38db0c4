"""Which neighbouring segments are rewritten into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from moldau.log.segment.segment import MAX_RELATIVE_OFFSET

MAX_SEGMENTS: Final = 1024
"""In one group, so that a swap stays short."""


class SegmentSize(NamedTuple):
    base_offset: int
    size: int
    index_bytes: int
    time_index_bytes: int


def group_segments(
    segments: Sequence[SegmentSize],
    *,
    segment_bytes: int,
    index_bytes: int,
    first_uncleanable_offset: int,
) -> list[list[SegmentSize]]:
    """Groups in which nothing outgrows a segment, even if all of it is kept."""
    groups: list[list[SegmentSize]] = []
    size = offsets = times = 0
    for number, segment in enumerate(segments):
        following = number + 1
        end = (
            segments[following].base_offset
            if following < len(segments)
            else first_uncleanable_offset
        )
        if (
            groups
            and len(groups[-1]) < MAX_SEGMENTS
            and size + segment.size <= segment_bytes
            and offsets + segment.index_bytes <= index_bytes
            and times + segment.time_index_bytes <= index_bytes
            and (segment.size == 0 or end - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = offsets = times = 0
        size += segment.size
        offsets += segment.index_bytes
        times += segment.time_index_bytes
    return groups
