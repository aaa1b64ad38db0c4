"""Every pair of states, of partitions and of replicas: what may follow what."""

from __future__ import annotations

import itertools

import pytest

from moldau.controller.states import (
    PARTITION_PREDECESSORS,
    REPLICA_PREDECESSORS,
    IllegalTransitionError,
    PartitionState,
    ReplicaState,
    partition_states,
    replica_states,
)

P = PartitionState
R = ReplicaState

LEGAL_PARTITION_MOVES = {
    (P.NON_EXISTENT, P.NEW),
    (P.NEW, P.ONLINE),
    (P.ONLINE, P.ONLINE),
    (P.OFFLINE, P.ONLINE),
    (P.NEW, P.OFFLINE),
    (P.ONLINE, P.OFFLINE),
    (P.OFFLINE, P.OFFLINE),
    (P.OFFLINE, P.NON_EXISTENT),
}
LEGAL_REPLICA_MOVES = {
    (R.NON_EXISTENT, R.NEW),
    (R.NEW, R.ONLINE),
    (R.ONLINE, R.ONLINE),
    (R.OFFLINE, R.ONLINE),
    (R.DELETION_INELIGIBLE, R.ONLINE),
    (R.NEW, R.OFFLINE),
    (R.ONLINE, R.OFFLINE),
    (R.OFFLINE, R.OFFLINE),
    (R.DELETION_INELIGIBLE, R.OFFLINE),
    (R.OFFLINE, R.DELETION_STARTED),
    (R.DELETION_STARTED, R.DELETION_SUCCESSFUL),
    (R.DELETION_STARTED, R.DELETION_INELIGIBLE),
    (R.OFFLINE, R.DELETION_INELIGIBLE),
    (R.DELETION_SUCCESSFUL, R.NON_EXISTENT),
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(P, P)))
def test_partition_moves(before: P, after: P) -> None:
    machine = partition_states()
    key = ("t", 0)
    if before is not P.NON_EXISTENT:
        machine.start({key: before})
    if (before, after) in LEGAL_PARTITION_MOVES:
        machine.move([key], after)
        assert machine.state(key) is after
    else:
        with pytest.raises(IllegalTransitionError, match=before.value):
            machine.move([key], after)
        assert machine.state(key) is before


@pytest.mark.parametrize(("before", "after"), list(itertools.product(R, R)))
def test_replica_moves(before: R, after: R) -> None:
    machine = replica_states()
    key = ("t", 0, 1)
    if before is not R.NON_EXISTENT:
        machine.start({key: before})
    if (before, after) in LEGAL_REPLICA_MOVES:
        machine.move([key], after)
        assert machine.state(key) is after
    else:
        with pytest.raises(IllegalTransitionError, match=before.value):
            machine.move([key], after)
        assert machine.state(key) is before


def test_the_tables_name_every_state() -> None:
    assert set(PARTITION_PREDECESSORS) == set(P)
    assert set(REPLICA_PREDECESSORS) == set(R)


def test_one_illegal_move_stops_the_whole_batch() -> None:
    machine = partition_states()
    machine.start({("t", 0): P.OFFLINE, ("t", 1): P.ONLINE})
    with pytest.raises(IllegalTransitionError):
        machine.move([("t", 0), ("t", 1)], P.NON_EXISTENT)
    assert machine.state(("t", 0)) is P.OFFLINE
    assert machine.state(("t", 1)) is P.ONLINE


def test_what_is_gone_takes_no_room() -> None:
    machine = replica_states()
    machine.start({("t", 0, 1): R.DELETION_SUCCESSFUL})
    machine.move([("t", 0, 1)], R.NON_EXISTENT)
    assert len(machine) == 0
    assert machine.in_state(R.NON_EXISTENT) == []
