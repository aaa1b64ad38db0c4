"""What a coordinator decides: records to append, replies to send, effects to start, and how to go
on without them.

A coordinator never writes and never sends. It hands an ``Outcome`` to whoever runs it
(``moldau.coordinators``), who appends the records as one batch, replays them into the same
coordinator, and sends the replies and starts the effects once the batch is committed (at once when
there are no records). The records are replayed, or the coordinator is told that they cannot be
stored, before it is asked for anything else. A request that waits for something else, a JoinGroup
for the other members for instance, gets no reply in its own outcome; a later one carries the reply
under the token the request came with.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

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
    """A record for the coordinator's internal topic; no value is a tombstone."""

    key: bytes
    value: bytes | None


class Transaction(NamedTuple):
    """The transaction of another coordinator that records belong to: they count once it commits."""

    producer_id: int
    producer_epoch: int


class Reply(NamedTuple):
    """The answer to the request that came with this token."""

    token: object
    response: Any


FailureHook: TypeAlias = Callable[[ErrorCode], list[Reply]]

Effect: TypeAlias = Callable[[], Coroutine[Any, Any, None] | None]
"""Something that is done to the rest of the cluster because of a decision: the markers of a
transaction, for instance. It is called once the decision is committed, and if it returns a
coroutine, that is run as a task.

In one life of a coordinator an effect starts exactly once if its batch is committed, however long
that takes, and never otherwise. A coordinator that dies may have started it or not. Its successor
finds in the replayed records what was decided and not yet noted as done, and starts that again from
``on_loaded``. So whoever is at the other end must bear an effect twice, and must be able to tell an
old coordinator's from the present one's. What has started is not stopped when leadership is lost.
"""


@dataclass(slots=True)
class Outcome:
    """Records to append together, and what may happen once they are committed."""

    records: list[Record] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    on_failure: FailureHook | None = None
    """Called when the append fails: goes on without the records, and returns the error replies."""
    effects: list[Effect] = field(default_factory=list)
    transaction: Transaction | None = None
    """What the records are part of. Outcomes of a transaction are not made one with others."""

    @classmethod
    def reply(cls, token: object, response: Any) -> Outcome:
        """Returns an answer that changes nothing."""
        return cls(replies=[Reply(token, response)])

    @property
    def is_empty(self) -> bool:
        return not self.records and not self.replies and not self.effects

    def extend(self, other: Outcome) -> None:
        """Make one outcome of two: both are appended together, and fail together."""
        assert self.transaction is other.transaction is None
        self.records += other.records
        self.replies += other.replies
        self.effects += other.effects
        ours, theirs = self.on_failure, other.on_failure
        if ours is None or theirs is None:
            self.on_failure = ours or theirs
        else:
            self.on_failure = _both(ours, theirs)

    def failed(self, code: ErrorCode) -> list[Reply]:
        """The append failed: go on without it. Returns the error replies."""
        return [] if self.on_failure is None else self.on_failure(code)


def append_error(code: ErrorCode) -> ErrorCode:
    """Returns what a client is told when the append to the internal topic failed with ``code``.

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
