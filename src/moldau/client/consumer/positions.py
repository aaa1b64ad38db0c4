"""Where a consumer is in one partition, and whether it may fetch from there.

The states are an Enum with a table of legal predecessors; ``tests`` walk every pair.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from moldau.client.consumer.reset import ResetPolicy

NO_EPOCH = -1


class FetchState(Enum):
    """What a partition waits for before records can be fetched."""

    INITIALIZING = "initializing"
    """Assigned a moment ago: the committed offset has to be looked up."""

    AWAIT_RESET = "await reset"
    """There is no offset to go on from: the start or end of the log has to be looked up."""

    AWAIT_VALIDATION = "await validation"
    """The leader has changed: it may have less than we have read (KIP-320), so ask first."""

    FETCHING = "fetching"
    """The position is good."""


PREDECESSORS: Final[dict[FetchState, frozenset[FetchState]]] = {
    FetchState.INITIALIZING: frozenset(),
    FetchState.AWAIT_RESET: frozenset(FetchState),
    FetchState.AWAIT_VALIDATION: frozenset({FetchState.FETCHING}),
    FetchState.FETCHING: frozenset(FetchState),
}


class Position(NamedTuple):
    """The next offset to read."""

    offset: int
    offset_epoch: int = NO_EPOCH
    """Leader epoch of the record before it, as far as known: what a new leader is asked about."""


class PartitionState:
    """One assigned partition. ``version`` changes with every jump: older fetches are void then."""

    __slots__ = (
        "fetch_from",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "paused",
        "pending_revocation",
        "position",
        "preferred_replica",
        "preferred_until",
        "reset_policy",
        "retry_at",
        "state",
        "version",
    )

    def __init__(self) -> None:
        self.state = FetchState.INITIALIZING
        self.position: Position | None = None
        self.fetch_from = 0
        """The next offset to ask the broker for: the position, or behind what is buffered."""
        self.leader_epoch = NO_EPOCH
        """The leader's epoch when the position was last known to be good."""
        self.reset_policy: ResetPolicy | None = None
        self.paused = False
        self.pending_revocation = False
        """Being given away: nothing more may be handed out."""
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.preferred_replica: int | None = None
        self.preferred_until = 0.0
        self.retry_at = 0.0
        self.version = 0

    @property
    def deliverable(self) -> bool:
        """Whether records may be handed to the user."""
        return self.state is FetchState.FETCHING and not self.paused and not self.pending_revocation

    @property
    def needs_work(self) -> bool:
        return self.state is not FetchState.FETCHING

    def seek(self, position: Position, leader_epoch: int = NO_EPOCH) -> None:
        """Go on from another place: what was fetched for the old one is void.

        A place that the leader of some epoch named needs no validation by it.
        """
        self._become(FetchState.FETCHING)
        self.position = position
        self.fetch_from = position.offset
        self.reset_policy = None
        self.leader_epoch = leader_epoch
        self._jumped()

    def request_reset(self, policy: ResetPolicy) -> None:
        self._become(FetchState.AWAIT_RESET)
        self.position = None
        self.reset_policy = policy
        self._jumped()

    def leader_changed(self, epoch: int) -> bool:
        """If this is a newer leader, and there is something to ask it about: validate first."""
        if epoch <= self.leader_epoch or self.position is None:
            return False
        self.leader_epoch = epoch
        self.preferred_replica = None
        if self.position.offset_epoch == NO_EPOCH or self.needs_work:
            return False
        self._become(FetchState.AWAIT_VALIDATION)
        return True

    def validated(self) -> None:
        self._become(FetchState.FETCHING)

    def consumed(self, position: Position) -> None:
        """Records up to this position were handed out."""
        self.position = position

    def retry_later(self, at: float) -> None:
        self.retry_at = at

    def _jumped(self) -> None:
        self.version += 1
        self.preferred_replica = None
        self.retry_at = 0.0

    def _become(self, state: FetchState) -> None:
        if self.state not in PREDECESSORS[state]:
            raise ValueError(f"a partition cannot go from {self.state.value} to {state.value}")
        self.state = state
