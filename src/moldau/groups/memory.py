"""How much of a broker's memory the members of groups may take.

Whoever can reach a broker can join groups: with metadata and names as long as requests are, in as
many groups as there are names; and since version 4 of JoinGroup a mere question leaves a member id
behind that is expected back. All that goes when sessions are over, after half an hour at most, but
until then nothing else bounds it. So what comes in is counted and, when that may be too much, what
is really there. Whoever would be too much is told to try again later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
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
ASSIGNMENT_BYTES: Final = 4096
"""What the assignment of a member may take in any case, so that no group that is there comes to a
halt because others have filled the memory: a thousand partitions.
"""
RECOUNT_MS: Final = 1000
"""If there is much, it is not counted more often."""
COUNTED_AT_ONCE: Final = 2000
"""Groups and members; some milliseconds."""


class Counted(Protocol):
    def footprints(self) -> Iterator[int]:
        """Returns the bytes that groups and members take, one by one. May be asked for the next one
        after they have changed.
        """
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
        self._count: Iterator[int] | None = None
        """Of a count that is under way, what is left of it."""
        self._so_far = 0
        self._admitted_before = 0

    def watch(self, shard: Counted) -> None:
        """What this one holds counts from now on."""
        self._shards.add(shard)

    def has_room(self, size: int, now_ms: int) -> bool:
        """Returns whether so many bytes may come in, and takes it that they do."""
        most = self._most
        if self._counted + self._admitted + size > most:
            self._recount(now_ms)
            if self._count is not None:
                most += most // 4  # until it is known what is really there
            if self._counted + self._admitted + size > most:
                return False
        self._admitted += size
        return True

    def _recount(self, now_ms: int) -> None:
        """See what is there: some of it, the rest when the next one comes."""
        if self._count is None:
            if self._was_full and 0 <= now_ms - self._counted_ms < RECOUNT_MS:
                return
            self._count = chain.from_iterable([shard.footprints() for shard in self._shards])
            self._so_far, self._admitted_before = 0, self._admitted
        some = list(islice(self._count, COUNTED_AT_ONCE))
        self._so_far += sum(some)
        if len(some) == COUNTED_AT_ONCE:
            return
        self._count = None
        self._counted, self._counted_ms = self._so_far, now_ms
        self._admitted -= self._admitted_before
        self._was_full = self._counted > self._most // 2


def names_size(*names: str | None) -> int:
    """What a member with these names takes, without its metadata."""
    return MEMBER_BYTES + sum([getsizeof(name) for name in names if name])


def protocols_size(protocols: Iterable[tuple[str, bytes]]) -> int:
    """What the metadata of a classic member takes."""
    return sum([PROTOCOL_BYTES + getsizeof(name) + len(data) for name, data in protocols])


def topics_size(names: Iterable[str]) -> int:
    """What the subscription of a member takes."""
    return sum([PROTOCOL_BYTES + getsizeof(name) for name in names])
