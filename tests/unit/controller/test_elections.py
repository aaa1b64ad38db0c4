from __future__ import annotations

from uuid import UUID

import pytest

from moldau.controller.elections import (
    controlled_shutdown_leader,
    elect_for_shutdown,
    elect_offline,
    elect_preferred,
    offline_leader,
    preferred_leader,
    reassignment_leader,
    without_replicas,
)
from moldau.controller.link import NO_LEADER, LeaderAndIsr
from moldau.coordination.znodes import RECOVERED, RECOVERING


def state(
    leader: int = 1,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    recovery: int = RECOVERED,
) -> LeaderAndIsr:
    return LeaderAndIsr("t", UUID(int=1), 0, leader, 5, isr, replicas, 9, 1, recovery, is_new=True)


@pytest.mark.parametrize(
    ("isr", "live", "unclean", "leader"),
    [
        ([1, 2], [1, 2, 3], False, 1),
        ([1, 2], [2, 3], False, 2),
        ([2, 1], [1, 2], False, 1),
        ([1], [2, 3], False, None),
        ([1], [2, 3], True, 2),
        ([1], [], True, None),
        ([3], [2, 3], True, 3),
    ],
)
def test_the_first_live_in_sync_replica_of_the_assignment_leads(
    isr: list[int], live: list[int], unclean: bool, leader: int | None
) -> None:
    assert offline_leader([1, 2, 3], isr, live, unclean=unclean) == leader


def test_the_preferred_leader_is_the_first_replica_or_nobody() -> None:
    assert preferred_leader([1, 2], [2, 1], [1, 2]) == 1
    assert preferred_leader([1, 2], [2], [1, 2]) is None
    assert preferred_leader([1, 2], [1, 2], [2]) is None
    assert preferred_leader([], [], []) is None


def test_a_reassignment_picks_among_the_target_replicas() -> None:
    assert reassignment_leader([4, 5], [1, 5], [1, 4, 5]) == 5
    assert reassignment_leader([4, 5], [1], [1, 4, 5]) is None


def test_a_controlled_shutdown_avoids_the_broker_that_leaves() -> None:
    assert controlled_shutdown_leader([1, 2, 3], [1, 3], [1, 2, 3], {1}) == 3
    assert controlled_shutdown_leader([1], [1], [1], {1}) is None


def test_a_new_leadership_raises_both_epochs_and_shrinks_the_isr_to_the_living() -> None:
    new = elect_offline(state(), [2, 3], 7, unclean=False)
    assert new is not None
    assert (new.leader, new.isr) == (2, (2, 3))
    assert (new.leader_epoch, new.partition_epoch, new.controller_epoch) == (6, 10, 7)
    assert new.replicas == (1, 2, 3)
    assert not new.is_new


def test_without_a_live_in_sync_replica_there_is_no_leader() -> None:
    assert elect_offline(state(isr=(1,)), [2, 3], 7, unclean=False) is None


def test_an_unclean_leader_stands_alone_and_has_to_recover() -> None:
    new = elect_offline(state(isr=(1,)), [2, 3], 7, unclean=True)
    assert new is not None
    assert (new.leader, new.isr, new.leader_recovery_state) == (2, (2,), RECOVERING)


def test_a_clean_election_keeps_the_recovery_state() -> None:
    new = elect_offline(state(isr=(1, 2), recovery=RECOVERING), [2], 7, unclean=True)
    assert new is not None
    assert new.leader_recovery_state == RECOVERING


def test_a_restarted_broker_gives_way_to_another_in_sync_replica() -> None:
    new = elect_offline(state(), [1, 2, 3], 7, unclean=False, restarted={1})
    assert new is not None
    assert (new.leader, new.isr) == (2, (2, 3))


def test_a_restarted_broker_leads_again_if_it_is_the_only_one_in_sync() -> None:
    alone = state(isr=(1,), replicas=(1,))
    new = elect_offline(alone, [1], 7, unclean=False, restarted={1})
    assert new is not None
    assert (new.leader, new.isr, new.leader_epoch) == (1, (1,), 6)


def test_a_restarted_in_sync_replica_is_better_than_an_unclean_one() -> None:
    new = elect_offline(state(isr=(1,)), [1, 2, 3], 7, unclean=True, restarted={1})
    assert new is not None
    assert (new.leader, new.isr, new.leader_recovery_state) == (1, (1,), RECOVERED)


def test_the_preferred_election_keeps_the_isr() -> None:
    new = elect_preferred(state(leader=2, isr=(2, 1)), [1, 2, 3], 7)
    assert new is not None
    assert (new.leader, new.isr, new.leader_epoch) == (1, (2, 1), 6)
    assert elect_preferred(state(leader=2, isr=(2,)), [1, 2], 7) is None


def test_a_shutdown_takes_the_leaving_broker_out_of_the_isr() -> None:
    new = elect_for_shutdown(state(), [1, 2, 3], {1}, 7)
    assert new is not None
    assert (new.leader, new.isr) == (2, (2, 3))
    assert elect_for_shutdown(state(isr=(1,)), [1, 2, 3], {1}, 7) is None


def test_losing_a_follower_keeps_the_leadership() -> None:
    new = without_replicas(state(), {3}, 7)
    assert new is not None
    assert (new.leader, new.isr) == (1, (1, 2))
    assert (new.leader_epoch, new.partition_epoch, new.controller_epoch) == (5, 10, 7)


def test_losing_the_leader_for_good_ends_the_leadership() -> None:
    new = without_replicas(state(isr=(1,)), {1}, 7)
    assert new is not None
    assert (new.leader, new.isr, new.leader_epoch) == (NO_LEADER, (1,), 6)


def test_losing_all_keeps_the_last_leader_in_the_isr() -> None:
    new = without_replicas(state(isr=(2, 1)), {1, 2, 3}, 7)
    assert new is not None
    assert (new.leader, new.isr) == (NO_LEADER, (1,))


def test_losing_replicas_that_are_not_in_sync_changes_nothing() -> None:
    assert without_replicas(state(isr=(1,)), {2, 3}, 7) is None
    assert without_replicas(state(leader=NO_LEADER, isr=(1,)), {1}, 7) is None
