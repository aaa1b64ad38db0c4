"""Neighbouring segments that together are not larger than one may be."""

from __future__ import annotations

from moldau.log.cleaner.grouping import MAX_SEGMENTS, SegmentSize, group_segments


def bases(
    segments: list[SegmentSize], *, segment_bytes: int = 100, index_bytes: int = 100, end: int = 50
) -> list[list[int]]:
    groups = group_segments(
        segments,
        segment_bytes=segment_bytes,
        index_bytes=index_bytes,
        first_uncleanable_offset=end,
    )
    return [[segment.base_offset for segment in group] for group in groups]


def test_nothing_outgrows_a_segment() -> None:
    segments = [SegmentSize(offset, 40, 1, 1) for offset in (0, 10, 20, 30, 40)]
    assert bases(segments) == [[0, 10], [20, 30], [40]]
    assert bases(segments, segment_bytes=30) == [[0], [10], [20], [30], [40]]
    assert bases(segments, segment_bytes=1000) == [[0, 10, 20, 30, 40]]


def test_nothing_outgrows_an_index() -> None:
    by_offset = [SegmentSize(offset, 1, 40, 1) for offset in (0, 10, 20)]
    by_time = [SegmentSize(offset, 1, 1, 60) for offset in (0, 10, 20)]
    assert bases(by_offset) == [[0, 10], [20]]
    assert bases(by_time) == [[0], [10], [20]]


def test_offsets_stay_within_32_bits_of_the_first() -> None:
    far = 2**31
    segments = [SegmentSize(offset, 1, 1, 1) for offset in (0, 10, far - 5)]
    assert bases(segments, end=far) == [[0, 10, far - 5]]
    assert bases(segments, end=far + 1) == [[0, 10], [far - 5]]
    empty = [*segments[:2], SegmentSize(far + 100, 0, 0, 0)]
    assert bases(empty, end=far + 200) == [[0], [10, far + 100]]


def test_a_group_has_so_many_segments_at_most() -> None:
    segments = [SegmentSize(offset, 0, 0, 0) for offset in range(MAX_SEGMENTS + 1)]
    assert [len(group) for group in bases(segments)] == [MAX_SEGMENTS, 1]


def test_nothing_makes_no_group() -> None:
    assert bases([]) == []
