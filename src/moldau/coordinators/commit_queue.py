"""What a shard has decided and nobody may hear of yet: replies and effects, oldest first.

They wait until their batch, and everything appended before it, is committed. An outcome without
records waits as well if there is something before it: it may speak of what could still be lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

from moldau.errors import ErrorCode
from moldau.machine.clock import Clock, Timer
from moldau.outcome import Effect, Reply
from moldau.replication import Partition, commit_error

_COMMITTED: Final = (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""The second is committed as well, but on fewer replicas than was asked for."""


class Announcer(Protocol):
    """Whom the queue tells what may be heard of now."""

    def send(self, replies: Sequence[Reply]) -> None: ...

    def refuse(self, replies: Sequence[Reply], code: ErrorCode) -> None:
        """The append has failed with ``code``, or may not be relied on."""
        ...

    def start(self, effects: Sequence[Effect]) -> None: ...


class _Entry:
    """One outcome that waits."""

    __slots__ = ("effects", "end_offset", "replies", "timer")

    def __init__(
        self, end_offset: int, replies: Sequence[Reply], effects: Sequence[Effect]
    ) -> None:
        self.end_offset = end_offset
        self.replies = replies
        self.effects = effects
        self.timer: Timer | None = None

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


class CommitQueue:
    """The uncommitted outcomes of one partition's leader."""

    def __init__(
        self, partition: Partition, clock: Clock, announcer: Announcer, *, timeout_ms: int
    ) -> None:
        """Replies are refused ``timeout_ms`` after the append; effects wait as long as it takes."""
        self._partition = partition
        self._clock = clock
        self._announcer = announcer
        self._timeout_ms = timeout_ms
        self._entries: deque[_Entry] = deque()

    def put(self, end_offset: int, replies: Sequence[Reply], effects: Sequence[Effect]) -> None:
        """Announce these once the log is committed up to ``end_offset``: now, if it is."""
        if not self._entries and self._partition.high_watermark >= end_offset:
            self._announcer.send(replies)
            self._announcer.start(effects)
            return
        entry = _Entry(end_offset, replies, effects)
        self._entries.append(entry)
        if replies:
            entry.timer = self._clock.call_later(
                self._timeout_ms / 1000, partial(self._time_is_up, entry)
            )
        self._advance()

    def close(self) -> None:
        """Forget everything: whoever waits for a reply is told otherwise."""
        self._partition.leave_append(self)
        for entry in self._entries:
            entry.stop_timer()
        self._entries.clear()

    def settled(self, partition: Partition) -> None:
        """The high watermark has reached the oldest entry, or this broker can never see that."""
        if not self._entries:
            return
        code = commit_error(partition, self._entries[0].end_offset)
        if code is ErrorCode.REQUEST_TIMED_OUT:
            self._give_up(code)
        else:
            self._advance()

    def _time_is_up(self, entry: _Entry) -> None:
        replies, entry.replies = entry.replies, ()
        if not entry.effects:
            self._entries.remove(entry)
        self._announcer.refuse(replies, ErrorCode.REQUEST_TIMED_OUT)
        self._advance()

    def _advance(self) -> None:
        """Announce what is committed."""
        entries, partition = self._entries, self._partition
        while entries:
            code = commit_error(partition, entries[0].end_offset)
            if code is ErrorCode.REQUEST_TIMED_OUT:
                partition.park_append(self, entries[0].end_offset)
                return
            if code not in _COMMITTED:
                self._give_up(code)
                return
            entry = entries.popleft()
            entry.stop_timer()
            if code:
                self._announcer.refuse(entry.replies, code)
            else:
                self._announcer.send(entry.replies)
            self._announcer.start(entry.effects)

    def _give_up(self, code: ErrorCode) -> None:
        entries = tuple(self._entries)
        self.close()
        for entry in entries:
            self._announcer.refuse(entry.replies, code)
