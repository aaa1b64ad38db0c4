"""How much of a broker's memory the members of groups may take.

Whoever can reach a broker can join groups: with metadata and names as long as requests are, in as
many groups as there are names; and since version 4 of JoinGroup a mere question leaves a member id
behind that is expected back. All that goes when sessions are over, after half an hour at most, but
until then nothing else bounds it. So what comes in is counted and, when that may be too much, what
is really there. Whoever would be too much is told to try again later.
"""

from __future__ import annotations

from collections.abc import Iterable
from sys import getsizeof
from typing import Final, Protocol
from weakref import WeakSet

MOST_BYTES: Final = 64 * 1024 * 1024
"""More than thirty thousand members with the metadata that clients usually have."""
GROUP_BYTES: Final = 2000
"""What a group takes beside its members and its name: objects, deadlines, places in tables."""
MEMBER_BYTES: Final = 1500
"""The same for a member."""
PENDING_BYTES: Final = 500
"""The same for a member id that is expected back."""
PROTOCOL_BYTES: Final = 100
RECOUNT_MS: Final = 1000
"""Counting takes some milliseconds if there is much."""


class Counted(Protocol):
    def footprint(self) -> int:
        """Returns the bytes that groups take."""
        ...


class GroupMemory:
    """One for all shards of a broker."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._shards: WeakSet[Counted] = WeakSet()
        self._counted = 0
        self._counted_ms = 0
        self._admitted = 0
        """Since it was counted; what went meanwhile is not taken off."""
        self._was_full = False
        """There was so much that it must not be counted too often."""

    def watch(self, shard: Counted) -> None:
        """What this one holds counts from now on."""
        self._shards.add(shard)

    def has_room(self, size: int, now_ms: int) -> bool:
        """Returns whether so many bytes may come in, and takes it that they do."""
        if self._counted + self._admitted + size > self._most:
            if self._was_full and 0 <= now_ms - self._counted_ms < RECOUNT_MS:
                return False
            self._counted = sum([shard.footprint() for shard in self._shards])
            self._counted_ms = now_ms
            self._admitted = 0
            self._was_full = self._counted > self._most // 2
            if self._counted + size > self._most:
                return False
        self._admitted += size
        return True


def names_size(*names: str | None) -> int:
    """What a member with these names takes, without its metadata."""
    return MEMBER_BYTES + sum([getsizeof(name) for name in names if name])


def protocols_size(protocols: Iterable[tuple[str, bytes]]) -> int:
    """What the metadata of a classic member takes."""
    return sum([PROTOCOL_BYTES + getsizeof(name) + len(data) for name, data in protocols])


def topics_size(names: Iterable[str]) -> int:
    """What the subscription of a member takes."""
    return sum([PROTOCOL_BYTES + getsizeof(name) for name in names])
