"""The states of a member, one Enum per protocol, with the states each may be entered from."""

from __future__ import annotations

from enum import Enum
from typing import Final


class ClassicState(Enum):
    """A member of a classic group (JoinGroup, SyncGroup, Heartbeat)."""

    LEFT = "left"
    """Not subscribed: nothing is sent. A subscription makes it UNJOINED."""

    UNJOINED = "unjoined"
    """Has to join, for the first time or again. Waits out a pause after a failure."""

    PREPARING = "preparing"
    """Gives up partitions before joining: the callbacks wait for the user's poll. Heartbeats go on,
    so that others wait for us."""

    JOINING = "joining"
    """JoinGroup is under way; it is answered when all members have joined, or the time is up.
    The coordinator needs no heartbeats meanwhile."""

    SYNCING = "syncing"
    """The leader divides the partitions; SyncGroup brings everybody their share."""

    COMPLETING = "completing"
    """The share is known; revoked and assigned callbacks wait for the user's poll."""

    STABLE = "stable"
    """Reads its partitions and sends heartbeats, until one is answered with a rebalance."""

    STALE = "stale"
    """The user did not poll within max.poll.interval.ms: we have left and lost everything, and join
    again at the next poll."""

    FAILED = "failed"
    """An error that joining again would not change; poll raises it. A new subscription resets."""


_C: Final = ClassicState

CLASSIC_PREDECESSORS: Final[dict[ClassicState, frozenset[ClassicState]]] = {
    _C.LEFT: frozenset(ClassicState),
    _C.UNJOINED: frozenset(
        {_C.LEFT, _C.JOINING, _C.SYNCING, _C.COMPLETING, _C.STABLE, _C.STALE, _C.FAILED}
    ),
    _C.PREPARING: frozenset({_C.UNJOINED}),
    _C.JOINING: frozenset({_C.PREPARING}),
    _C.SYNCING: frozenset({_C.JOINING}),
    _C.COMPLETING: frozenset({_C.SYNCING}),
    _C.STABLE: frozenset({_C.COMPLETING}),
    _C.STALE: frozenset(
        {_C.UNJOINED, _C.PREPARING, _C.JOINING, _C.SYNCING, _C.COMPLETING, _C.STABLE}
    ),
    _C.FAILED: frozenset(
        {_C.PREPARING, _C.JOINING, _C.SYNCING, _C.COMPLETING, _C.STABLE, _C.UNJOINED}
    ),
}


class ConsumerState(Enum):
    """A member under the consumer protocol (KIP-848): one request, the heartbeat."""

    LEFT = "left"
    """Not subscribed: nothing is sent."""

    JOINING = "joining"
    """The next heartbeat has epoch 0 and tells everything about the member."""

    RECONCILING = "reconciling"
    """The coordinator wants another assignment: callbacks wait for the user's poll. Heartbeats go
    on with the partitions unchanged."""

    ACKNOWLEDGING = "acknowledging"
    """Reconciled; the next heartbeat, due now, tells what is owned."""

    STABLE = "stable"
    """Owns what the coordinator wants it to own."""

    FENCED = "fenced"
    """The coordinator has dropped the member: the lost callback waits for the user's poll, then it
    joins again."""

    STALE = "stale"
    """The user did not poll within max.poll.interval.ms: we have left, and join again at the next
    poll, after the lost callback."""

    FAILED = "failed"
    """An error that joining again would not change; poll raises it. A new subscription resets."""


_K: Final = ConsumerState

CONSUMER_PREDECESSORS: Final[dict[ConsumerState, frozenset[ConsumerState]]] = {
    _K.LEFT: frozenset(ConsumerState),
    _K.JOINING: frozenset({_K.LEFT, _K.FENCED}),
    _K.RECONCILING: frozenset({_K.JOINING, _K.ACKNOWLEDGING, _K.STABLE}),
    _K.ACKNOWLEDGING: frozenset({_K.RECONCILING}),
    _K.STABLE: frozenset({_K.JOINING, _K.ACKNOWLEDGING}),
    _K.FENCED: frozenset(
        {_K.JOINING, _K.RECONCILING, _K.ACKNOWLEDGING, _K.STABLE, _K.STALE, _K.FAILED}
    ),
    _K.STALE: frozenset({_K.JOINING, _K.RECONCILING, _K.ACKNOWLEDGING, _K.STABLE, _K.FENCED}),
    _K.FAILED: frozenset({_K.JOINING, _K.RECONCILING, _K.ACKNOWLEDGING, _K.STABLE, _K.FENCED}),
}
