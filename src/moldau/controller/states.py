"""The life of a partition and of a replica: states, and which may follow which.

Both tables are Kafka's (``PartitionStateMachine``, ``ReplicaStateMachine`` of its ZooKeeper-era
controller), given as the legal predecessors of each state.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
S = TypeVar("S", bound=Enum)


class PartitionState(Enum):
    NEW = "NewPartition"
    """Has replicas assigned, but no leader and no ISR yet. Clients see no leader."""

    ONLINE = "OnlinePartition"
    """Has a leader that serves it. Going online again is a new election."""

    OFFLINE = "OfflinePartition"
    """Its leader died and no replica may take over (yet). Clients see LEADER_NOT_AVAILABLE."""

    NON_EXISTENT = "NonExistentPartition"
    """Never created, or deleted."""


class ReplicaState(Enum):
    NEW = "NewReplica"
    """Just assigned; may only be told to follow."""

    ONLINE = "OnlineReplica"
    """Its broker is up; may be told to lead or to follow."""

    OFFLINE = "OfflineReplica"
    """Its broker is down, or was told to stop it; out of the ISR unless it is the last one."""

    DELETION_STARTED = "ReplicaDeletionStarted"
    """Its broker was told to delete it and has not answered."""

    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    """Deleted; waits for the topic's other replicas."""

    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """Cannot be deleted now (broker down, disk failed); tried again when the broker is back."""

    NON_EXISTENT = "NonExistentReplica"
    """Never existed, or forgotten with its topic."""


PARTITION_PREDECESSORS: Mapping[PartitionState, frozenset[PartitionState]] = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.OFFLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
}

_SERVING = frozenset(
    {
        ReplicaState.NEW,
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE,
    }
)
REPLICA_PREDECESSORS: Mapping[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: _SERVING,
    ReplicaState.OFFLINE: _SERVING,
    ReplicaState.DELETION_STARTED: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.DELETION_STARTED}),
    ReplicaState.DELETION_INELIGIBLE: frozenset(
        {ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED}
    ),
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.DELETION_SUCCESSFUL}),
}


class IllegalTransitionError(Exception):
    """A move that the table does not allow: a bug in the controller, never a client's doing."""


class StateMachine(Generic[K, S]):
    """States by key. What is not held is in ``absent``; moving there forgets the key."""

    def __init__(self, predecessors: Mapping[S, frozenset[S]], absent: S) -> None:
        self._predecessors = predecessors
        self._absent = absent
        self._states: dict[K, S] = {}

    def state(self, key: K) -> S:
        return self._states.get(key, self._absent)

    def start(self, states: Mapping[K, S]) -> None:
        """Take over states as a new controller finds them, without a transition."""
        self._states = dict(states)

    def move(self, keys: Iterable[K], target: S) -> None:
        """Move all keys, or none: raises if any of them is in the wrong state."""
        keys = list(keys)
        legal = self._predecessors[target]
        states, absent = self._states, self._absent
        for key in keys:
            if states.get(key, absent) not in legal:
                raise IllegalTransitionError(
                    f"{key} cannot go from {self.state(key).value} to {target.value}"
                )
        if target is absent:
            for key in keys:
                del states[key]
        else:
            states.update(dict.fromkeys(keys, target))

    def in_state(self, state: S) -> list[K]:
        return [key for key, current in self._states.items() if current is state]

    def __len__(self) -> int:
        return len(self._states)


def partition_states() -> StateMachine[tuple[str, int], PartitionState]:
    """Keys are (topic, partition)."""
    return StateMachine(PARTITION_PREDECESSORS, PartitionState.NON_EXISTENT)


def replica_states() -> StateMachine[tuple[str, int, int], ReplicaState]:
    """Keys are (topic, partition, broker)."""
    return StateMachine(REPLICA_PREDECESSORS, ReplicaState.NON_EXISTENT)
