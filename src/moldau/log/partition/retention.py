"""Which segments of a log have served their time. Pure: facts in, a number of segments out.

The rules are Kafka's. Segments go oldest first and whole. One goes when everything in it lies
before the log start offset; with the policy ``delete`` also while what remains would still be as
large as ``retention.bytes``, or when its largest timestamp is older than ``retention.ms``, by the
records' own clock: a timestamp in the future keeps its segment, and all behind it. Nothing beyond
the high watermark goes, nor does an empty active segment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from moldau.config.values.topic import TopicConfig


class Aged(Protocol):
    """What retention wants to know of a segment."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    def largest_timestamp(self) -> int:
        """Of its records, or the time of the last append if none of them has any."""
        ...


def count_deletable(
    segments: Sequence[Aged],
    config: TopicConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """Returns how many of the oldest segments have to go; if it is all of them, a new one comes
    first.
    """
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= log_start_offset:
        count += 1
    if not config.delete:
        return count

    def count_while(goes: Callable[[Aged], bool]) -> int:
        number = count
        while number < len(segments):
            segment = segments[number]
            is_last = number + 1 == len(segments)
            end = log_end_offset if is_last else segments[number + 1].base_offset
            if end > high_watermark or (is_last and not segment.size) or not goes(segment):
                break
            number += 1
        return number

    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[count:]) - config.retention_bytes

        def is_too_much(segment: Aged) -> bool:
            nonlocal excess
            excess -= segment.size
            return excess >= 0

        count = count_while(is_too_much)
    if config.retention_ms >= 0:
        oldest_ms = now_ms - config.retention_ms
        count = count_while(lambda segment: segment.largest_timestamp() < oldest_ms)
    return count
