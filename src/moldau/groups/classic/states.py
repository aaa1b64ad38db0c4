"""The life of a classic group: states, what each answers, and which may follow which.

The table is Kafka's (``ClassicGroupState``), given as the legal predecessors of each state. A group
becomes EMPTY or STABLE when a record that says so is replayed; the two states between them are a
rebalance, which is not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ClassicGroupState(Enum):
    """A state; its value is the name that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    """No members; the group remembers its generation, and offsets may be stored under it.

    JoinGroup: a new member starts the initial rebalance; one with an id: UNKNOWN_MEMBER_ID.
    SyncGroup, Heartbeat, LeaveGroup: UNKNOWN_MEMBER_ID.
    OffsetCommit: taken without a generation (a consumer that assigns itself, or an admin tool).
    Next: PREPARING_REBALANCE when a member joins; DEAD when deleted, expired or moved away.
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    """Waits until all members have joined (again), or the rebalance timeout is over.

    JoinGroup: parked. SyncGroup, Heartbeat: REBALANCE_IN_PROGRESS. LeaveGroup: the member goes.
    OffsetCommit: taken from members of the last generation, their last chance to do it.
    Next: COMPLETING_REBALANCE with those who joined; EMPTY if nobody is left; DEAD.
    """

    COMPLETING_REBALANCE = "CompletingRebalance"
    """Has a generation and a leader, and waits for the leader's assignment.

    JoinGroup: the same metadata again gets the same answer; other metadata, or a new member, starts
    over. SyncGroup: parked until the leader's arrives. Heartbeat: fine. OffsetCommit:
    REBALANCE_IN_PROGRESS. LeaveGroup: the member goes and the rebalance starts over.
    Next: STABLE when the leader synchronizes; PREPARING_REBALANCE; DEAD.
    """

    STABLE = "Stable"
    """Every member may have its assignment.

    JoinGroup: a follower with unchanged metadata gets the current generation; the leader, a change
    or a new member starts a rebalance. SyncGroup: the assignment. Heartbeat: fine.
    OffsetCommit: taken from members of this generation. LeaveGroup: a rebalance.
    Next: PREPARING_REBALANCE; DEAD.
    """

    DEAD = "Dead"
    """Deleted, or its partition moved to another broker. Nothing follows.

    No request finds it any more: each is answered as for a group that never was. DescribeGroups
    shows groups that do not exist in this state.
    """


PREDECESSORS: Mapping[ClassicGroupState, frozenset[ClassicGroupState]] = {
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        {
            ClassicGroupState.STABLE,
            ClassicGroupState.COMPLETING_REBALANCE,
            ClassicGroupState.EMPTY,
        }
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.COMPLETING_REBALANCE}),
    ClassicGroupState.DEAD: frozenset(ClassicGroupState),
}


class IllegalTransitionError(Exception):
    """A move that the table does not allow: a bug in the coordinator, never a client's doing."""

    def __init__(self, group_id: str, state: ClassicGroupState, to: ClassicGroupState) -> None:
        super().__init__(f"group {group_id!r} cannot go from {state.value} to {to.value}")
