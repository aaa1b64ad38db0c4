"""One record, as producers write it and consumers read it."""

from __future__ import annotations

from typing import TypeAlias, final

from moldau.native import mypyc_attr

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Header names may repeat; their order is kept."""


@final
@mypyc_attr(acyclic=True)  # a record refers to nothing that could refer back: no work for the GC
class Record:
    """A record with its place in the partition; immutable by convention.

    ``timestamp`` is in milliseconds, -1 if there is none. A value of None is a tombstone.
    """

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
        )

    def __hash__(self) -> int:
        return hash((self.offset, self.timestamp, self.key, self.value, self.headers))

    def __reduce__(self) -> tuple[object, ...]:
        return Record, (self.offset, self.timestamp, self.key, self.value, self.headers)

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r})"
        )
