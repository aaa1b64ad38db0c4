"""What a coordinator decides: records to append, replies to send, and how to go on without them.

A coordinator never writes and never sends. It hands an ``Outcome`` to whoever runs it, who appends
the records as one batch, replays them into the same coordinator, and sends the replies once the
batch is committed (at once when there are no records). The records are replayed, or the coordinator
is told that they cannot be stored, before it is asked for anything else. A request that waits for
something else, a JoinGroup for the other members for instance, gets no reply in its own outcome; a
later one carries the reply under the token the request came with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from moldau.errors import ErrorCode

_APPEND_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class Record(NamedTuple):
    """A record for ``__consumer_offsets``; no value is a tombstone."""

    key: bytes
    value: bytes | None


class Reply(NamedTuple):
    """The answer to the request that came with this token."""

    token: object
    response: Any


class ClientInfo(NamedTuple):
    """Who sent a request, as group descriptions show it."""

    client_id: str
    client_host: str


FailureHook = Callable[[ErrorCode], list[Reply]]


@dataclass(slots=True)
class Outcome:
    """Records to append together, and the replies that may be sent once they are committed."""

    records: list[Record] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    on_failure: FailureHook | None = None
    """Called when the append fails: goes on without the records, and returns the error replies."""

    @classmethod
    def reply(cls, token: object, response: Any) -> Outcome:
        """An answer that changes nothing."""
        return cls(replies=[Reply(token, response)])

    @property
    def is_empty(self) -> bool:
        return not self.records and not self.replies

    def extend(self, other: Outcome) -> None:
        """Make one outcome of two: both are appended together, and fail together."""
        self.records += other.records
        self.replies += other.replies
        ours, theirs = self.on_failure, other.on_failure
        if ours is None or theirs is None:
            self.on_failure = ours or theirs
        else:
            self.on_failure = _both(ours, theirs)

    def failed(self, code: ErrorCode) -> list[Reply]:
        """The append failed: go on without it. Returns the error replies."""
        return [] if self.on_failure is None else self.on_failure(code)


def append_error(code: ErrorCode) -> ErrorCode:
    """What a client is told when the append to the offsets topic failed with ``code``.

    The codes of an append speak of a partition the client has never heard of; it must look for the
    coordinator again, or try again, or give up.
    """
    return _APPEND_ERRORS.get(code, code)


def _both(first: FailureHook, second: FailureHook) -> FailureHook:
    def failed(code: ErrorCode) -> list[Reply]:
        # The later one goes first: it may have been built on the earlier one.
        later = second(code)
        return first(code) + later

    return failed
