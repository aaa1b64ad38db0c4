"""The ways in which encoded records contradict themselves, in words."""

from __future__ import annotations

from moldau.records.errors import InvalidRecordError


def ends_early(count: int) -> InvalidRecordError:
    return InvalidRecordError(f"the batch ends before the last of its {count} records does")


def trailing_bytes(count: int, size: int) -> InvalidRecordError:
    return InvalidRecordError(f"{size} bytes are left after the {count} records of the batch")


def bad_size(index: int, what: str, size: int, room: int) -> InvalidRecordError:
    return InvalidRecordError(f"record {index}: {what} claims {size} bytes where {room} can be")
